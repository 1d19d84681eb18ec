"""Sleep: the container is stopped, the agent keeps what it has, its mail waits (row K13).

A sleeping agent may be woken by mail, if its spec says so, by a trigger, and by `resume` or `start`
of an agent above it. A stopped agent stays stopped until it is started.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentEnded, MessageArrived, on
from hive_core.broker.operation import operation
from hive_core.errors import Conflict
from hive_core.ledger.mail.letters import COPY, NewMessage
from hive_core.model.agents.agent import Role
from hive_core.model.agents.machine import DesiredState
from hive_core.model.work.task import Task
from hive_core.operations.lifecycle.after_task import LAST_TASK
from hive_core.operations.lifecycle.operations import (
    AffectedAgents,
    ScopeParams,
    StopParams,
    apply_to_scope,
)
from hive_core.operations.mail.inbox_quota import check_share
from hive_core.operations.mail.send import Body
from hive_core.operations.notices import deliver
from hive_core.operations.tasks.lifecycle_hooks import end_interrupted_tasks
from hive_core.policy.decide import relation
from hive_core.policy.rules import ANCESTOR, OPERATOR

SLEEPS: Final = "sleeps"
RESUME, REVISION = "resume", "revision"
_PRIORITY: Final = 1


class ResumeParams(ScopeParams):
    body: Body | None = Field(
        None, description="A message for the agent, such as what to revise; at most 64 KiB."
    )


class ResumedAgents(AffectedAgents):
    message: str | None = Field(description="The id of the message; null without a body.")


@operation(action="stop", allow=ANCESTOR | OPERATOR, target="agent", idempotent=True)
def sleep(call: Call, params: StopParams) -> Record[AffectedAgents]:
    """Put an agent to sleep: its container is stopped gracefully, and its mail waits.

    It has no task meanwhile, and keeps its place, files and mail. With `wakes` in its spec the next
    message wakes it; `resume` always does. A stopped agent stays stopped.
    """
    grace = call.settings.grace.stop if params.grace is None else params.grace

    def want(uuid: str) -> bool:
        run = call.ledger.runs.get(uuid)
        if run is None or run.wanted is not DesiredState.RUNNING:
            return False
        call.ledger.runs.want(uuid, DesiredState.SLEEPING, call.now, grace=grace, reason=SLEEPS)
        end_interrupted_tasks(call, uuid, SLEEPS)
        return True

    return apply_to_scope(call, params, "sleep", "stopped", want)


@operation(action="start", allow=ANCESTOR | OPERATOR, target="agent")
def resume(call: Call, params: ResumeParams) -> Record[ResumedAgents]:
    """Wake a sleeping agent. With `body` it also gets a message.

    The message to an architect names its last task with result and artifacts, so that it can revise
    its work. A stopped agent is not asleep: use `start`.
    """
    own = call.hive.spec(params.agent).id
    run = call.ledger.runs.get(own)
    if run is None or run.wanted is DesiredState.STOPPED:
        raise Conflict(f"cannot resume {params.agent}: it is stopped, not asleep; start it")

    def want(uuid: str) -> bool:
        # The message may have woken the agent already; the job covers it anyway.
        slept = uuid == own and run.wanted is DesiredState.SLEEPING
        return wake_sleeper(call, uuid, "resumed") or slept

    # Send the mail first: an agent that wakes earlier would find no mail.
    message = _send_resume_letter(call, params.agent, params.body)
    record = apply_to_scope(call, params, "resume", "running", want)
    result = ResumedAgents(agents=record.result.agents, job=record.result.job, message=message)
    return Record(result, fields=record.fields)


def wake_sleeper(call: Call, uuid: str, why: str) -> bool:
    """Wake an agent if it sleeps; return whether it slept."""
    run = call.ledger.runs.get(uuid)
    if run is None or run.wanted is not DesiredState.SLEEPING:
        return False
    call.ledger.runs.want(uuid, DesiredState.RUNNING, call.now, reason=why)
    call.notify(f"run:{uuid}")
    return True


@on(MessageArrived)
def _wake_for_mail(call: Call, event: MessageArrived) -> None:
    uuid, hive = event.message.recipient, call.hive
    wakes = uuid in hive.names and hive.specs[hive.names[uuid]].wakes
    if not wakes or event.message.kind == COPY:
        return  # checked in memory first: this runs for every message
    wake_sleeper(call, uuid, "mail")


@on(AgentEnded)
def _wake_for_earlier_mail(call: Call, event: AgentEnded) -> None:
    """Wake an agent for mail that came during its last task, since no later mail may come."""
    run = call.ledger.runs.get(event.uuid)
    if run is None or run.wanted is not DesiredState.SLEEPING or run.reason != LAST_TASK:
        return
    if call.hive.spec(event.name).wakes and call.ledger.messages.size(event.uuid)[0]:
        wake_sleeper(call, event.uuid, "mail")


def _send_resume_letter(call: Call, name: str, body: str | None) -> str | None:
    """The id of the message; None without a body."""
    if body is None:
        return None
    spec = call.hive.spec(name)
    check_share(call, spec.id, name)
    architect = spec.role is Role.ARCHITECT
    letter = NewMessage(
        sender=call.uuid, sender_name=call.caller, recipient=spec.id, recipient_name=name,
        relation=relation(call.hive, call.caller, name), priority=_PRIORITY,
        body=body + _last_work(call, spec.id) if architect else body,
        kind=REVISION if architect else RESUME,
    )  # fmt: skip
    return deliver(call, letter).id


def _last_work(call: Call, uuid: str) -> str:
    """A paragraph about the last task of an agent, so that it finds its own work."""
    ended = (task for task in call.ledger.tasks.page([uuid], None, 8) if task.ended is not None)
    last = next(ended, None)
    return "" if last is None else "\n\n" + _work_text(last)


def _work_text(task: Task) -> str:
    result = task.result
    lines = [f"your last task: {task.id}", f"it was: {task.request.description[:2000]}"]
    if result is not None:
        lines.append(
            f"its result: {result.status.value}: {(result.summary or result.error)[:4000]}"
        )
        lines.append(f"its artifacts: {', '.join(result.artifacts) or 'none'}")
    return "\n".join(lines)
