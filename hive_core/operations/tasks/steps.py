"""One step of a task, written down: the row, the event, its clock, and what the assigner hears."""

from __future__ import annotations

from typing import Final, Unpack

from hive_core.broker.call import Call
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.tasks.storage import TaskChanges
from hive_core.ledger.tasks.trace_ids import trace_id
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.task import AWAITING, COURSE, Task, TaskState
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.lifecycle.activity import update_activity
from hive_core.operations.mail.inbox_quota import standing_in
from hive_core.operations.tasks.clock import clock_after_step
from hive_core.operations.tasks.notices import correct_news, news

# What the assigner is told: what ends, what waits for somebody and no more, what begins anew.
_TOLD: Final = frozenset({
    TaskState.DONE, TaskState.CANCELLED, TaskState.AWAITING_PLAN_APPROVAL,
    TaskState.AWAITING_MORE_INFORMATION,
})  # fmt: skip
_AGAIN: Final = "hand_back"


def topic(task: str) -> str:
    """Touched whenever a task took a step or its agent said something about it."""
    return f"task:{task}"


def step(
    call: Call, task: Task, event: str, **kept: Unpack[TaskChanges]
) -> tuple[Task, frozenset[str]]:
    """One legal move of one task, without what follows from it for others."""
    state = TaskState(COURSE.next(task.state, event))
    clock = clock_after_step(call, task, state)
    whole: TaskChanges = {"why": "", "assigner": held_by(call, task), **clock, **kept}
    found = call.ledger.tasks.move(task.id, event, call.now, **whole)
    log(call, found, event, found.why)
    topics = {topic(task.id), f"tasks:{found.assigner}", "events"}
    if task.begun or found.begun:  # else its agent is at the same as before
        topics |= update_activity(call, found.assignee)
    if call.uuid != found.assigner and _is_news(task, found, event):
        topics |= news(call, found)
    else:
        topics |= correct_news(call, found.assigner, found.id, known=call.uuid == found.assigner)
    if found.assigner != task.assigner:
        topics |= correct_news(call, task.assigner, found.id, known=True)
    return found, frozenset(topics)


def _is_news(before: Task, now: Task, event: str) -> bool:
    """Whether the assigner has to hear of it: nothing that it was told stays when it is not so."""
    again = event == _AGAIN or (event == "begin" and now.attempt > 1)
    return now.state in _TOLD or before.state in AWAITING or again


def log(call: Call, task: Task, event: str, why: str = "", **more: object) -> None:
    """The line in the log that is the history of the task."""
    if not task.request.part_of:  # else the ledger looks for the outermost one
        more["trace"] = trace_id(task.id)
    seq = call.ledger.events.append(AuditEntry(
        kind="task", caller=call.uuid, operation=event, target=task.assignee, allowed=None,
        rule="", reason=why, commit=call.hive.commit, request=call.request, now=call.now,
        fields={"task": task.id, "state": task.state.value, "assigner": task.assigner,
                "attempt": task.attempt, "caller_name": call.caller,
                "target_name": display_name(call, task.assignee), **more},
    ))  # fmt: skip
    call.ledger.tasks.add_event(task.id, seq)


def held_by(call: Call, task: Task) -> str:
    """Who has the task now: its assigner, as long as it stands above the assignee.

    Else the nearest that stands above both, or the operator: what an agent cannot see any more is
    not its to decide.
    """
    if task.assigner in (OPERATOR, task.assignee):
        return task.assigner
    tree, above = call.hive.topology, standing_in(call, task.assigner)
    below = standing_in(call, task.assignee)
    if above is None or below is None:
        return OPERATOR if above is None else call.hive.spec(above).id
    chain = (above, *tree.lineage(above))
    gone = call.hive.name(task.assignee) is None
    heirs = (each for each in chain if tree.is_ancestor(each, below) or (gone and each == below))
    heir = next(heirs, None)
    return OPERATOR if heir is None else call.hive.spec(heir).id
