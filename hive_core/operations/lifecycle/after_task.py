"""The action of an agent after its last task: it stays, sleeps or exits (row K6).

It has half a second to save its state. An agent that gets another task stays.
"""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import TaskEnded, on
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.model.agents.agent import AfterTask
from hive_core.model.agents.exits import LifeRecord
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.agents.roles import after_task

LAST_TASK: Final = "its last task has ended"
FLUSH: Final = 0.5
_RETRY: Final = 1.0
_AT_ONCE: Final = 100
_WANTED: Final = {
    AfterTask.SLEEPS.value: DesiredState.SLEEPING,
    AfterTask.EXITS.value: DesiredState.STOPPED,
}
_FAILED: Final = frozenset({State.FAILED, State.PARKED})


class LeftAgents(Result):
    """How many agents were stopped or put to sleep."""

    agents: int


@on(TaskEnded)
def _schedule_leave(call: Call, event: TaskEnded) -> None:
    name = call.hive.name(event.assignee)
    then = AfterTask.STAYS if name is None else after_task(call.hive.spec(name))
    if then is AfterTask.STAYS or call.ledger.tasks.open_tasks(event.assignee, 1):
        return
    call.ledger.lives.schedule_leave(event.assignee, then.value, call.now + FLUSH)
    call.notify(f"life:{event.assignee}")


@due(at=lambda ledger: ledger.lives.next_leave(), topics=frozenset({"life"}))
def leave_after_tasks(call: Call) -> Record[LeftAgents]:
    """Stop, or put to sleep, the agents whose last task ended half a second ago."""
    lives = call.ledger.lives.due_leaves(call.now, _AT_ONCE)
    for life in lives:
        _leave(call, life)
    return Record(LeftAgents(agents=len(lives)))


def _leave(call: Call, life: LifeRecord) -> None:
    uuid, lives = life.agent, call.ledger.lives
    run = call.ledger.runs.get(uuid)
    wanted = run is not None and run.wanted is DesiredState.RUNNING
    failed = call.states.state(uuid) in _FAILED
    destroyed = call.hive.name(uuid) is None
    if not wanted or failed or destroyed or call.ledger.tasks.open_tasks(uuid, 1):
        lives.schedule_leave(uuid, "", None)
    elif not life.up:
        lives.schedule_leave(uuid, life.next, call.now + _RETRY)  # it must be up before it can end
    else:
        lives.schedule_leave(uuid, "", None)
        grace, wanted_state = call.settings.grace.stop, _WANTED[life.next]
        call.ledger.runs.want(uuid, wanted_state, call.now, grace=grace, reason=LAST_TASK)
        call.notify(f"run:{uuid}")
