"""What deploys have done so far, so that a daemon that starts again goes on from there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from hive_core.ledger.core.connection import Connection

_COLUMNS: Final = "approval, before, generation, commit_before, nonce, until"


@dataclass(frozen=True, slots=True)
class DeployRecord:
    """One deploy under way, by its approval.

    `before`: what the spec said, and what there was before: `Change` writes and reads it. `nonce`:
    the start that was asked for; None when the agent runs on. `until`: the end of the window, or
    of the patience with an agent that goes back.
    """

    approval: str
    generation: int
    commit_before: str
    before: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    nonce: int | None = None
    until: float | None = None

    def part(self, name: str) -> Mapping[str, Any]:
        """One table of `before`."""
        found = self.before[name]
        if not isinstance(found, Mapping):
            raise TypeError(f"{name} of a deploy is no table")
        return found


class DeployStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def get(self, approval: str) -> DeployRecord | None:
        sql = f"SELECT {_COLUMNS} FROM deploys WHERE approval = ?"  # noqa: S608 - our own names
        row = self._db.row(sql, (approval,))
        return _deploy(row) if row else None

    def all(self) -> list[DeployRecord]:
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM deploys ORDER BY approval")  # noqa: S608
        return [_deploy(row) for row in rows]

    def put(self, found: DeployRecord) -> None:
        """Remember it, as it is now."""
        self._db.run(
            f"INSERT OR REPLACE INTO deploys ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608
            (
                found.approval, json.dumps(dict(found.before), sort_keys=True), found.generation,
                found.commit_before, found.nonce, found.until,
            ),
        )  # fmt: skip

    def drop(self, approval: str) -> None:
        """It has come out, one way or the other."""
        self._db.run("DELETE FROM deploys WHERE approval = ?", (approval,))


def _deploy(row: tuple[Any, ...]) -> DeployRecord:
    approval, before, generation, commit_before, nonce, until = row
    kept = MappingProxyType(json.loads(before))
    return DeployRecord(approval, generation, commit_before, kept, nonce, until)
