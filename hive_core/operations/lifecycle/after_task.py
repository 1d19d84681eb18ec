"""What an agent does when its last task has ended: it stays, sleeps or exits (row K6).

What it still has to write down it does in half a second. Whoever gets another task meanwhile stays.
"""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import TaskEnded, when
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.model.agents.agent import AfterTask
from hive_core.model.agents.exits import LifeRecord
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.agents.roles import after_task

LAST_TASK: Final = "its last task has ended"
FLUSH: Final = 0.5
_AGAIN: Final = 1.0
_AT_ONCE: Final = 100
_WANTED: Final = {
    AfterTask.SLEEPS.value: DesiredState.SLEEPING,
    AfterTask.EXITS.value: DesiredState.STOPPED,
}
_FAILED: Final = frozenset({State.FAILED, State.PARKED})


class LeftAgents(Result):
    """How many left."""

    agents: int


@when(TaskEnded)
def _schedule_leave(call: Call, what: TaskEnded) -> frozenset[str]:
    name = call.hive.name(what.assignee)
    then = AfterTask.STAYS if name is None else after_task(call.hive.spec(name))
    if then is AfterTask.STAYS or call.ledger.tasks.open_tasks(what.assignee, 1):
        return frozenset()
    call.ledger.lives.schedule_leave(what.assignee, then.value, call.now + FLUSH)
    return frozenset({f"life:{what.assignee}"})


@due(at=lambda ledger: ledger.lives.next_leave(), topics=frozenset({"life"}))
def leave_after_tasks(call: Call) -> Record[LeftAgents]:
    """Stop, or put to sleep, whose last task ended half a second ago."""
    found = call.ledger.lives.due_leaves(call.now, _AT_ONCE)
    topics = frozenset[str]().union(*(_leave(call, life) for life in found))
    return Record(LeftAgents(agents=len(found)), topics)


def _leave(call: Call, life: LifeRecord) -> frozenset[str]:
    uuid, lives = life.agent, call.ledger.lives
    run = call.ledger.runs.get(uuid)
    wanted = run is not None and run.wanted is DesiredState.RUNNING
    failed = call.states.state(uuid) in _FAILED
    if (
        not wanted
        or failed
        or call.hive.name(uuid) is None
        or call.ledger.tasks.open_tasks(uuid, 1)
    ):
        lives.schedule_leave(uuid, "", None)
        return frozenset()
    if not life.up:
        lives.schedule_leave(
            uuid, life.next, call.now + _AGAIN
        )  # it has to come up before it can end
        return frozenset()
    lives.schedule_leave(uuid, "", None)
    grace = call.settings.grace.stop
    call.ledger.runs.want(uuid, _WANTED[life.next], call.now, grace=grace, reason=LAST_TASK)
    return frozenset({f"run:{uuid}"})
