"""Verdicts on results (row Q44): the checks of the daemon, then a judge, then the assigner.

The judge is a request of the assigner's session to its model, beside its conversations. The daemon
does not trust it with more than the assigner has: it may accept or refuse the work anyway. The
assignee cannot reach it but by the text of its result. Where no verdict comes, the task waits: it
is never accepted by a failure.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import Conflict, LimitReached
from hive_core.model.work.judgement import (
    CHECK,
    MODEL,
    ResultVerdict,
    SuccessCriteria,
    TaskVerdict,
    find_unmet_check,
)
from hive_core.model.work.task import Task, TaskResult
from hive_core.operations.fields import bounded_text
from hive_core.operations.tasks.caps import reached_cap
from hive_core.operations.tasks.deliveries import request_judgement, withdraw_request
from hive_core.operations.tasks.notices import notify_assigner
from hive_core.operations.tasks.offers import offer_next_tasks
from hive_core.operations.tasks.params import TaskId
from hive_core.operations.tasks.rules import TASK
from hive_core.operations.tasks.steps import log_event, take_step, task_topic
from hive_core.operations.tasks.transitions import end_task, move_task
from hive_core.policy.relationship import ABOVE, relationship
from hive_core.policy.rules import OPERATOR, fact_rule

FEEDBACK_MOST: Final = 8 * 1024
_WHY_MOST: Final = 400


class JudgeTaskParams(Mutation):
    task: TaskId = Field(description="Task whose result waits for a verdict.")
    verdict: Literal["accept", "retry", "escalate"] = Field(
        description="accept ends the task with its result; retry gives the work back with the"
        " feedback; escalate leaves the decision to the assigner."
    )
    feedback: Annotated[str, bounded_text(FEEDBACK_MOST)] = Field(
        "", description="Reason; with retry: what is missing, for the agent. At most 8 KiB."
    )
    attempt: int | None = Field(
        None, ge=1, description="Attempt that was judged; refused when it is not the present one."
    )
    by_model: bool = Field(
        default=False,
        description="Whether it is the verdict of a model beside the conversations of the caller,"
        " which the daemon then tells the caller.",
    )


class TaskJudged(Result):
    task: str = Field(description="Id of the task.")
    state: str = Field(
        description="done, queued (given back), or awaiting_judgement (the assigner decides)."
    )
    verdict: str = Field(
        description="The verdict that was recorded: escalate for a retry of a model when none is"
        " left."
    )
    retries: int = Field(description="How often the work may still be given back.")


def _judge_facts(call: Call, params: Params) -> frozenset[str]:
    """The fact that the caller assigned the task or is above its assigner, and is not judged."""
    task = call.ledger.tasks.get(str(getattr(params, "task", "")))
    if task is None or call.uuid == task.assignee:
        return frozenset()
    assigner = call.hive.name(task.assigner)
    is_above = assigner is not None and relationship(call.hive, call.caller, assigner) in ABOVE
    return frozenset({"judge"}) if call.uuid == task.assigner or is_above else frozenset()


_JUDGES: Final = fact_rule(
    "judge", "the assigner of the task, or above it", "you are not its assigner or above it"
)


@operation(action="assign", allow=_JUDGES | OPERATOR, whose=TASK, facts=_judge_facts, urgent=True)
def judge_task(call: Call, params: JudgeTaskParams) -> Record[TaskJudged]:
    """Record a verdict on the result of a task that waits for one.

    A task with `criteria` waits from the report of its agent until the verdict: first the daemon
    checks what it can, then a model of the assigner's session judges. What the model does not
    decide, the assigner decides with this operation, or `cancel_task`.
    """
    task = call.ledger.tasks.require(params.task)
    if not task.is_delivered:
        raise Conflict(f"cannot judge task {task.id}: it is {task.state.value}")
    if params.attempt not in (None, task.attempt):
        raise Conflict(f"cannot judge attempt {params.attempt} of task {task.id}: it is attempt"
                       f" {task.attempt} now")  # fmt: skip
    verdict = ResultVerdict(params.verdict)
    by = MODEL if params.by_model else call.uuid
    after = _apply_verdict(call, task, verdict, by, params.feedback)
    last = call.ledger.tasks.judgements.of(task.id)[-1]
    result = TaskJudged(
        task=task.id, state=after.state.value, verdict=last.verdict,
        retries=_retries_left(call, task),
    )  # fmt: skip
    fields = {"task": task.id, "verdict": last.verdict.value, "by": by, "attempt": task.attempt}
    return Record(result, fields=fields)


def deliver_result(call: Call, task: Task, report: TaskResult) -> Task:
    """Take the report on a task with criteria: check it, then ask for a verdict."""
    call.ledger.tasks.judgements.deliver(task.id, task.assignee, report)
    call.ledger.messages.ack(task.assignee, [task.message])
    task = take_step(call, task, "deliver", why="its result is judged", message="")
    criteria = SuccessCriteria.of(task.request) or SuccessCriteria()
    if unmet := find_unmet_check(criteria, report, _count_stored(call, task, report)):
        task = _apply_verdict(call, task, ResultVerdict.RETRY, CHECK, unmet)
    elif not criteria.text:
        task = _apply_verdict(call, task, ResultVerdict.ACCEPT, CHECK, "")
    else:
        task = request_judgement(call, task)
    offer_next_tasks(call, task.assignee)
    return call.ledger.tasks.require(task.id)


def _apply_verdict(call: Call, task: Task, verdict: ResultVerdict, by: str, feedback: str) -> Task:
    if verdict is ResultVerdict.RETRY and (reason := _reason_against_retry(call, task)):
        if by not in (CHECK, MODEL):
            raise LimitReached(f"cannot give task {task.id} back: {reason}")
        verdict, feedback = ResultVerdict.ESCALATE, f"{reason}: {feedback}" if feedback else reason
    withdraw_request(call, task.id)
    judgement = TaskVerdict(task.attempt, verdict, by, feedback, call.now)
    call.ledger.tasks.judgements.add(task.id, task.assignee, judgement)
    match verdict:
        case ResultVerdict.ACCEPT:
            return _accept(call, task, by)
        case ResultVerdict.RETRY:
            call.ledger.tasks.judgements.remove_delivery(task.id)
            why = f"its result was not accepted: {_shorten(feedback)}"
            return move_task(call, task, "retry", why=why)
        case ResultVerdict.ESCALATE:
            return _escalate(call, task, feedback)


def _accept(call: Call, task: Task, by: str) -> Task:
    delivery = call.ledger.tasks.judgements.delivery(task.id)
    if delivery is None:
        raise Conflict(f"cannot accept the result of task {task.id}: there is none")
    after = end_task(call, task, "accept", delivery.result)
    if by == MODEL:  # the session of the assigner calls, and its model does not know
        notify_assigner(call, after)
    return after


def _escalate(call: Call, task: Task, feedback: str) -> Task:
    """Leave the decision to the assigner, and tell it."""
    why = f"the assigner decides with judge_task: {_shorten(feedback) or 'no reason'}"
    task = call.ledger.tasks.update(task.id, why=why)
    log_event(call, task, "escalate", why)
    notify_assigner(call, task)
    call.notify(task_topic(task.id), "events")
    return task


def _reason_against_retry(call: Call, task: Task) -> str:
    """Why the work cannot be given back; empty: it can."""
    if not _retries_left(call, task):
        return "it was given back as often as its criteria allow"
    if cap := reached_cap(call, task.id):
        return f"it has used {cap}"
    return ""


def _retries_left(call: Call, task: Task) -> int:
    criteria = SuccessCriteria.of(task.request) or SuccessCriteria()
    verdicts = call.ledger.tasks.judgements.of(task.id)
    return max(0, criteria.retries - sum(row.verdict is ResultVerdict.RETRY for row in verdicts))


def _count_stored(call: Call, task: Task, report: TaskResult) -> int:
    """How many artifacts of the agent the report names."""
    artifacts = map(call.ledger.artifacts.get, set(report.artifacts))
    return sum(artifact is not None and artifact.author == task.assignee for artifact in artifacts)


def _shorten(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _WHY_MOST else f"{words[:_WHY_MOST]}..."
