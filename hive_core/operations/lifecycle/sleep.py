"""Sleep: the container is stopped, what the agent has stays, mail waits (row K13).

Asleep is not stopped: a sleeper may be woken by its mail, where its spec says so, by a trigger, and
by `resume` or `start` of those above it. One that was stopped stays so until it is started.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentEnded, MessageArrived, when
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
from hive_core.operations.notices import post
from hive_core.policy.decide import relation
from hive_core.policy.rules import ANCESTOR, OPERATOR

SLEEPS: Final = "sleeps"
RESUME, REVISION = "resume", "revision"
_PRIORITY: Final = 1


class ResumeParams(ScopeParams):
    body: Body | None = Field(
        None, description="A message that it finds, such as what to revise; at most 64 KiB."
    )


class ResumedAgents(AffectedAgents):
    message: str | None = Field(description="The message that it finds; null without a body.")


@operation(action="stop", allow=ANCESTOR | OPERATOR, target="agent")
def sleep(call: Call, params: StopParams) -> Record[AffectedAgents]:
    """Put an agent to sleep: its container is stopped gracefully, its mail waits.

    It has no task meanwhile, and keeps place, files and mail. With `wakes` in its spec the next
    message wakes it; `resume` does in any case. One that is stopped stays stopped.
    """
    grace = call.settings.grace.stop if params.grace is None else params.grace

    def want(uuid: str) -> bool:
        run = call.ledger.runs.get(uuid)
        if run is None or run.wanted is not DesiredState.RUNNING:
            return False
        call.ledger.runs.want(uuid, DesiredState.SLEEPING, call.now, grace=grace, reason=SLEEPS)
        return True

    return apply_to_scope(call, params, "sleep", "stopped", want)


@operation(action="start", allow=ANCESTOR | OPERATOR, target="agent")
def resume(call: Call, params: ResumeParams) -> Record[ResumedAgents]:
    """Wake an agent that sleeps. With `body` it finds a message.

    An architect gets its own last task, result and artifacts named along with the request, so that
    it can revise what it made before. One that is stopped is not asleep: `start` it.
    """
    own = call.hive.spec(params.agent).id
    run = call.ledger.runs.get(own)
    if run is None or run.wanted is DesiredState.STOPPED:
        raise Conflict(f"cannot resume {params.agent}: it is stopped, not asleep; start it")

    def want(uuid: str) -> bool:
        # The message may have woken it already, and whoever resumes it waits for it all the same.
        woken = uuid == own and run.wanted is DesiredState.SLEEPING
        return bool(wake_sleeper(call, uuid, "resumed")) or woken

    # First the mail: whoever is awake before it comes would find nothing.
    message, topics = _send_resume_letter(call, params.agent, params.body)
    found = apply_to_scope(call, params, "resume", "running", want)
    hit = ResumedAgents(agents=found.result.agents, job=found.result.job, message=message)
    return Record(hit, found.wakes | topics, found.fields)


def wake_sleeper(call: Call, uuid: str, why: str) -> frozenset[str]:
    """Wake a sleeper; the topics to touch, none when it does not sleep."""
    run = call.ledger.runs.get(uuid)
    if run is None or run.wanted is not DesiredState.SLEEPING:
        return frozenset()
    call.ledger.runs.want(uuid, DesiredState.RUNNING, call.now, reason=why)
    return frozenset({f"run:{uuid}"})


@when(MessageArrived)
def _wake_for_mail(call: Call, what: MessageArrived) -> frozenset[str]:
    uuid = what.message.recipient
    spec = call.hive.specs.get(call.hive.names.get(uuid, ""))
    if spec is None or not spec.wakes or what.message.kind == COPY:
        return frozenset()  # said in memory: it is asked for every message
    return wake_sleeper(call, uuid, "mail")


@when(AgentEnded)
def _wake_for_earlier_mail(call: Call, what: AgentEnded) -> frozenset[str]:
    """What came while it was at its last task must not wait until something else comes."""
    run = call.ledger.runs.get(what.uuid)
    if run is None or run.wanted is not DesiredState.SLEEPING or run.reason != LAST_TASK:
        return frozenset()
    waits = call.hive.spec(what.name).wakes and call.ledger.messages.size(what.uuid)[0]
    return wake_sleeper(call, what.uuid, "mail") if waits else frozenset()


def _send_resume_letter(
    call: Call, name: str, body: str | None
) -> tuple[str | None, frozenset[str]]:
    if body is None:
        return None, frozenset()
    spec = call.hive.spec(name)
    check_share(call, spec.id, name)
    architect = spec.role is Role.ARCHITECT
    letter = NewMessage(
        sender=call.uuid, sender_name=call.caller, recipient=spec.id, recipient_name=name,
        relation=relation(call.hive, call.caller, name), priority=_PRIORITY,
        body=body + _last_work(call, spec.id) if architect else body,
        kind=REVISION if architect else RESUME,
    )  # fmt: skip
    message, topics = post(call, letter)
    return message.id, topics


def _last_work(call: Call, uuid: str) -> str:
    """What it did last, so that it finds its own work again."""
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
