"""The migrations of this version, and their states on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hive_core.cli.core.output import Row
from hive_core.host.storage import layout as storage
from hive_core.ledger.core.ledger import MIGRATIONS
from hive_core.ledger.core.opening import migration_scripts

DONE, DUE = "done", "due"


def migrations() -> Iterator[tuple[str, int, str]]:
    """Every migration of this version: kind, number, what it does."""
    for number, (summary, _) in enumerate(storage.STEPS, 1):
        yield storage.STORAGE, number, summary
    for number, file in enumerate(migration_scripts(MIGRATIONS), 1):
        yield storage.LEDGER, number, file.stem[5:].replace("_", " ")


def states(marker: Path) -> list[Row]:
    """The migrations with their states, and newer ones that this version does not have."""
    said = storage.read(marker)
    rows: list[Row] = [
        {"kind": kind, "number": number, "what": summary,
         "state": DONE if number <= said.get(kind, 0) else DUE}
        for kind, number, summary in migrations()
    ]  # fmt: skip
    for kind, at in said.items():
        most = max((number for other, number, _ in migrations() if other == kind), default=0)
        if at > most:
            text = f"this hive has migrations up to {most}: install the newer version again"
            rows.append({"kind": kind, "number": at, "what": text, "state": "newer"})
    return rows
