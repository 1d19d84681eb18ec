"""`hive metrics`: metrics of this host in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hive_core.agent.artifacts import write_file
from hive_core.cli.core.output import Row, echo
from hive_core.cli.core.session import Session, entries

if TYPE_CHECKING:
    from prometheus_client.core import Metric


@click.command
@click.option(
    "--write", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="File to write atomically, for the textfile collector of node_exporter.",
)  # fmt: skip
@click.pass_obj
def metrics(session: Session, write: Path | None) -> None:
    """Print metrics of this host for Prometheus."""
    text = page(merge_families(session.rows("get_metrics", "families")))
    if write is None:
        echo(text.rstrip("\n"))
        return
    write_file(write, iter([text.encode()]), force=True)


def merge_families(parts: Iterable[Row]) -> list[Row]:
    """Merge families by name; some arrive in parts."""
    families: dict[str, Row] = {}
    for part in parts:
        name = str(part["name"])
        before = entries(families[name], "samples") if name in families else []
        families[name] = {**part, "samples": [*before, *entries(part, "samples")]}
    return [families[name] for name in sorted(families)]


class _FamilyCollector:
    """A collector for the library that returns the families."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = list(rows)

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import Metric  # noqa: PLC0415 - slow to load

        for row in self._rows:
            name, kind = str(row["name"]), str(row["type"])
            metric = Metric(name, str(row["help"]), kind)
            for sample in entries(dict(row), "samples"):
                labels, value = sample.get("labels"), sample.get("value")
                suffix = "_total" if kind == "counter" else str(sample.get("suffix") or "")
                if isinstance(labels, dict) and isinstance(value, int | float):
                    metric.add_sample(name + suffix, labels, value)
            yield metric


def page(rows: Iterable[Row]) -> str:
    """The page in the text format."""
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_FamilyCollector(rows))
    return generate_latest(registry).decode()
