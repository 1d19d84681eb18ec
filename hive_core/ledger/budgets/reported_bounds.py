"""Reports of agents with a limit (tokens an hour, context): one row for each agent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from hive_core.ledger.core.connection import Connection
from hive_core.model.wire.window import HourWindow

MOVED: Final[tuple[str, ...]] = ("UPDATE token_hours SET at = at + ?1",)


class ReportedBounds:
    """`warned`: the agent was warned of its limit, and has not been below the threshold since."""

    def __init__(self, connection: Connection) -> None:
        self._db = connection

    def hour(self, agent: str, now: float) -> tuple[HourWindow, bool]:
        """Tokens of an agent and its descendants in the last hour; and whether it was warned."""
        row = self._db.row("SELECT at, counts, warned FROM token_hours WHERE agent = ?", (agent,))
        if row is None:
            return HourWindow(now), False
        at, counts, warned = row
        return HourWindow(at, tuple(json.loads(counts))).advance(now), bool(warned)

    def save_hour(self, agent: str, hour: HourWindow, *, warned: bool) -> None:
        self._db.run(
            "INSERT OR REPLACE INTO token_hours VALUES (?, ?, ?, ?)",
            (agent, hour.at, json.dumps(hour.counts), int(warned)),
        )

    def forget_hour(self, agent: str) -> None:
        self._db.run("DELETE FROM token_hours WHERE agent = ?", (agent,))

    def context(self, agent: str) -> tuple[int, bool]:
        """The size that an agent reported last, and whether it was warned."""
        row = self._db.row("SELECT tokens, warned FROM contexts WHERE agent = ?", (agent,))
        return (0, False) if row is None else (int(row[0]), bool(row[1]))

    def save_context(self, agent: str, tokens: int, *, warned: bool) -> None:
        self._db.run(
            "INSERT OR REPLACE INTO contexts VALUES (?, ?, ?)", (agent, tokens, int(warned))
        )

    def contexts(self) -> dict[str, int]:
        """The sizes that all agents reported last."""
        return dict(self._db.rows("SELECT agent, tokens FROM contexts"))

    def contexts_of(self, agents: Iterable[str]) -> dict[str, int]:
        """The sizes that these agents reported last."""
        sql = "SELECT agent, tokens FROM contexts WHERE agent IN (SELECT value FROM json_each(?))"
        return dict(self._db.rows(sql, (json.dumps(list(agents)),)))

    def forget_context(self, agent: str) -> None:
        self._db.run("DELETE FROM contexts WHERE agent = ?", (agent,))
