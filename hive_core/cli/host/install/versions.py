"""Every migration that this version knows, and which of them were done on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hive_core.cli.core.output import Row
from hive_core.host.storage import layout as storage
from hive_core.ledger.core.ledger import MIGRATIONS
from hive_core.ledger.core.opening import numbered

DONE, DUE = "done", "due"


def known() -> Iterator[tuple[str, int, str]]:
    """Every migration of this version: kind, number, what it does."""
    for number, (what, _) in enumerate(storage.STEPS, 1):
        yield storage.STORAGE, number, what
    for number, file in enumerate(numbered(MIGRATIONS), 1):
        yield storage.LEDGER, number, file.stem[5:].replace("_", " ")


def states(marker: Path) -> list[Row]:
    """The same with whether it has been done here; and what is there that we do not know."""
    said = storage.read(marker)
    rows: list[Row] = [
        {"kind": kind, "number": number, "what": what,
         "state": DONE if number <= said.get(kind, 0) else DUE}
        for kind, number, what in known()
    ]  # fmt: skip
    for kind, at in said.items():
        most = max((number for each, number, _ in known() if each == kind), default=0)
        if at > most:
            what = f"this hive knows {most}: install the newer one again"
            rows.append({"kind": kind, "number": at, "what": what, "state": "newer"})
    return rows
