"""The callers that may see a task, and the assigner of a task."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call
from hive_core.broker.operation import Params, Whose
from hive_core.errors import NotFound
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.task import Task
from hive_core.operations.mail.inbox_quota import standing_in
from hive_core.policy.relationship import ABOVE, ITSELF, is_visible, relationship
from hive_core.policy.rules import fact_rule


def task_target(call: Call, params: Params) -> str | None:
    """The agent that an operation on a task is authorized for: its assignee, or the operator.

    For a destroyed agent it is the nearest living agent above its last place.
    """
    task = call.ledger.tasks.get(str(getattr(params, "task", "")))
    if task is None:
        return None
    return standing_in(call, task.assignee) or OPERATOR


def assigner_facts(call: Call, params: Params) -> frozenset[str]:
    """The fact that the caller assigned the task, also to itself."""
    task = call.ledger.tasks.get(str(getattr(params, "task", "")))
    is_assigner = task is not None and task.assigner == call.uuid
    return frozenset({"assigner"}) if is_assigner else frozenset()


TASK: Final = Whose("task", "task", task_target)
ASSIGNER: Final = fact_rule("assigner", "the assigner of the task", "you did not assign it")


def visible_task(call: Call, id_: str) -> Task:
    """A task of the caller or a descendant, or one that it assigned to an agent that it sees."""
    task = call.ledger.tasks.get(id_)
    if task is None or not can_see_task(call, task):
        raise NotFound(f"no task {id_}")
    return task


def can_see_task(call: Call, task: Task) -> bool:
    """Whether the caller sees the task, as every operation on a task judges it.

    The assignee decides, or the nearest living agent above a destroyed one. An assigner that a move
    has separated from the assignee cannot see the task any longer.
    """
    if call.by_operator or call.uuid == task.assignee:
        return True
    target = standing_in(call, task.assignee) or OPERATOR
    if call.uuid == task.assigner:
        return is_visible(call.hive, call.caller, target)
    return relationship(call.hive, call.caller, target) in (ITSELF, *ABOVE)


def may_know_task(call: Call, party: str, task: Task) -> bool:
    """Whether the party may know of the task: its own, a descendant's, or one that it assigned."""
    if party in (OPERATOR, task.assignee, task.assigner):
        return True
    name, other = call.hive.name(party), call.hive.name(task.assignee)
    return bool(name and other) and relationship(call.hive, str(name), other) in (ITSELF, *ABOVE)


def living_name(call: Call, party: str) -> str | None:
    """The name of an agent that is not destroyed, or `operator`; otherwise None."""
    return OPERATOR if party == OPERATOR else call.hive.name(party)
