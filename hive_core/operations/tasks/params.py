"""The parameters that all operations that assign a task share."""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from hive_core.broker.call import Call
from hive_core.broker.login_rule import Level
from hive_core.broker.operation import Params
from hive_core.errors import InvalidArgument, LimitReached
from hive_core.model.wire.trace_context import parse_traceparent
from hive_core.model.work.judgement import RETRIES
from hive_core.model.work.task import TaskRequest
from hive_core.operations.budgets.spending import TaskCaps
from hive_core.operations.fields import bounded_text
from hive_core.operations.mail.hops import InTurn, next_hops
from hive_core.operations.tasks.assign import check_part_of
from hive_core.operations.tasks.funds import TaskBudget, budget_amounts

# Text and data fit into one message together with the head.
TEXT_MOST: Final = 32 * 1024
DATA_MOST: Final = 24 * 1024
CRITERIA_MOST: Final = 8 * 1024
RETRIES_MOST: Final = 10

Text = Annotated[str, Field(min_length=1), bounded_text(TEXT_MOST)]
TaskId = Annotated[str, Field(max_length=64)]


def _bounded_data(data: dict[str, object]) -> dict[str, object]:
    if len(json.dumps(data, indent=1).encode()) > DATA_MOST:
        raise ValueError(f"is longer than {DATA_MOST} bytes as JSON")
    return data


Data = Annotated[dict[str, object], AfterValidator(_bounded_data)]


class TaskCriteria(Params):
    """What the result of a task must meet: checks of the daemon, then the verdict of a judge."""

    text: Annotated[str, bounded_text(CRITERIA_MOST)] = Field(
        "",
        description="In words; at most 8 KiB. A model of the caller's session judges by it, or the"
        " caller with judge_task.",
    )
    data: list[Annotated[str, Field(min_length=1, max_length=128)]] = Field(
        [], max_length=32, description="Names that the data of the result must have."
    )
    artifacts: int = Field(
        0, ge=0, le=64, description="Number of artifacts of the agent that the result must name."
    )
    retries: int = Field(
        RETRIES, ge=0, le=RETRIES_MOST,
        description="How often the work is given back; then the assigner decides.",
    )  # fmt: skip


class TaskRequestParams(InTurn):
    """Shared parameters of the operations that assign a task."""

    data: Data | None = Field(
        None, description="Input for programs; the agent gets it together with the text."
    )
    requeue: int = Field(
        0, ge=0, le=100,
        description="Number of retries when the agent exits before the task ends.",
    )  # fmt: skip
    plan_required: bool = Field(
        default=False,
        description="Whether the agent may execute nothing before its plan is approved.",
    )
    soft: float | None = Field(
        None,
        gt=0,
        description="Seconds of work after which the daemon asks the agent for a report.",
    )
    deadline: float | None = Field(
        None, ge=0,
        description="Seconds of work after which the task is stopped; 0: never; default: a setting."
        " The clock starts when the agent begins the task.",
    )  # fmt: skip
    needs: list[TaskId] = Field(
        [], max_length=64, description="Tasks that must succeed before this one can begin."
    )
    artifacts: list[Annotated[str, Field(max_length=200)]] = Field(
        [], max_length=64, description="Ids of artifacts that the task needs."
    )
    thread: str = Field(
        "", max_length=128, pattern=r"^[!-~]*$", description="Conversation that it belongs to."
    )
    priority: int = Field(
        2,
        ge=0,
        le=3,
        description="0 (first) to 3; among equal priorities the oldest task is first.",
    )
    part_of: TaskId = Field(
        "",
        description="Task of the caller that this is a part of; default: the only one that it"
        " works on; -: none.",
    )
    context: Literal["keep", "clear"] | None = Field(
        None,
        description="Whether the agent keeps or clears its memory of earlier tasks before this"
        " one; default: the agent decides.",
    )
    budget: TaskBudget | None = Field(
        None,
        description="Budget of the task itself, taken from the caller's; the rest is returned when"
        " the task ends. Default: the budget of the agent pays.",
    )
    caps: TaskCaps | None = Field(
        None, description="Caps on the use of the task; deadlines bound its time."
    )
    traceparent: str = Field(
        "", max_length=55, description="Span of the operator's program that the task belongs to, as"
        " W3C Trace Context writes it; for tasks that are no part of another one.",
    )  # fmt: skip
    criteria: TaskCriteria | None = Field(
        None,
        description="What the result must meet before the task is done. Default: the report of the"
        " agent ends it.",
    )


def confirmation_of_budget(_: Call, params: TaskRequestParams) -> Level | None:
    """A task with a budget of its own takes what `fund_task` takes."""
    return None if params.budget is None else "fresh"


def task_request(call: Call, params: TaskRequestParams, description: str) -> TaskRequest:
    """The requested task, after the checks that do not depend on the assignee."""
    if params.part_of:
        check_part_of(call, params.part_of)
    if params.requeue > (most := call.settings.tasks.attempts):
        raise LimitReached(f"cannot assign a task: `requeue` is at most {most}")
    if params.soft and params.deadline and params.soft >= params.deadline:
        raise InvalidArgument("must be shorter than the deadline", field="soft")
    _check_traceparent(call, params)
    fields = params.model_dump(include=_SHARED)
    fields.update(after=tuple(params.needs), artifacts=tuple(params.artifacts))
    fields["context"] = params.context or ""
    fields["budget"] = budget_amounts(params.budget)
    fields["criteria"] = _criteria_values(params.criteria)
    fields["hops"] = next_hops(call, "assign a task", params.in_turn_of)
    return TaskRequest(description=description, title=getattr(params, "title", ""), **fields)


def _check_traceparent(call: Call, params: TaskRequestParams) -> None:
    """Refuse a trace that an agent names: hived alone says what its work is a part of."""
    if not params.traceparent:
        return
    if not call.by_operator or params.part_of:
        raise InvalidArgument("only the operator may give one, not for a part", field="traceparent")
    if parse_traceparent(params.traceparent) is None:
        raise InvalidArgument("is not a traceparent of version 00", field="traceparent")


def _criteria_values(criteria: TaskCriteria | None) -> dict[str, object]:
    """The criteria as the task request holds them."""
    if criteria is None:
        return {}
    if not (criteria.text.strip() or criteria.data or criteria.artifacts):
        raise InvalidArgument("set `text`, `data` or `artifacts`", field="criteria")
    return criteria.model_dump()


_SHARED: Final = {
    "data", "requeue", "plan_required", "soft", "deadline", "thread", "priority", "part_of",
    "traceparent",
}  # fmt: skip
