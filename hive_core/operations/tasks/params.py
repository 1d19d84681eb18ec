"""Parameters that every way of assigning a task has."""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Mutation
from hive_core.errors import InvalidArgument, LimitReached
from hive_core.model.work.task import TaskRequest
from hive_core.operations.budgets.spending import TaskCaps
from hive_core.operations.fields import bounded_text
from hive_core.operations.tasks.assign import check_part_of
from hive_core.operations.tasks.funds import TaskBudget, budget_amounts

# Together with the head they fit into one message.
TEXT_MOST: Final = 32 * 1024
DATA_MOST: Final = 24 * 1024

Text = Annotated[str, Field(min_length=1), bounded_text(TEXT_MOST)]
TaskId = Annotated[str, Field(max_length=64)]


def _bounded_data(data: dict[str, object]) -> dict[str, object]:
    if len(json.dumps(data, indent=1).encode()) > DATA_MOST:
        raise ValueError(f"is longer than {DATA_MOST} bytes as JSON")
    return data


Data = Annotated[dict[str, object], AfterValidator(_bounded_data)]


class TaskRequestParams(Mutation):
    """Parameters that both operations that assign a task have."""

    data: Data | None = Field(
        None, description="Input for programs; the agent gets it together with the text."
    )
    requeue: int = Field(
        0, ge=0, le=100,
        description="Number of retries when the agent exits before the task ends.",
    )  # fmt: skip
    plan_required: bool = Field(
        default=False, description="Let the agent execute nothing before its plan is approved."
    )
    soft: float | None = Field(
        None, gt=0, description="Seconds of work after which the agent is asked for a report."
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
        [], max_length=64, description="Artifacts that the task needs from the store, by id."
    )
    thread: str = Field(
        "", max_length=128, pattern=r"^[!-~]*$", description="Conversation that it belongs to."
    )
    priority: int = Field(2, ge=0, le=3, description="0 (first) to 3; then the oldest is first.")
    part_of: TaskId = Field(
        "",
        description="Task of the caller that this is a part of; default: its only one; -: none.",
    )
    context: Literal["keep", "clear"] | None = Field(
        None,
        description="Whether the agent keeps or clears what it remembers of earlier tasks before"
        " this one; default: as the agent does by itself.",
    )
    budget: TaskBudget | None = Field(
        None,
        description="Budget of the task itself, taken from the caller's; what is left is returned"
        " when the task ends. Default: the budget of the agent pays.",
    )
    caps: TaskCaps | None = Field(
        None, description="What the task may use at most; deadlines bound its time."
    )


def task_request(call: Call, params: TaskRequestParams, description: str) -> TaskRequest:
    """The task that is asked for, after the checks that do not depend on the assignee."""
    if params.part_of:
        check_part_of(call, params.part_of)
    if params.requeue > (most := call.settings.tasks.attempts):
        raise LimitReached(f"cannot assign a task: `requeue` may be {most} at most")
    if params.soft and params.deadline and params.soft >= params.deadline:
        raise InvalidArgument("soft has to come before the deadline", field="soft")
    fields = params.model_dump(include=_SHARED)
    fields.update(after=tuple(params.needs), artifacts=tuple(params.artifacts))
    fields["context"] = params.context or ""
    fields["budget"] = budget_amounts(params.budget)
    return TaskRequest(description=description, title=getattr(params, "title", ""), **fields)


_SHARED: Final = {
    "data", "requeue", "plan_required", "soft", "deadline", "thread", "priority", "part_of",
}  # fmt: skip
