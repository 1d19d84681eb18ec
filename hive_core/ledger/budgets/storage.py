"""What was allotted, agent by agent, and which machines draw on it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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

# What moves along when the clock is set (ledger/core/clock_shift.py); ?1 is by how many seconds.
MOVED: Final[tuple[str, ...]] = (
    "UPDATE purses SET as_of = as_of + CAST(round(?1 * 1000) AS INTEGER),"
    " dry_at = dry_at + CAST(round(?1 * 1000) AS INTEGER)",
    "UPDATE shortages SET since = since + ?1, stop_at = stop_at + ?1",
    "UPDATE running SET since = since + CAST(round(?1 * 1000) AS INTEGER)",
    *BOUNDS_MOVED,
    *USAGE_MOVED,
)
_COLUMNS: Final = "agent, kind, tier, free, spent, over, warned, runners, as_of"


@dataclass(frozen=True, slots=True)
class Shortage:
    """A purse with nothing in it. `stopped`: whose machines were stopped for it."""

    agent: str
    kind: BudgetKind
    tier: str
    since: float
    asked: str
    question: str
    stop_at: float | None
    stopped: tuple[str, ...]


def _budget(row: tuple[Any, ...]) -> Budget:
    agent, kind, tier, free, spent, over, warned, runners, as_of = row
    return Budget(agent, BudgetKind(kind), tier, free, spent, over, bool(warned), runners, as_of)


def _shortage(row: tuple[Any, ...]) -> Shortage:
    agent, kind, tier, since, asked, question, stop_at, stopped = row
    ended = tuple(json.loads(stopped))
    return Shortage(agent, BudgetKind(kind), tier, since, asked, question, stop_at, ended)


class BudgetStore:
    """Purses by agent, kind and tier; `usage` has what was used, whoever paid.

    `funds` are those of single tasks, `bounds` what agents say of themselves; `counters` has how
    much of their processor time is in `usage`; `departed` are those who are no more.
    """

    def __init__(self, connection: Connection, events: AuditLog) -> None:
        self._db = connection
        self.usage = UsageStore(connection, events)
        self.rollups = UsageRollups(connection, self.usage)
        self.funds = FundStore(connection)
        self.bounds = ReportedBounds(connection)
        self.cpu = CpuCounters(connection)
        # Kinds that anybody has a purse of, and the bounds of calls a minute by agent: read once
        # and again after each change, because most calls of most hives have to do with neither.
        self._kinds: frozenset[str] | None = None
        self._caps: Mapping[str, int] | None = None
        self.version = 0
        connection.undo.always(self._forget)

    def _forget(self) -> None:
        self._kinds = self._caps = None
        self.version += 1

    @property
    def kinds(self) -> frozenset[str]:
        """Of what there are purses at all."""
        if self._kinds is None:
            rows = self._db.rows("SELECT DISTINCT kind FROM purses")
            self._kinds = frozenset(kind for (kind,) in rows)
        return self._kinds

    @property
    def caps(self) -> Mapping[str, int]:
        """Calls a minute by agent."""
        if self._caps is None:
            sql = "SELECT agent, free FROM purses WHERE kind = ?"
            self._caps = dict(self._db.rows(sql, (BudgetKind.CALLS,)))
        return self._caps

    def get(self, agent: str, kind: BudgetKind, tier: str = "") -> Budget | None:
        row = self._db.row(
            f"SELECT {_COLUMNS} FROM purses WHERE agent = ? AND kind = ? AND tier = ?",  # noqa: S608
            (agent, kind, tier),
        )
        return _budget(row) if row else None

    def nearest(self, chain: Iterable[str], kind: BudgetKind, tier: str = "") -> Budget | None:
        """The first purse on the way up."""
        if kind not in self.kinds:
            return None
        found = (self.get(agent, kind, tier) for agent in chain)
        return next((purse for purse in found if purse is not None), None)

    def of(self, agent: str) -> list[Budget]:
        """All purses of an agent."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM purses WHERE agent = ? ORDER BY kind, tier",  # noqa: S608
            (agent,),
        )
        return [_budget(row) for row in rows]

    def of_kind(self, kind: BudgetKind, tier: str | None = None) -> list[Budget]:
        """Everybody's purses of this kind, of one tier or of all."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM purses WHERE kind = ? ORDER BY agent, tier",  # noqa: S608
            (kind,),
        )
        return [_budget(row) for row in rows if tier is None or row[2] == tier]

    def save(self, purse: Budget) -> None:
        """As it is now."""
        self._db.run(
            f"INSERT OR REPLACE INTO purses ({_COLUMNS}, dry_at)"  # noqa: S608
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                purse.agent, purse.kind, purse.tier, purse.free, purse.spent, purse.over,
                int(purse.warned), purse.runners, purse.as_of, purse.dry_at,
            ),
        )  # fmt: skip
        if purse.kind is BudgetKind.CALLS or purse.kind not in (self._kinds or ()):
            self._forget()

    def delete(self, purse: Budget) -> None:
        """The agent draws on its ancestors again."""
        where = "WHERE agent = ? AND kind = ? AND tier = ?"
        values = (purse.agent, purse.kind, purse.tier)
        self._db.run(f"DELETE FROM purses {where}", values)  # noqa: S608
        self._db.run(f"DELETE FROM shortages {where}", values)  # noqa: S608
        self._forget()

    def forget_agent(self, agent: str) -> None:
        """It is no more: nothing that it said counts, and it is short of nothing."""
        self.bounds.forget_hour(agent)
        self.bounds.forget_context(agent)
        self._db.run("DELETE FROM shortages WHERE agent = ?", (agent,))

    # Machines and their time.

    def running_agents(self) -> dict[str, int]:
        """Since when whose machine runs, in milliseconds."""
        return dict(self._db.rows("SELECT agent, since FROM running"))

    def running_since(self, agent: str) -> int | None:
        found: int | None = self._db.value("SELECT since FROM running WHERE agent = ?", (agent,))
        return found

    def start_run(self, agent: str, since: int) -> None:
        self._db.run("INSERT OR REPLACE INTO running VALUES (?, ?)", (agent, since))

    def end_run(self, agent: str) -> None:
        self._db.run("DELETE FROM running WHERE agent = ?", (agent,))

    def next_empty_at(self) -> float | None:
        """When the first purse of time will be empty."""
        found = self._db.value("SELECT dry_at FROM purses WHERE dry_at IS NOT NULL ORDER BY dry_at")
        return None if found is None else found / 1000

    def due_empty(self, now: int, limit: int) -> list[Budget]:
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM purses WHERE dry_at <= ? ORDER BY dry_at LIMIT ?",  # noqa: S608
            (now, limit),
        )
        return [_budget(row) for row in rows]

    # Shortages.

    def save_shortage(self, shortage: Shortage) -> None:
        self._db.run(
            "INSERT OR REPLACE INTO shortages VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                shortage.agent, shortage.kind, shortage.tier, shortage.since, shortage.asked,
                shortage.question, shortage.stop_at, json.dumps(shortage.stopped),
            ),
        )  # fmt: skip

    def shortage(self, purse: Budget) -> Shortage | None:
        row = self._db.row(
            "SELECT * FROM shortages WHERE agent = ? AND kind = ? AND tier = ?",
            (purse.agent, purse.kind, purse.tier),
        )
        return _shortage(row) if row else None

    def shortage_of_question(self, question: str) -> Shortage | None:
        """For which one this question was put."""
        row = self._db.row("SELECT * FROM shortages WHERE question = ?", (question,))
        return _shortage(row) if row else None

    def shortages(self) -> list[Shortage]:
        """All that there are, the oldest first."""
        return [_shortage(row) for row in self._db.rows("SELECT * FROM shortages ORDER BY since")]

    def delete_shortage(self, purse: Budget) -> None:
        """There is something in it again."""
        self._db.run(
            "DELETE FROM shortages WHERE agent = ? AND kind = ? AND tier = ?",
            (purse.agent, purse.kind, purse.tier),
        )

    def next_stop_at(self) -> float | None:
        """When work on an empty purse is stopped next."""
        found: float | None = self._db.value("SELECT MIN(stop_at) FROM shortages")
        return found

    def overdue_shortages(self, now: float, limit: int) -> Sequence[Shortage]:
        rows = self._db.rows(
            "SELECT * FROM shortages WHERE stop_at <= ? ORDER BY stop_at LIMIT ?", (now, limit)
        )
        return [_shortage(row) for row in rows]
