"""Tasks in any order of giving, reporting, stopping, crashing, moving and restarting.

Each ends once and stays so, no state is reached on an illegal way, and what is counted agrees.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

import pytest
from fixtures.machines import end_machine, start_machines
from fixtures.tasks import take
from fixtures.world import World, rows, world
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from long import times
from typing_extensions import override

from hive_core.broker.call import Call
from hive_core.broker.hooks import TaskEnded, on
from hive_core.errors import Conflict, HiveError, Internal, NotFound
from hive_core.model.work.task import ACTIVE, COURSE, Task

DATA = st.data()
AGENTS = ("a", "a1", "a11", "a2", "b", "b1")
MOST = 60  # tasks in one walk
TREE = ("root/a", "a/a1", "a1/a11", "a/a2", "root/b", "b/b1")
ENDED: Counter[str] = Counter()


@on(TaskEnded)
def count_end(call: Call, event: TaskEnded) -> None:
    """Count the reports that each task has ended."""
    del call
    ENDED[event.id] += 1


class Walks(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.world: World = self.stack.enter_context(world(None, *TREE))
        self.tasks: list[str] = []
        self.over: dict[str, Task] = {}
        self.seen: dict[str, str] = {}

    @override
    def teardown(self) -> None:
        """At last all is taken back, and who does not stop is ended: nothing is left open."""
        for task in self.tasks:
            if self.row(task).open:
                self.try_("operator", "cancel_task", task=task)
        self.world.advance(60)
        for name in self.living():
            end_machine(self.world, name, 137, returns=True)
        assert [task for task in self.tasks if self.row(task).open] == []
        self.each_task_ends_once()
        assert self.world.ledger.events.verify() is None
        self.stack.close()

    @initialize(data=DATA, parallel=st.integers(1, 3), taken=st.booleans())
    def begin(self, data: st.DataObject, parallel: int, *, taken: bool) -> None:
        """Everybody has something to do, some of it more than there is room for."""
        self.world.call("operator", "spawn", name="narrow", parent="b", parallel=parallel)
        start_machines(self.world, *AGENTS, "narrow")
        for name in (*AGENTS, *AGENTS, "narrow", "narrow", "narrow"):
            self.give(data, name)
        if taken:
            self.read()

    # What tests say.

    def row(self, task: str) -> Task:
        return self.world.ledger.tasks.require(task)

    def living(self) -> list[str]:
        return [agent for agent in (*AGENTS, "narrow") if agent in self.world.hive.specs]

    def agent(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self.living()), "agent")

    def task(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self.tasks), "task")

    def try_(self, caller: str, operation: str, **params: object) -> dict[str, object]:
        """A call that may be refused, and never as a fault of the daemon."""
        try:
            return self.world.call(caller, operation, **params)
        except Internal:
            raise
        except HiveError:
            return {}

    # What may happen.

    @rule(data=DATA, count=st.integers(1, 4), taken=st.booleans())
    def assign(self, data: st.DataObject, count: int, *, taken: bool) -> None:
        """A few at once, and mostly they are begun."""
        for _ in range(count):
            if len(self.tasks) < MOST and self.living():
                self.give(data, self.agent(data))
        if taken:
            self.read()

    def give(self, data: st.DataObject, name: str) -> None:
        caller = self.world.hive.topology.parent(name) or "operator"
        chosen = data.draw(st.lists(st.sampled_from(self.tasks), max_size=1)) if self.tasks else []
        wish: dict[str, object] = {
            "requeue": data.draw(st.integers(0, 2)), "priority": data.draw(st.integers(0, 3)),
            "deadline": data.draw(st.sampled_from((0, 30, 300))),
            "soft": data.draw(st.sampled_from((None, 10))),
        }  # fmt: skip
        made = self.try_(caller, "assign_task", agent=name, description="x", needs=chosen, **wish)
        if made:
            self.tasks.append(str(made["task"]))

    @rule()
    def read(self) -> None:
        for name in self.living():
            take(self.world, name)

    @precondition(lambda self: self.tasks)
    @rule(data=DATA, status=st.sampled_from(("success", "partial", "failed")))
    def finish(self, data: st.DataObject, status: str) -> None:
        row = self.row(self.task(data))
        name = self.world.hive.name(row.assignee)
        if name is None:
            return
        params = {"task": row.id, "status": status, "summary": status}
        if row.open:
            self.try_(name, "finish_task", **params)
        else:
            with pytest.raises((Conflict, NotFound)):
                self.world.call(name, "finish_task", **params)

    @precondition(lambda self: self.tasks)
    @rule(data=DATA)
    def report(self, data: st.DataObject) -> None:
        row = self.row(self.task(data))
        if (name := self.world.hive.name(row.assignee)) is not None:
            self.try_(name, "report_progress", task=row.id, text="on it")

    @precondition(lambda self: self.tasks)
    @rule(data=DATA)
    def ask_and_answer(self, data: st.DataObject) -> None:
        row = self.row(self.task(data))
        name = self.world.hive.name(row.assignee)
        if name is None or row.state != "in_progress":
            return
        answered = data.draw(st.booleans(), "answered")
        asked = self.try_(name, "ask", task=row.id, items=[{"prompt": "how?"}])
        if asked and answered:
            self.try_("operator", "answer", question=asked["question"], answers=["so"])

    @precondition(lambda self: self.tasks)
    @rule(data=DATA)
    def cancel(self, data: st.DataObject) -> None:
        self.try_("operator", "cancel_task", task=self.task(data), reason="no need")

    @precondition(lambda self: self.living())
    @rule(data=DATA, code=st.sampled_from((0, 1, None)), returns=st.booleans())
    def end(self, data: st.DataObject, code: int | None, *, returns: bool) -> None:
        name = self.agent(data)
        end_machine(self.world, name, code, returns=returns and code != 0)

    @precondition(lambda self: self.living())
    @rule(data=DATA)
    def start(self, data: st.DataObject) -> None:
        name = self.agent(data)
        self.try_("operator", "start", agent=name)
        start_machines(self.world, name)

    @precondition(lambda self: self.living())
    @rule(data=DATA)
    def stop(self, data: st.DataObject) -> None:
        name = self.agent(data)
        self.try_("operator", "stop", agent=name)
        end_machine(self.world, name, 0)

    @precondition(lambda self: len(self.living()) > 4)
    @rule(data=DATA, recursive=st.booleans())
    def destroy(self, data: st.DataObject, *, recursive: bool) -> None:
        """Nothing that an agent has to do is in the way of its end."""
        self.world.call("operator", "destroy", agent=self.agent(data), recursive=recursive)

    @precondition(lambda self: self.living())
    @rule(data=DATA)
    def move(self, data: st.DataObject) -> None:
        self.try_("operator", "move", agent=self.agent(data), parent=self.agent(data))

    @rule(seconds=st.sampled_from((0.05, 5, 40, 400)))
    def wait(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(off=st.sampled_from((0, 60)))
    def restart(self, off: int) -> None:
        """The daemon ends and another one goes on from the same disk."""
        self.world.restart(off=off)

    # What holds.

    @invariant()
    def each_task_ends_once(self) -> None:
        for task in self.tasks:
            row = self.row(task)
            assert ENDED[task] == (not row.open), row
            assert row.open == (row.result is None) == (row.ended is None)
            first = self.over.setdefault(task, row) if not row.open else None
            if first is not None:
                assert (first.result, first.ended, first.state) == (
                    row.result, row.ended, row.state,
                )  # fmt: skip

    @invariant()
    def every_way_is_a_legal_one(self) -> None:
        for task in self.tasks:
            before, now = self.seen.get(task, COURSE.start), self.row(task).state.value
            assert now in _reachable_states(before), (task, before, now)
            self.seen[task] = now

    @invariant()
    def nobody_has_more_than_it_may_and_the_counts_agree(self) -> None:
        ledger = self.world.ledger.tasks
        open_ = [row for row in map(self.row, self.tasks) if row.open]
        for name in self.living():
            uuid = self.world.uuid(name)
            mine = [row for row in open_ if row.assignee == uuid]
            held = [row for row in mine if row.held]
            assert {row.id for row in mine if row.state in ACTIVE} <= {row.id for row in held}
            assert ledger.count_open("assignee", uuid) == len(mine) == len(ledger.open_tasks(uuid))
            assert (
                ledger.count_offered_tasks(uuid) == len(held) <= self.world.hive.spec(name).at_once
            )
            params = [row for row in open_ if row.assigner == uuid]
            assert ledger.count_open("assigner", uuid) == len(params)
        assert {row.assignee for row in open_} <= set(self.world.hive.names)
        listed = rows(self.world.call("operator", "list_tasks", open=True, limit=1000)["tasks"])
        assert {item["id"] for item in listed} == {row.id for row in open_}

    @invariant()
    def whoever_has_given_a_task_stands_above_it(self) -> None:
        """Also after moves, and when who gave it at first is gone."""
        tree, named = self.world.hive.topology, self.world.hive.name
        for row in map(self.row, self.tasks):
            if row.open and row.assigner != "operator":
                giver, agent = named(row.assigner), named(row.assignee)
                assert giver is not None, row
                assert agent is not None, row
                assert tree.is_ancestor(giver, agent), row


def _reachable_states(state: str) -> set[str]:
    """Where a task may be, some steps later."""
    reached, fresh = {state}, {state}
    while fresh:
        fresh = {move.to for move in COURSE.transitions if move.source in fresh} - reached
        reached |= fresh
    return reached


@pytest.mark.sized
def test_walks() -> None:
    """Row T13."""
    size = settings(
        max_examples=times(10, 200), stateful_step_count=times(25, 50), deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(Walks, settings=size)
