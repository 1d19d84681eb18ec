"""Failed starts of agents, for back-off and parking; kept over a restart of the daemon."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict

from hive_core.ledger.core.connection import Connection
from hive_core.model.agents.machine import FailureHistory


def _starts(text: str) -> FailureHistory:
    value = json.loads(text)
    return FailureHistory(**{**value, "failures": tuple(value["failures"])})


class StartFailureStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def get(self, agent: str) -> FailureHistory | None:
        text = self._db.value("SELECT value FROM starts WHERE agent = ?", (agent,))
        return _starts(text) if text else None

    def all(self) -> dict[str, FailureHistory]:
        rows = self._db.rows("SELECT agent, value FROM starts")
        return {agent: _starts(text) for agent, text in rows}

    def get_many(self, agents: Iterable[str]) -> dict[str, FailureHistory]:
        """The failed starts of those of these agents that have any."""
        sql = "SELECT agent, value FROM starts WHERE agent IN (SELECT value FROM json_each(?))"
        rows = self._db.rows(sql, (json.dumps(list(agents)),))
        return {agent: _starts(text) for agent, text in rows}

    def put(self, agent: str, starts: FailureHistory) -> None:
        self._db.run(
            "INSERT OR REPLACE INTO starts (agent, value) VALUES (?, ?)",
            (agent, json.dumps(asdict(starts))),
        )

    def clear(self, agent: str) -> None:
        self._db.run("DELETE FROM starts WHERE agent = ?", (agent,))
