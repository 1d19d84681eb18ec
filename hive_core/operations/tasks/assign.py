"""The one way a task comes to be. Whether the caller may is decided before."""

from __future__ import annotations

from dataclasses import replace

from hive_core.broker.call import Call
from hive_core.errors import Conflict, InvalidArgument, LimitReached, NotFound
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.budget import BudgetKind
from hive_core.model.work.task import WELL, Task, TaskRequest
from hive_core.model.work.task_caps import TaskCapLimits
from hive_core.operations.budgets.spending import charge_one, check_funds, set_task_caps
from hive_core.operations.tasks.begin import at_hand, delegated, waits_for_parts
from hive_core.operations.tasks.funds import fund, own_kinds
from hive_core.operations.tasks.offers import start_next
from hive_core.operations.tasks.steps import log
from hive_core.operations.tasks.transitions import move, topic
from hive_core.policy.relationship import ABOVE, ITSELF, relationship

NOTHING = "-"  # as `part_of`: a task by itself, whatever its assigner works on


def assign(
    call: Call, assigner: str, assignee: str, wish: TaskRequest, caps: TaskCapLimits | None = None
) -> tuple[Task, frozenset[str]]:
    """Give `assignee` (a name) a task of `assigner` (a UUID or `operator`); the topics to touch.

    It is given to the agent at once when that has room and runs, and nothing has to come first.
    Where the agent is one that always needs a plan, or takes so many turns at most, so does this.
    """
    spec = call.hive.spec(assignee)
    _check_room(call, assigner, assignee)
    whole = replace(
        wish,
        after=_checked(call, assigner, wish.after),
        part_of=_part_of(call, assigner, wish),
        deadline=call.settings.tasks.deadline if wish.deadline is None else wish.deadline,
        plan_required=wish.plan_required or spec.require_plan,
    )
    check_funds(call, spec.id, own_kinds(call, whole, spec.id))
    charge_one(call, assigner, BudgetKind.TASKS)
    first = [each for each in whole.after if call.ledger.tasks.require(each).open]
    task = call.ledger.tasks.create(assigner, spec.id, whole, call.now)
    paid = fund(call, task) | _delegates(call, whole.part_of)
    call.ledger.tasks.needs.add(task.id, first)
    set_task_caps(call, task.id, spec.id, _within(caps, spec))
    log(call, task, "assign", title=task.label)
    topics = frozenset({topic(task.id), f"tasks:{assigner}", f"tasks:{spec.id}", "events"})
    topics |= waits_for_parts(call, whole.part_of) | paid
    if first:
        task, more = move(call, task, "wait")
    else:
        more = start_next(call, spec.id)
    return call.ledger.tasks.require(task.id), topics | more


def _within(caps: TaskCapLimits | None, spec: AgentSpec) -> TaskCapLimits | None:
    """What was asked for, and no more turns than the agent may take."""
    if spec.max_turns is None:
        return caps
    found = caps or TaskCapLimits()
    turns = min(found.iterations or spec.max_turns, spec.max_turns)
    return found.model_copy(update={"iterations": turns})


def _delegates(call: Call, part_of: str) -> frozenset[str]:
    """Whoever has parts of a task done works on it."""
    whole = call.ledger.tasks.get(part_of) if part_of else None
    return frozenset() if whole is None else delegated(call, whole, "its first sub-task")[1]


def _check_room(call: Call, assigner: str, assignee: str) -> None:
    tasks, most = call.ledger.tasks, call.settings.tasks
    cannot = f"cannot assign a task to {assignee}"
    if tasks.count_open("assignee", call.hive.spec(assignee).id) >= most.open:
        raise LimitReached(f"{cannot}: it has {most.open} that have not ended")
    if assigner != OPERATOR and tasks.count_open("assigner", assigner) >= most.given:
        raise LimitReached(f"{cannot}: you gave {most.given} that have not ended")


def _part_of(call: Call, assigner: str, wish: TaskRequest) -> str:
    """The one task that the assigner works on; of several it has to say which."""
    if wish.part_of:
        return "" if wish.part_of == NOTHING else wish.part_of
    mine = at_hand(call.ledger, assigner)
    return mine[0].id if len(mine) == 1 else ""


def _checked(call: Call, assigner: str, after: tuple[str, ...]) -> tuple[str, ...]:
    """What comes first exists, is seen by the assigner, and has not ended badly."""
    for each in dict.fromkeys(after):
        found = call.ledger.tasks.get(each)
        if found is None or not seen(call, assigner, found):
            raise NotFound(f"no task {each[:64]}")
        if found.result is not None and found.result.status not in WELL:
            why = f"task {each} came out as {found.result.status.value}"
            raise Conflict(f"cannot wait for it: {why}")
    return tuple(dict.fromkeys(after))


def seen(call: Call, party: str, task: Task) -> bool:
    """Whether the party may know of the task: its own, of its descendants, or given by it."""
    if party in (OPERATOR, task.assignee, task.assigner):
        return True
    name, other = call.hive.name(party), call.hive.name(task.assignee)
    return bool(name and other) and relationship(call.hive, str(name), other) in (ITSELF, *ABOVE)


def check_part_of(call: Call, part_of: str) -> None:
    """A sub-task is part of what the caller itself has to do."""
    if part_of == NOTHING:
        return
    found = call.ledger.tasks.get(part_of)
    if found is None or found.assignee != call.uuid:
        raise NotFound(f"no task {part_of[:64]} of yours")
    if not found.held:
        reason = f"task {part_of} is {found.state.value}"
        raise InvalidArgument(reason, field="part_of")
