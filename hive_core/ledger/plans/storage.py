"""Rows of plans, and the stores of waits, batches and sweeps.

Rows of plans are kept as a record.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from typing import Any, Final
from uuid import uuid4

from hive_core.errors import NotFound
from hive_core.ledger.batches import storage as batch_storage
from hive_core.ledger.core.connection import Connection
from hive_core.ledger.tasks import end_in_batches, stop_work
from hive_core.ledger.waits import storage as wait_storage
from hive_core.model.wire.rates import TokenBuckets
from hive_core.model.work.planning import PLAN, STEP, Plan, PlanState, PlanStep, StepState

# Statements that shift times when the clock is set (ledger/core/clock_shift.py); ?1 is the shift in
# seconds.
CLOCK_SHIFT: Final[tuple[str, ...]] = (
    "UPDATE plans SET created = created + ?1, decided = decided + ?1",
    *wait_storage.CLOCK_SHIFT,
    *batch_storage.CLOCK_SHIFT,
    *stop_work.CLOCK_SHIFT,
)
DIGITS: Final = 12
_COLUMNS: Final = "id, task, agent, note, state, created, decided_by, decided, reason"
_DECIDING: Final = frozenset({"approve", "reject"})


class ViewRates:
    """Limits how often a caller may read a view that is expensive to compute. In memory."""

    def __init__(self) -> None:
        self._rates: dict[float, TokenBuckets] = {}

    def take(self, key: Hashable, seconds: float, now: float) -> float:
        """Allow one read in this many seconds: 0.0, or the seconds until the next one."""
        rates = self._rates.setdefault(seconds, TokenBuckets(1 / seconds, 1))
        after = rates.take(key, now)
        rates.commit()
        return after


class PlanStore:
    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self.waits = wait_storage.WaitStore(connection)
        self.batches = batch_storage.BatchStore(connection)
        self.stops = stop_work.StopJobs(connection)
        self.sweeps = end_in_batches.SweepQueue(connection)
        self.looks = ViewRates()

    def create(
        self, agent: str, task: str, steps: Sequence[PlanStep], note: str, now: float
    ) -> tuple[Plan, list[str]]:  # fmt: skip
        """Create a submitted plan; return it, and the ids of older plans that it replaces."""
        older = [plan.id for plan in self.plans_of_task(task) if plan.open] if task else []
        for older_id in older:
            self.move(older_id, "void", now, reason="a newer plan took its place")
        id_ = self._new_id()
        self._db.run(
            "INSERT INTO plans (id, task, agent, note, state, created) VALUES (?, ?, ?, ?, ?, ?)",
            (id_, task, agent, note, PLAN.start, now),
        )
        rows = [
            (id_, number, step.title, step.detail, json.dumps(step.tools), STEP.start)
            for number, step in enumerate(steps, 1)
        ]
        self._db.run_each(
            "INSERT INTO plan_steps (plan, step, title, detail, tools, state)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            rows,
        )
        return self.require(id_), older

    def get(self, id_: str) -> Plan | None:
        row = self._db.row(f"SELECT {_COLUMNS} FROM plans WHERE id = ?", (id_,))  # noqa: S608
        return self._plan_from_row(row) if row else None

    def set_prompt(self, id_: str, party: str, letter: str) -> None:
        """Store the party that was asked for a decision, and the message."""
        sql = "UPDATE plans SET asked = ?, letter = ? WHERE id = ?"
        self._db.run(sql, (party, letter, id_))

    def prompt(self, id_: str) -> tuple[str, str]:
        """The party that was asked for a decision, and the message.

        Both empty if none was asked.
        """
        row = self._db.row("SELECT asked, letter FROM plans WHERE id = ?", (id_,))
        return (row[0], row[1]) if row else ("", "")

    def require(self, id_: str) -> Plan:
        plan = self.get(id_)
        if plan is None:
            raise NotFound(f"no plan {id_}")
        return plan

    def plans_of_task(self, task: str) -> list[Plan]:
        """Every plan of a task, the newest first."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM plans WHERE task = ? ORDER BY number DESC",  # noqa: S608
            (task,),
        )
        return [self._plan_from_row(row) for row in rows]

    def plans_of_agent(self, agent: str, limit: int) -> list[Plan]:
        """The newest plans of an agent."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM plans WHERE agent = ?"  # noqa: S608
            " ORDER BY number DESC LIMIT ?",
            (agent, limit),
        )
        return [self._plan_from_row(row) for row in rows]

    def newest(self, task: str) -> str:
        """The id of the newest plan of a task; empty if there is none."""
        sql = "SELECT id FROM plans WHERE task = ? ORDER BY number DESC LIMIT 1"
        return str(self._db.value(sql, (task,)) or "")

    def newest_state(self, task: str) -> str:
        """The state of the newest plan of a task; empty if there is none."""
        sql = "SELECT state FROM plans WHERE task = ? ORDER BY number DESC LIMIT 1"
        return str(self._db.value(sql, (task,)) or "")

    def is_waiting(self, agent: str) -> bool:
        """Whether this agent has an open wait, so that it is blocked."""
        return self.waits.is_waiting(agent)

    def move(
        self, id_: str, event: str, now: float, *, by: str = "", reason: str = ""
    ) -> Plan:  # fmt: skip
        """Apply `event`. IllegalTransition if the current state does not allow it."""
        plan = self.require(id_)
        state = PLAN.next(plan.state, event)
        decides = event in _DECIDING
        self._db.run(
            "UPDATE plans SET state = ?, decided_by = ?, decided = ?, reason = ? WHERE id = ?",
            (
                state, by if decides else plan.decided_by, now if decides else plan.decided,
                reason or plan.reason, id_,
            ),
        )  # fmt: skip
        return self.require(id_)

    def move_step(self, id_: str, number: int, event: str, note: str) -> Plan:
        """Apply an event to one step of a plan. NotFound, IllegalTransition."""
        plan = self.require(id_)
        if not 1 <= number <= len(plan.steps):
            raise NotFound(f"no step {number} in plan {id_}")
        before = plan.steps[number - 1]
        self._db.run(
            "UPDATE plan_steps SET state = ?, note = ? WHERE plan = ? AND step = ?",
            (STEP.next(before.state, event), note or before.note, id_, number),
        )
        return self.require(id_)

    def oldest_end(self) -> float | None:
        """When the oldest of the ended waits and batches ended."""
        at: float | None = self._db.value(
            "SELECT MIN(at) FROM (SELECT MIN(ended) AS at FROM waits WHERE ended IS NOT NULL"
            " UNION ALL SELECT MIN(ended) FROM batches WHERE ended IS NOT NULL)"
        )
        return at

    def prune(self, before: float) -> int:
        """Delete waits and batches that ended before this time, a limited number.

        Return how many.
        """
        return self.waits.prune(before) + batch_storage.prune(self._db, before)

    def _plan_from_row(self, row: tuple[Any, ...]) -> Plan:
        id_, task, agent, note, state, created, decided_by, decided, reason = row
        steps = self._db.rows(
            "SELECT title, detail, tools, state, note FROM plan_steps WHERE plan = ? ORDER BY step",
            (id_,),
        )
        return Plan(
            id_, task, agent, note, PlanState(state), created, decided_by, decided, reason,
            tuple(
                PlanStep(title, detail, tuple(json.loads(tools)), StepState(now), said)
                for title, detail, tools, now, said in steps
            ),
        )  # fmt: skip

    def _new_id(self) -> str:
        while self.get(id_ := uuid4().hex[:DIGITS]) is not None:
            pass
        return id_
