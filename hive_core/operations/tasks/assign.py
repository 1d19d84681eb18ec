"""Creation of tasks.

Every new task comes from here, after the check that the caller may assign it.
"""

from __future__ import annotations

from dataclasses import replace

from hive_core.broker.call import Call
from hive_core.errors import Conflict, InvalidArgument, LimitReached, NotFound
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.budget import BudgetKind
from hive_core.model.work.task import WELL, Task, TaskRequest
from hive_core.model.work.task_caps import TaskCapLimits
from hive_core.operations.agents.quarantine import check_quarantine_of
from hive_core.operations.budgets.spending import charge_one, check_funds, set_task_caps
from hive_core.operations.tasks.funds import create_funds, kinds_paid_by_task
from hive_core.operations.tasks.offers import offer_next_tasks
from hive_core.operations.tasks.rules import may_know_task
from hive_core.operations.tasks.steps import (
    current_tasks,
    end_pending_delegation,
    log_event,
    task_topic,
)
from hive_core.operations.tasks.transitions import move_task

NOTHING = "-"  # as `part_of`: the task is not a part of another one


def create_task(
    call: Call,
    assigner: str,
    assignee: str,
    request: TaskRequest,
    caps: TaskCapLimits | None = None,
) -> Task:
    """Create a task of `assigner` (a UUID or `operator`) for the agent `assignee` (a name).

    The daemon offers the task to the agent at once when the agent runs and has room, and the task
    does not wait for others. The spec of the agent may require a plan, and bound the turns.
    """
    spec = call.hive.spec(assignee)
    # Triggers and batches assign for a party that may be held meanwhile.
    check_quarantine_of(call, assigner, f"assign a task to {assignee}")
    _check_room(call, assigner, assignee)
    request = _complete(call, assigner, spec, request)
    check_funds(call, spec.id, kinds_paid_by_task(call, request, spec.id))
    charge_one(call, assigner, BudgetKind.TASKS)
    tasks = call.ledger.tasks
    open_dependencies = [id_ for id_ in request.after if tasks.require(id_).open]
    task = tasks.create(assigner, spec.id, request, call.now)
    create_funds(call, task)
    whole = tasks.get(request.part_of) if request.part_of else None
    if whole is not None:
        end_pending_delegation(call, whole, "its first sub-task")
    tasks.needs.add(task.id, open_dependencies)
    set_task_caps(call, task.id, spec.id, _effective_caps(caps, spec))
    log_event(call, task, "assign", title=task.label, **_origin(request))
    call.notify(task_topic(task.id), f"tasks:{assigner}", f"tasks:{spec.id}", "events")
    if open_dependencies:
        move_task(call, task, "wait")
    else:
        offer_next_tasks(call, spec.id)
    return tasks.require(task.id)


def _origin(request: TaskRequest) -> dict[str, str]:
    """What a trace of the task needs: the task and the foreign span that it belongs to."""
    origin = {"part_of": request.part_of, "traceparent": request.traceparent}
    return {key: value for key, value in origin.items() if value}


def _complete(call: Call, assigner: str, spec: AgentSpec, request: TaskRequest) -> TaskRequest:
    """The request with what the settings, the spec and the caller's own task say."""
    return replace(
        request,
        after=_check_dependencies(call, assigner, request.after),
        part_of=_part_of(call, assigner, request),
        deadline=call.settings.tasks.deadline if request.deadline is None else request.deadline,
        plan_required=request.plan_required or spec.require_plan,
    )


def _effective_caps(caps: TaskCapLimits | None, spec: AgentSpec) -> TaskCapLimits | None:
    """The requested caps; the number of turns is bounded by the agent's spec."""
    if spec.max_turns is None:
        return caps
    caps = caps or TaskCapLimits()
    turns = min(caps.iterations or spec.max_turns, spec.max_turns)
    return caps.model_copy(update={"iterations": turns})


def _check_room(call: Call, assigner: str, assignee: str) -> None:
    tasks, limits = call.ledger.tasks, call.settings.tasks
    cannot = f"cannot assign a task to {assignee}"
    if tasks.count_open("assignee", call.hive.spec(assignee).id) >= limits.open:
        raise LimitReached(f"{cannot}: it has {limits.open} open tasks, which is the limit")
    if assigner != OPERATOR and tasks.count_open("assigner", assigner) >= limits.given:
        raise LimitReached(
            f"{cannot}: {limits.given} tasks that you assigned are open, which is the limit"
        )


def _part_of(call: Call, assigner: str, request: TaskRequest) -> str:
    """The task that this one is a part of.

    The named one, or the only one that the assigner works on.
    """
    if request.part_of:
        return "" if request.part_of == NOTHING else request.part_of
    own = current_tasks(call.ledger, assigner)
    return own[0].id if len(own) == 1 else ""


def _check_dependencies(call: Call, assigner: str, after: tuple[str, ...]) -> tuple[str, ...]:
    """The tasks to wait for, without duplicates; refused when unknown to the assigner or failed."""
    ids = tuple(dict.fromkeys(after))
    for id_ in ids:
        task = call.ledger.tasks.get(id_)
        if task is None or not may_know_task(call, assigner, task):
            raise NotFound(f"no task {id_[:64]}")
        if task.result is not None and task.result.status not in WELL:
            status = task.result.status.value
            raise Conflict(f"cannot wait for task {id_}: it ended as {status}")
    return ids


def check_part_of(call: Call, part_of: str) -> None:
    """Refuse a sub-task of a task that the caller does not work on."""
    if part_of == NOTHING:
        return
    task = call.ledger.tasks.get(part_of)
    if task is None or task.assignee != call.uuid:
        raise NotFound(f"no task {part_of[:64]} of yours")
    if not task.held:
        raise InvalidArgument(
            f"cannot add a part to task {part_of}: it is {task.state.value}", field="part_of"
        )
