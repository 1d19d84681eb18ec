"""Rows of waits. A call is not held open during a wait."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final
from uuid import uuid4

from hive_core.errors import NotFound
from hive_core.ledger.core.connection import Connection
from hive_core.model.work.planning import WAIT, ParkedWait, WaitCondition, WaitState

CLOCK_SHIFT: Final = (
    "UPDATE waits SET created = created + ?1, deadline = deadline + ?1, ended = ended + ?1",
)
_DIGITS: Final = 12
_AT_ONCE: Final = 1000
_COLUMNS: Final = "id, agent, mode, state, created, deadline, ended, message, reason"
_TASK, _AGENT = "task", "agent"


class WaitStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection

    @cached_property
    def may_wait(self) -> set[str]:
        """Agents that have waited since the daemon started; a message to others ends no wait.

        A surplus entry costs one query, so entries are not removed, even when a transaction is
        rolled back.
        """
        rows = self._db.rows("SELECT DISTINCT agent FROM waits WHERE state = 'waiting'")
        return {agent for (agent,) in rows}

    def create(self, agent: str, wish: WaitCondition, now: float, deadline: float) -> ParkedWait:
        """Create a wait."""
        id_ = uuid4().hex[:_DIGITS]
        self.may_wait.add(agent)
        self._db.run(
            "INSERT INTO waits (id, agent, mode, state, created, deadline)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (id_, agent, "all" if wish.all else "any", WAIT.start, now, deadline),
        )
        things = [(id_, _TASK, thing) for thing in dict.fromkeys(wish.tasks)]
        things += [(id_, _AGENT, thing) for thing in dict.fromkeys(wish.agents)]
        self._db.run_each("INSERT INTO awaited (wait, kind, thing) VALUES (?, ?, ?)", things)
        return self.require(id_)

    def get(self, id_: str) -> ParkedWait | None:
        row = self._db.row(f"SELECT {_COLUMNS} FROM waits WHERE id = ?", (id_,))  # noqa: S608
        return self._wait_from_row(row) if row else None

    def require(self, id_: str) -> ParkedWait:
        wait = self.get(id_)
        if wait is None:
            raise NotFound(f"no wait {id_}")
        return wait

    def open_waits(self, agent: str) -> list[ParkedWait]:
        """Open waits of an agent, the oldest first."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM waits WHERE agent = ? AND state = ?"  # noqa: S608
            " ORDER BY number",
            (agent, WAIT.start),
        )
        return [self._wait_from_row(row) for row in rows]

    def is_waiting(self, agent: str) -> bool:
        """Whether an agent has an open wait, so that it is blocked."""
        sql = "SELECT 1 FROM waits WHERE agent = ? AND state = 'waiting' LIMIT 1"
        return self._db.value(sql, (agent,)) is not None

    def waits_for_task(self, task: str) -> list[ParkedWait]:
        """Open waits for the end of this task."""
        rows = self._db.rows(
            "SELECT w.id FROM awaited a JOIN waits w ON w.id = a.wait"
            " WHERE a.kind = ? AND a.thing = ? AND w.state = ? ORDER BY w.number",
            (_TASK, task, WAIT.start),
        )
        return [self.require(id_) for (id_,) in rows]

    def set_task_end(self, id_: str, task: str, status: str) -> ParkedWait:
        """Record the end of a task in a wait for it."""
        self._db.run(
            "UPDATE awaited SET status = ? WHERE wait = ? AND kind = ? AND thing = ?",
            (status, id_, _TASK, task),
        )
        return self.require(id_)

    def move(
        self, id_: str, event: str, now: float, *, message: str = "", reason: str = ""
    ) -> ParkedWait:  # fmt: skip
        """End a wait; IllegalTransition if it has ended."""
        wait = self.require(id_)
        self._db.run(
            "UPDATE waits SET state = ?, ended = ?, message = ?, reason = ? WHERE id = ?",
            (WAIT.next(wait.state, event), now, message, reason, id_),
        )
        return self.require(id_)

    def waits_by_message(self, messages: list[str]) -> dict[str, str]:
        """The waits that these messages ended, by message."""
        if not messages:
            return {}
        marks = ", ".join("?" * len(messages))
        sql = f"SELECT message, id FROM waits WHERE message IN ({marks}) ORDER BY number DESC"  # noqa: S608
        return dict(self._db.rows(sql, messages))

    def next_deadline(self) -> float | None:
        at: float | None = self._db.value("SELECT MIN(deadline) FROM waits WHERE state = 'waiting'")
        return at

    def overdue(self, now: float, most: int) -> list[ParkedWait]:
        """Open waits whose deadline has come."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM waits WHERE state = 'waiting' AND deadline <= ?"  # noqa: S608
            " ORDER BY deadline LIMIT ?",
            (now, most),
        )
        return [self._wait_from_row(row) for row in rows]

    def prune(self, before: float) -> int:
        """Delete waits that ended before this time, a limited number; return how many."""
        ids = self._db.rows(
            "SELECT id FROM waits WHERE ended < ? ORDER BY ended LIMIT ?", (before, _AT_ONCE)
        )
        self._db.run_each("DELETE FROM awaited WHERE wait = ?", ids)
        self._db.run_each("DELETE FROM waits WHERE id = ?", ids)
        return len(ids)

    def _wait_from_row(self, row: tuple[Any, ...]) -> ParkedWait:
        id_, agent, mode, state, created, deadline, ended, message, reason = row
        things = self._db.rows("SELECT kind, thing, status FROM awaited WHERE wait = ?", (id_,))
        wish = WaitCondition(
            tuple(thing for kind, thing, _ in things if kind == _TASK),
            tuple(thing for kind, thing, _ in things if kind == _AGENT),
            mode == "all",
        )
        ends = tuple((thing, status) for kind, thing, status in things if status)
        return ParkedWait(
            id_, agent, wish, WaitState(state), created, deadline, ended, message, reason, ends
        )
