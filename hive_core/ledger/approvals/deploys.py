"""The progress of deploys, so that a restarted daemon continues them."""

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
    """One deploy in progress, by its approval.

    `before` holds the spec and the state before the deploy, for the deployer. `nonce` is the start
    that was requested; None if the agent keeps running. `until` is the end of the health window, or
    of the time for the rollback.
    """

    approval: str
    generation: int
    commit_before: str
    before: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    nonce: int | None = None
    until: float | None = None

    def part(self, name: str) -> Mapping[str, Any]:
        """One table of `before`."""
        table = self.before[name]
        if not isinstance(table, Mapping):
            raise TypeError(f"{name} of a deploy is not a table")
        return table


class DeployStore:
    """The table of deploys in progress."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def get(self, approval: str) -> DeployRecord | None:
        sql = f"SELECT {_COLUMNS} FROM deploys WHERE approval = ?"  # noqa: S608 - our own names
        row = self._db.row(sql, (approval,))
        return _deploy(row) if row else None

    def all(self) -> list[DeployRecord]:
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM deploys ORDER BY approval")  # noqa: S608
        return [_deploy(row) for row in rows]

    def put(self, deploy: DeployRecord) -> None:
        """Store a deploy, replacing the row of that approval."""
        self._db.run(
            f"INSERT OR REPLACE INTO deploys ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608
            (
                deploy.approval, json.dumps(dict(deploy.before), sort_keys=True), deploy.generation,
                deploy.commit_before, deploy.nonce, deploy.until,
            ),
        )  # fmt: skip

    def drop(self, approval: str) -> None:
        """Remove a deploy that has ended."""
        self._db.run("DELETE FROM deploys WHERE approval = ?", (approval,))


def _deploy(row: tuple[Any, ...]) -> DeployRecord:
    approval, before, generation, commit_before, nonce, until = row
    fields = MappingProxyType(json.loads(before))
    return DeployRecord(approval, generation, commit_before, fields, nonce, until)
