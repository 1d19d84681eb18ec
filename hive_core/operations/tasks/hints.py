"""What keeps an agent from beginning a task now, as far as the daemon can see it."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call
from hive_core.ledger.mail.posting import one_line
from hive_core.model.agents.machine import State
from hive_core.model.work.task import UNSTARTED, Task

_UP: Final = frozenset({State.RUNNING, State.DEGRADED})
_DOWN: Final = frozenset({State.STOPPED, State.FAILED, State.PARKED})


def hint_of(call: Call, name: str) -> str:
    """In one line; empty where nothing is known."""
    spec = call.hive.spec(name)
    state = call.states.state(spec.id)
    if state in _UP:
        reads = call.ledger.messages.is_reader(spec.id)
        return "" if reads else f"{name} runs and has not asked for its mail since it started"
    if state is State.SLEEPING and not spec.wakes:
        return f"{name} sleeps: it gets the task when it is resumed"
    if state not in _DOWN:
        return ""
    starts = call.ledger.starts.get(spec.id)
    failed = state is not State.STOPPED and starts is not None
    why = f" ({one_line(starts.why)})" if failed and starts is not None and starts.why else ""
    return f"{name} is {state.value}{why}: it gets the task when it is started"


def hint_for(call: Call, task: Task) -> str:
    """Why it is not begun; empty for one that is, or has to wait for others."""
    name = call.hive.name(task.assignee)
    waits = task.state in UNSTARTED and not call.ledger.tasks.needs.of(task.id)
    return hint_of(call, name) if name is not None and waits else ""
