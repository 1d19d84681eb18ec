"""Budgets by agent, the machines that draw on them, and their shortages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from hive_core.ledger.audit.events import AuditLog
from hive_core.ledger.budgets.cpu_time import CpuCounters
from hive_core.ledger.budgets.reported_bounds import MOVED as BOUNDS_MOVED
from hive_core.ledger.budgets.reported_bounds import ReportedBounds
from hive_core.ledger.budgets.usage import MOVED as USAGE_MOVED
from hive_core.ledger.budgets.usage import UsageStore
from hive_core.ledger.budgets.usage_rollup import UsageRollups
from hive_core.ledger.core.connection import Connection
from hive_core.ledger.tasks.funds import FundStore
from hive_core.model.work.budget import Budget, BudgetKind

# Statements that shift times when the clock is set (ledger/core/clock_shift.py); ?1 is the shift in
# seconds.
MOVED: Final[tuple[str, ...]] = (
    "UPDATE purses SET as_of = as_of + CAST(round(?1 * 1000) AS INTEGER),"
    " dry_at = dry_at + CAST(round(?1 * 1000) AS INTEGER)",
    "UPDATE shortages SET since = since + ?1, stop_at = stop_at + ?1",
    "UPDATE running SET since = since + CAST(round(?1 * 1000) AS INTEGER)",
    *BOUNDS_MOVED,
    *USAGE_MOVED,
)
_COLUMNS: Final = "agent, kind, tier, free, spent, over, warned, runners, as_of, held"


@dataclass(frozen=True, slots=True)
class Shortage:
    """An empty budget. `stopped`: UUIDs of the agents whose machines were stopped for it."""

    agent: str
    kind: BudgetKind
    tier: str
    since: float
    asked: str
    question: str
    stop_at: float | None
    stopped: tuple[str, ...]


def _budget(row: tuple[Any, ...]) -> Budget:
    agent, kind, tier, free, spent, over, warned, runners, as_of, held = row
    return Budget(
        agent, BudgetKind(kind), tier, free, spent, over, bool(warned), runners, as_of, held
    )


def _shortage(row: tuple[Any, ...]) -> Shortage:
    agent, kind, tier, since, asked, question, stop_at, stopped = row
    ended = tuple(json.loads(stopped))
    return Shortage(agent, BudgetKind(kind), tier, since, asked, question, stop_at, ended)


class BudgetStore:
    """Budgets by agent, kind and tier.

    `usage` holds what was used, from whichever budget. `funds` are the budgets of single tasks,
    `bounds` holds reports of agents, `cpu` the processor time that is already in `usage`, and
    `rollups` the destroyed agents.
    """

    def __init__(self, connection: Connection, events: AuditLog) -> None:
        self._db = connection
        self.usage = UsageStore(connection, events)
        self.rollups = UsageRollups(connection, self.usage)
        self.funds = FundStore(connection)
        self.bounds = ReportedBounds(connection)
        self.cpu = CpuCounters(connection)
        self.version = 0
        connection.undo.always(self._forget)

    def _forget(self) -> None:
        """Read `kinds` and `caps` again when they are next asked for."""
        for cached in ("kinds", "caps"):
            vars(self).pop(cached, None)
        self.version += 1

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of all budgets. Cached until a change, because each message asks."""
        return frozenset(kind for (kind,) in self._db.rows("SELECT DISTINCT kind FROM purses"))

    @cached_property
    def caps(self) -> Mapping[str, int]:
        """The limits of calls a minute, by agent. Cached until a change: each call asks."""
        sql = "SELECT agent, free FROM purses WHERE kind = ?"
        return dict(self._db.rows(sql, (BudgetKind.CALLS,)))

    def get(self, agent: str, kind: BudgetKind, tier: str = "") -> Budget | None:
        row = self._db.row(
            f"SELECT {_COLUMNS} FROM purses WHERE agent = ? AND kind = ? AND tier = ?",  # noqa: S608
            (agent, kind, tier),
        )
        return _budget(row) if row else None

    def nearest(self, lineage: Iterable[str], kind: BudgetKind, tier: str = "") -> Budget | None:
        """The first budget in a lineage."""
        if kind not in self.kinds:
            return None
        budgets = (self.get(agent, kind, tier) for agent in lineage)
        return next((budget for budget in budgets if budget is not None), None)

    def of(self, agent: str) -> list[Budget]:
        """All budgets of an agent."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM purses WHERE agent = ? ORDER BY kind, tier",  # noqa: S608
            (agent,),
        )
        return [_budget(row) for row in rows]

    def of_kind(self, kind: BudgetKind, tier: str | None = None) -> list[Budget]:
        """The budgets of all agents of this kind, of one tier or of all."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM purses WHERE kind = ? ORDER BY agent, tier",  # noqa: S608
            (kind,),
        )
        return [_budget(row) for row in rows if tier is None or row[2] == tier]

    def save(self, budget: Budget) -> None:
        self._db.run(
            f"INSERT OR REPLACE INTO purses ({_COLUMNS}, dry_at)"  # noqa: S608
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                budget.agent, budget.kind, budget.tier, budget.free, budget.spent, budget.over,
                int(budget.warned), budget.runners, budget.as_of,
                budget.held, budget.dry_at,
            ),
        )  # fmt: skip
        if budget.kind is BudgetKind.CALLS or budget.kind not in vars(self).get("kinds", ()):
            self._forget()

    def delete(self, budget: Budget) -> None:
        """Delete a budget and its shortage: the agent draws on its ancestors again."""
        where = "WHERE agent = ? AND kind = ? AND tier = ?"
        values = (budget.agent, budget.kind, budget.tier)
        self._db.run(f"DELETE FROM purses {where}", values)  # noqa: S608
        self._db.run(f"DELETE FROM shortages {where}", values)  # noqa: S608
        self._forget()

    def forget_agent(self, agent: str) -> None:
        """Delete the reports of a destroyed agent, and its shortages."""
        self.bounds.forget_hour(agent)
        self.bounds.forget_context(agent)
        self._db.run("DELETE FROM shortages WHERE agent = ?", (agent,))

    # Machines and their run time

    def running_agents(self) -> dict[str, int]:
        """The start times of running machines, by agent, in milliseconds."""
        return dict(self._db.rows("SELECT agent, since FROM running"))

    def running_since(self, agent: str) -> int | None:
        since: int | None = self._db.value("SELECT since FROM running WHERE agent = ?", (agent,))
        return since

    def start_run(self, agent: str, since: int) -> None:
        self._db.run("INSERT OR REPLACE INTO running VALUES (?, ?)", (agent, since))

    def end_run(self, agent: str) -> None:
        self._db.run("DELETE FROM running WHERE agent = ?", (agent,))

    def next_empty_at(self) -> float | None:
        """When the next budget of run time will be empty."""
        dry_at = self._db.value(
            "SELECT dry_at FROM purses WHERE dry_at IS NOT NULL ORDER BY dry_at"
        )
        return None if dry_at is None else dry_at / 1000

    def due_empty(self, now: int, limit: int) -> list[Budget]:
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM purses WHERE dry_at <= ? ORDER BY dry_at LIMIT ?",  # noqa: S608
            (now, limit),
        )
        return [_budget(row) for row in rows]

    # Shortages

    def save_shortage(self, shortage: Shortage) -> None:
        self._db.run(
            "INSERT OR REPLACE INTO shortages VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                shortage.agent, shortage.kind, shortage.tier, shortage.since, shortage.asked,
                shortage.question, shortage.stop_at, json.dumps(shortage.stopped),
            ),
        )  # fmt: skip

    def shortage(self, budget: Budget) -> Shortage | None:
        row = self._db.row(
            "SELECT * FROM shortages WHERE agent = ? AND kind = ? AND tier = ?",
            (budget.agent, budget.kind, budget.tier),
        )
        return _shortage(row) if row else None

    def shortage_of_question(self, question: str) -> Shortage | None:
        """The shortage for which this question was asked."""
        row = self._db.row("SELECT * FROM shortages WHERE question = ?", (question,))
        return _shortage(row) if row else None

    def shortages(self) -> list[Shortage]:
        """All shortages, the oldest first."""
        return [_shortage(row) for row in self._db.rows("SELECT * FROM shortages ORDER BY since")]

    def delete_shortage(self, budget: Budget) -> None:
        self._db.run(
            "DELETE FROM shortages WHERE agent = ? AND kind = ? AND tier = ?",
            (budget.agent, budget.kind, budget.tier),
        )

    def next_stop_at(self) -> float | None:
        """When work that draws on an empty budget is next to be stopped."""
        stop_at: float | None = self._db.value("SELECT MIN(stop_at) FROM shortages")
        return stop_at

    def overdue_shortages(self, now: float, limit: int) -> Sequence[Shortage]:
        rows = self._db.rows(
            "SELECT * FROM shortages WHERE stop_at <= ? ORDER BY stop_at LIMIT ?", (now, limit)
        )
        return [_shortage(row) for row in rows]
