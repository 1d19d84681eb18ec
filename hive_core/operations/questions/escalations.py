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
        description="What is wrong, or what has to be decided. Also `reason`.",
    )
    severity: Literal["info", "warning", "error", "critical"] = Field(
        description="How bad it is; decides how soon it climbs, and the priority of its mail."
    )
    context: Annotated[str, bounded_text(TEXT_MOST)] = Field(
        "", description="What the recipient has to know for the answer."
    )
    propagate: bool = Field(
        default=True,
        description="Whether it goes a level up while it is unanswered, to the operator at last.",
    )
    deadline: float | None = Field(
        None, gt=0, le=YEAR, description="Seconds until it ends without an answer; absent: never."
    )
    default: Text | None = Field(
        None, description="The answer that counts when none has come by the deadline."
    )
    task: Id | None = Field(
        None, description="A task of the caller's that cannot continue without the answer."
    )


class EscalationResult(Result):
    escalation: str = Field(description="The id of the escalation; `answer` takes it.")
    to: str = Field(description="The agent it waits on: the parent, or the operator for a root.")
    climbs: float | None = Field(description="When it goes a level up, in seconds since 1970.")


@operation(action="escalate", allow=SELF & holds("escalate"))
def escalate(call: Call, params: EscalateParams) -> Record[EscalationResult]:
    """Tell the parent that something is wrong, and get an answer as mail of kind `answer`.

    An escalation that is not answered for as long as the settings say for its severity goes a
    level up, with its context, and to the operator at last. Each agent that it has waited on may
    `answer` it, once.
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
