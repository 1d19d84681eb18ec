"""docs/grafana/hive.json shows the metrics that get_metrics has, all of them and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from fixtures.world import Reply, World, rows

FILE: Final = Path(__file__).parents[2] / "docs" / "grafana" / "hive.json"
# As the text format of Prometheus names the series of a family.
_SUFFIXES: Final = {
    "counter": ("_total",), "gauge": ("",), "summary": ("_count", "_sum"),
    "histogram": ("_bucket", "_count", "_sum"),
}  # fmt: skip
_METRIC: Final = re.compile(r"\bhive_[a-z_]+")
_LABELS: Final = re.compile(r"by \(([a-z_, ]+)\)")


def expressions() -> list[tuple[str, str]]:
    """Expression and legend of each line of each panel."""
    panels = json.loads(FILE.read_text(encoding="utf-8"))["panels"]
    return [
        (str(target["expr"]), str(target["legendFormat"]))
        for panel in panels
        for target in panel["targets"]
    ]


def families(world: World) -> dict[str, str]:
    """The type of each family by its name."""
    pages = world.ask("operator", "get_metrics", more=True).pages
    listed = [family for page in pages for family in rows(page["families"])]
    return {str(family["name"]): str(family["type"]) for family in listed}


def fields(row: Reply, key: str) -> Reply:
    value = row[key]
    assert isinstance(value, dict)
    return value


def test_each_expression_names_a_series_that_exists(world: World) -> None:
    series = {name + suffix for name, kind in families(world).items() for suffix in _SUFFIXES[kind]}
    named = {name for expression, _ in expressions() for name in _METRIC.findall(expression)}
    assert named - series == set()


def test_each_family_is_shown(world: World) -> None:
    text = " ".join(expression for expression, _ in expressions())
    assert [name for name in families(world) if name not in text] == []


def test_each_legend_has_labels_that_are_left(world: World) -> None:
    """After `sum by (...)` only those labels are there."""
    world.call("a1", "report_usage", tokens_in=5, turn_seconds=[1.0])
    pages = world.ask("operator", "get_metrics", more=True).pages
    labels: dict[str, set[str]] = {}
    for family in [family for page in pages for family in rows(page["families"])]:
        all_labels = [fields(sample, "labels") for sample in rows(family["samples"])]
        labels[str(family["name"])] = {name for each_of in all_labels for name in each_of}
    for expression, legend in expressions():
        wanted = set(re.findall(r"{{([a-z_]+)}}", legend))
        summed = _LABELS.search(expression)
        if summed is not None:
            assert wanted <= set(summed[1].split(", ")), expression
        name = next(name for name in labels if name in expression)
        assert not labels[name] or wanted <= labels[name], expression
