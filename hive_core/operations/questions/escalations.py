"""Escalations: a problem goes to the parent, and higher while unanswered (rows K28, Q27)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.errors import NotAllowed
from hive_core.model.work.question import QuestionItem, QuestionKind
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.fields import also, bounded_text
from hive_core.operations.questions.operations import (
    TEXT_MOST,
    YEAR,
    Id,
    Text,
    check_request,
    park_task,
)
from hive_core.operations.questions.recipients import PARENT
from hive_core.operations.questions.transitions import QuestionRequest, put_question
from hive_core.policy.rules import SELF, holds


class EscalateParams(Mutation):
    issue: Text = Field(
        validation_alias=also("issue", "reason"),
        description="The problem, or the decision that is needed. Also `reason`.",
    )
    severity: Literal["info", "warning", "error", "critical"] = Field(
        description="Severity; it decides how soon the escalation climbs, and the priority of its"
        " mail."
    )
    context: Annotated[str, bounded_text(TEXT_MOST)] = Field(
        "", description="Context that the recipient needs for the answer."
    )
    propagate: bool = Field(
        default=True,
        description="Whether it goes up a level while it is unanswered, finally to the operator.",
    )
    deadline: float | None = Field(
        None, gt=0, le=YEAR, description="Seconds until it ends without an answer; absent: never."
    )
    default: Text | None = Field(
        None, description="The answer that counts when there is none by the deadline."
    )
    task: Id | None = Field(
        None, description="Task of the caller that cannot continue without the answer."
    )


class EscalationResult(Result):
    escalation: str = Field(description="The id of the escalation; `answer` takes it.")
    to: str = Field(description="The agent it waits on: the parent, or the operator for a root.")
    climbs: float | None = Field(description="When it goes up a level, in seconds since 1970.")


@operation(action="escalate", allow=SELF & holds("escalate"))
def escalate(call: Call, params: EscalateParams) -> Record[EscalationResult]:
    """Report a problem to the parent; the answer comes as mail of kind `answer`.

    An escalation that is unanswered for the time that the settings give its severity goes up a
    level, with its context, and finally to the operator. Each agent that it has waited on may
    `answer` it; it is answered once.
    """
    if call.by_operator:
        raise NotAllowed("cannot escalate: no agent is above the operator", rule="self")
    item, task = QuestionItem(params.issue, (), params.default), params.task or ""
    check_request(call, (item,), params.deadline, task)
    request = QuestionRequest(
        (item,), params.context, params.deadline, task, QuestionKind.ESCALATION, params.severity,
        climbs=params.propagate,
    )  # fmt: skip
    question = put_question(call, call.uuid, PARENT, request)
    park_task(call, question)
    to = display_name(call, question.holder)
    result = EscalationResult(escalation=question.id, to=to, climbs=question.climbs)
    fields = {"question": question.id, "to": to, "severity": question.severity, "task": task}
    return Record(result, fields=fields)
