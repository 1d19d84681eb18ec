"""The desired state of each agent: running, sleeping or stopped.

It is not in git, because it changes too often.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TypedDict, Unpack

from hive_core.ledger.core.connection import Connection
from hive_core.model.agents.machine import DesiredRun, DesiredState


class WantOptions(TypedDict, total=False):
    """Options of a desired state. `fresh` requests a new start of a running agent."""

    grace: float
    reason: str
    fresh: bool


_COLUMNS = "agent, wanted, nonce, grace, since, reason"


def _run(row: tuple[str, str, int, float, float, str]) -> DesiredRun:
    agent, wanted, nonce, grace, since, reason = row
    return DesiredRun(agent, DesiredState(wanted), nonce, grace, since, reason)


class RunStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def get(self, agent: str) -> DesiredRun | None:
        row = self._db.row(f"SELECT {_COLUMNS} FROM runs WHERE agent = ?", (agent,))  # noqa: S608
        return _run(row) if row else None

    def all(self) -> dict[str, DesiredRun]:
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM runs")  # noqa: S608 - our own names
        return {row[0]: _run(row) for row in rows}

    def get_many(self, agents: Iterable[str]) -> dict[str, DesiredRun]:
        """The desired states of those of these agents that have one."""
        sql = f"SELECT {_COLUMNS} FROM runs WHERE agent IN (SELECT value FROM json_each(?))"  # noqa: S608
        return {row[0]: _run(row) for row in self._db.rows(sql, (json.dumps(list(agents)),))}

    def want(
        self, agent: str, wanted: DesiredState, now: float, **how: Unpack[WantOptions]
    ) -> DesiredRun:
        """Record the desired state. A new request to run, or a `fresh` one, gets a new nonce.

        `since` is the time of the first such request; a repeated request does not change it.
        """
        before = self.get(agent)
        nonce, since = (before.nonce, before.since) if before else (0, now)
        if before is None or before.wanted is not wanted or how.get("fresh"):
            nonce, since = nonce + (wanted is DesiredState.RUNNING), now
        run = DesiredRun(
            agent, wanted, nonce, how.get("grace", 5.0), since, how.get("reason", "")
        )  # fmt: skip
        self._db.run(
            "INSERT OR REPLACE INTO runs (agent, wanted, nonce, grace, since, reason)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (agent, wanted.value, nonce, run.grace, since, run.reason),
        )
        return run

    def drop(self, agent: str) -> None:
        self._db.run("DELETE FROM runs WHERE agent = ?", (agent,))
