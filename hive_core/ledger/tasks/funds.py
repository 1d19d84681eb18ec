"""Budgets of single tasks, and the budgets that they were taken from."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from hive_core.ledger.core.connection import Connection
from hive_core.model.work.budget import Budget, BudgetKind, TaskFund

_COLUMNS: Final = "task, source, agent, kind, free, spent, over, warned, held"
_SELECT: Final = f"SELECT {_COLUMNS} FROM task_purses "  # noqa: S608 - our own words


def _fund_from_row(row: tuple[Any, ...]) -> TaskFund:
    task, source, agent, kind, free, spent, over, warned, held = row
    budget = Budget(agent, BudgetKind(kind), "", free, spent, over, bool(warned), held=held)
    return TaskFund(task, source, budget)


class FundStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection
        # Whether there are any. Most hives have none, and each report checks.
        self._any: bool | None = None
        connection.undo.always(self._forget)

    def _forget(self) -> None:
        self._any = None

    @property
    def any(self) -> bool:
        if self._any is None:
            self._any = bool(self._db.value("SELECT EXISTS (SELECT 1 FROM task_purses)"))
        return self._any

    def get(self, task: str, kind: BudgetKind) -> TaskFund | None:
        row = self._db.row(f"{_SELECT} WHERE task = ? AND kind = ?", (task, kind))
        return _fund_from_row(row) if row else None

    def of_task(self, task: str) -> list[TaskFund]:
        rows = self._db.rows(f"{_SELECT} WHERE task = ? ORDER BY kind", (task,))
        return [_fund_from_row(row) for row in rows]

    def of_agent(self, agent: str) -> list[TaskFund]:
        """The funds of an agent's tasks."""
        rows = self._db.rows(f"{_SELECT} WHERE agent = ? ORDER BY task, kind", (agent,))
        return [_fund_from_row(row) for row in rows] if self.any else []

    def all(self) -> list[TaskFund]:
        return [_fund_from_row(row) for row in self._db.rows(f"{_SELECT} ORDER BY task, kind")]

    def from_source(self, source: str, kind: BudgetKind) -> list[TaskFund]:
        """Funds that were taken from this source; an empty source means from no budget."""
        where = "WHERE source = ? AND kind = ? ORDER BY task"
        return [_fund_from_row(row) for row in self._db.rows(f"{_SELECT} {where}", (source, kind))]

    def open_parts(self, task: str, states: Iterable[str]) -> list[tuple[str, str]]:
        """Open sub-tasks of a task at any depth, in one of these states: each with its agent."""
        rows = self._db.rows(
            "WITH RECURSIVE parts (id, assignee, state) AS ("
            " SELECT id, assignee, state FROM tasks WHERE part_of = ?1 AND part_of <> ''"
            "  AND ended IS NULL"
            " UNION SELECT t.id, t.assignee, t.state FROM parts p JOIN tasks t"
            "  ON t.part_of = p.id AND t.part_of <> '' AND t.ended IS NULL)"
            " SELECT id, assignee FROM parts WHERE state IN (SELECT value FROM json_each(?2))",
            (task, json.dumps(list(states))),
        )
        return [(part, agent) for part, agent in rows]

    def save(self, fund: TaskFund) -> None:
        """Store the fund in its current state."""
        purse = fund.budget
        self._db.run(
            f"INSERT OR REPLACE INTO task_purses ({_COLUMNS})"  # noqa: S608
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                fund.task, fund.source, purse.agent, purse.kind, purse.free, purse.spent,
                purse.over, int(purse.warned), purse.held,
            ),
        )  # fmt: skip
        self._any = True

    def drop(self, fund: TaskFund) -> None:
        """Delete a fund. Its own source becomes the source of funds that were taken from it."""
        key = (fund.task, fund.budget.kind)
        self._db.run("DELETE FROM task_purses WHERE task = ? AND kind = ?", key)
        self._db.run("DELETE FROM task_top_ups WHERE task = ? AND kind = ?", key)
        self.replace_source(fund.task, fund.budget.kind, fund.source)
        self._forget()

    def top_up(self, fund: TaskFund, source: str, amount: int) -> None:
        """Record a top-up from another source; the first source needs no row."""
        if source != fund.source:
            self._db.run(
                "INSERT INTO task_top_ups (task, kind, source, amount) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET amount = amount + excluded.amount",
                (fund.task, fund.budget.kind, source, amount),
            )

    def top_ups(self, fund: TaskFund) -> list[tuple[str, int]]:
        """The amounts from sources other than the first one, the latest first."""
        sql = "SELECT source, amount FROM task_top_ups WHERE task = ? AND kind = ? ORDER BY id DESC"
        rows = self._db.rows(sql, (fund.task, fund.budget.kind))
        return [(source, amount) for source, amount in rows]

    def replace_source(self, source: str, kind: BudgetKind, heir: str) -> None:
        """Replace a source in all funds and top-ups."""
        self._db.run(
            "UPDATE task_purses SET source = ? WHERE source = ? AND kind = ?", (heir, source, kind)
        )
        where = "FROM task_top_ups WHERE source = ? AND kind = ?"
        rows = self._db.rows(f"SELECT task, amount {where} ORDER BY id", (source, kind))
        if rows:
            self._db.run(f"DELETE {where}", (source, kind))
        for task, amount in rows:
            if fund := self.get(task, kind):
                self.top_up(fund, heir, amount)
        # A top-up from the new first source needs no row.
        self._db.run(
            "DELETE FROM task_top_ups WHERE source = ?1 AND kind = ?2 AND EXISTS (SELECT 1 FROM"
            " task_purses p WHERE p.task = task_top_ups.task AND p.kind = ?2 AND p.source = ?1)",
            (heir, kind),
        )

    def add_waking(self, agents: Iterable[str]) -> None:
        """Add agents whose queued tasks may be paid for again and have to be offered."""
        rows = [(agent,) for agent in agents]
        self._db.run_each("INSERT OR IGNORE INTO waking (agent) VALUES (?)", rows)

    @property
    def has_waking(self) -> bool:
        """Whether an agent is to be offered tasks."""
        return bool(self._db.value("SELECT EXISTS (SELECT 1 FROM waking)"))

    def take_waking(self, most: int) -> list[str]:
        """Remove and return the next agents."""
        rows = self._db.rows("SELECT agent FROM waking ORDER BY number LIMIT ?", (most,))
        self._db.run_each("DELETE FROM waking WHERE agent = ?", rows)
        return [agent for (agent,) in rows]
