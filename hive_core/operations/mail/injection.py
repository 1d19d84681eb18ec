"""Messages to a worker during its work; the result says where the message went (row Q26)."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.delegation import authorize_as
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.model.agents.machine import State
from hive_core.model.work.task import Task
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.approvals.views import is_above
from hive_core.operations.fields import Agent
from hive_core.operations.mail.send import Body, SendParams, send_letter
from hive_core.operations.tasks.rules import visible_task
from hive_core.operations.waits.operations import INJECTED
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

DELIVERED, QUEUED, NOT_ACTIVE = "delivered", "queued", "not_active"
_UP: Final = frozenset({State.RUNNING, State.DEGRADED})
_NAMED: Final = 5


class InjectParams(Mutation):
    body: Body = Field(description="Text, at most 64 KiB.")
    worker: Agent | None = Field(
        None, description="The worker; optional when exactly one worker works for the caller."
    )
    task: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="Or the task that it works on."
    )


class Injected(Result):
    result: str = Field(
        description="delivered: the worker runs and has the message in its inbox; queued: the"
        " message waits until the worker runs; not_active: no agent works on the task, and nothing"
        " was sent."
    )
    worker: str = Field(description="Name of the worker; empty: none.")
    task: str = Field(description="The task that it works on.")
    message: str = Field(description="Id of the message; empty: nothing was sent.")


@operation(action="send", allow=SELF | ANCESTOR | OPERATOR, target="worker", preposition="to")
def inject_message(call: Call, params: InjectParams) -> Record[Injected]:
    """Send a message to a worker during its work; the result says whether it was delivered.

    The worker is a descendant of the caller; the message ends all of its waits. Without a worker or
    a task it goes to the only worker of the caller's tasks. A session passes it to the turn of the
    task.
    """
    task = _task(call, params)
    if task is None or not task.held:
        known = params.worker or (display_name(call, task.assignee) if task else "")
        return Record(Injected(result=NOT_ACTIVE, worker=known, task="", message=""))
    name = display_name(call, task.assignee)
    head = {"to": name, "kind": INJECTED, "body": params.body}
    thread = {"thread": task.request.thread} if task.request.thread else {}
    own, _, letter = authorize_as(call, call.uuid, "send", {**head, **thread})
    if not isinstance(letter, SendParams):
        raise TypeError("the parameters of a message")
    sent = send_letter(own, letter, source=task.id)
    where = DELIVERED if call.states.state(task.assignee) in _UP else QUEUED
    injected = Injected(result=where, worker=name, task=task.id, message=sent.result.id)
    fields = {"task": task.id, "message": sent.result.id, "result": where}
    return Record(injected, fields=fields)


def _task(call: Call, params: InjectParams) -> Task | None:
    """The task: by its id, by its worker, or the only one that an agent works on."""
    if params.task is not None:
        return _task_by_id(call, params.task, params.worker)
    if params.worker is not None:
        if params.worker == call.caller:
            raise InvalidArgument("name a worker; `wake` sends to yourself", field="worker")
        work = call.ledger.tasks.open_tasks(call.hive.spec(params.worker).id)
        return next((task for task in work if task.held), None)
    work = [task for task in call.ledger.tasks.tasks_from(call.uuid) if task.held]
    if len({task.assignee for task in work}) > 1:
        names = ", ".join(sorted({display_name(call, task.assignee) for task in work})[:_NAMED])
        raise InvalidArgument(f"name the worker: several work for you ({names})", field="worker")
    return work[0] if work else None


def _task_by_id(call: Call, id_: str, worker: str | None) -> Task:
    task = visible_task(call, id_)
    name = display_name(call, task.assignee)
    if worker is not None and worker != name:
        raise InvalidArgument(f"task {id_} is {name}'s, not {worker}'s", field="task")
    if task.assignee == call.uuid or not (call.by_operator or is_above(call, task.assignee)):
        raise NotAllowed(f"cannot send to {name}: not your descendant", rule="ancestor")
    return task
