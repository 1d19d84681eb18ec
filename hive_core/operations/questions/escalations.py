"""What is wrong goes up: to the parent, and a level higher when nobody answers (rows K28, Q27)."""

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
        description="How bad it is; how soon it climbs, and how urgent its mail is."
    )
    context: Annotated[str, bounded_text(TEXT_MOST)] = Field(
        "", description="What whoever answers has to know."
    )
    propagate: bool = Field(
        default=True, description="Unanswered it goes a level up, to the operator in the end."
    )
    deadline: float | None = Field(
        None, gt=0, le=YEAR, description="Seconds until it ends without an answer; absent: never."
    )
    default: Text | None = Field(None, description="What counts when nobody answers until then.")
    task: Id | None = Field(
        None, description="A task of the caller's that cannot go on without the answer."
    )


class EscalationResult(Result):
    escalation: str = Field(description="Its id; `answer` takes it as a question.")
    to: str = Field(description="Whom it waits on: the parent, or the operator for a root.")
    climbs: float | None = Field(description="When it goes a level up, in seconds since 1970.")


@operation(action="escalate", allow=SELF & holds("escalate"))
def escalate(call: Call, params: EscalateParams) -> Record[EscalationResult]:
    """Tell the parent that something is wrong, and get an answer as mail of kind `answer`.

    Unanswered for as long as the settings say for its severity it goes a level up, with its
    context, to the operator in the end. Everyone it has waited on may `answer` it, once.
    """
    if call.by_operator:
        raise NotAllowed("cannot escalate: nobody is above the operator", rule="self")
    item, task = QuestionItem(params.issue, (), params.default), params.task or ""
    check_request(call, (item,), params.deadline, task)
    wish = QuestionRequest(
        (item,), params.context, params.deadline, task, QuestionKind.ESCALATION, params.severity,
        climbs=params.propagate,
    )  # fmt: skip
    found, topics = put_question(call, call.uuid, PARENT, wish)
    topics |= park_task(call, found)
    told = EscalationResult(
        escalation=found.id, to=display_name(call, found.holder), climbs=found.climbs
    )
    fields = {"question": found.id, "to": told.to, "severity": found.severity, "task": task}
    return Record(told, topics, fields)
