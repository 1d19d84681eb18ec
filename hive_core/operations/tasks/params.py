"""What is asked for with a task, as every way of giving one takes it."""

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
from hive_core.operations.tasks.funds import TaskBudget, words_of

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


class WishParams(Mutation):
    """What both ways of giving a task have in common."""

    data: Data | None = Field(
        None, description="For programs; the agent always gets it together with the text."
    )
    requeue: int = Field(
        0, ge=0, le=100, description="How often it is done again when its agent ends on the way."
    )
    plan_required: bool = Field(
        default=False, description="Nothing is executed before its plan is approved."
    )
    soft: float | None = Field(
        None, gt=0, description="Seconds of work after which the agent is asked for a report."
    )
    deadline: float | None = Field(
        None, ge=0,
        description="Seconds of work after which it is stopped; 0: never; a setting when absent.",
    )  # fmt: skip
    needs: list[TaskId] = Field(
        [], max_length=64, description="Tasks that have to end well before it is begun."
    )
    artifacts: list[Annotated[str, Field(max_length=200)]] = Field(
        [], max_length=64, description="What it needs from the store, by id."
    )
    thread: str = Field(
        "", max_length=128, pattern=r"^[!-~]*$", description="The conversation it belongs to."
    )
    priority: int = Field(2, ge=0, le=3, description="0 (first) to 3; then the oldest.")
    part_of: TaskId = Field(
        "",
        description="The task of the caller's that it is a part of; absent: its only one; -: none.",
    )
    context: Literal["keep", "clear"] | None = Field(
        None,
        description="Whether its agent keeps what it remembers of earlier tasks for this one, or"
        " begins it with nothing; absent: as the agent does by itself.",
    )
    budget: TaskBudget | None = Field(
        None,
        description="What it has of its own, out of the caller's budget; what is left goes back at"
        " its end. Absent: it is paid for as all that its agent does.",
    )
    caps: TaskCaps | None = Field(
        None, description="What it may use at most; its time is bounded by its deadlines."
    )


def wish_of(call: Call, params: WishParams, description: str) -> TaskRequest:
    """What is asked for, checked as far as one need not know the assignee."""
    if params.part_of:
        check_part_of(call, params.part_of)
    if params.requeue > call.settings.tasks.attempts:
        most = call.settings.tasks.attempts
        raise LimitReached(f"cannot assign a task: it is done again {most} times at most")
    if params.soft and params.deadline and params.soft >= params.deadline:
        raise InvalidArgument("soft has to come before the deadline", field="soft")
    given = params.model_dump(include=_SHARED)
    given.update(after=tuple(params.needs), artifacts=tuple(params.artifacts))
    given["context"] = params.context or ""
    given["budget"] = words_of(params.budget)
    return TaskRequest(description=description, title=getattr(params, "title", ""), **given)


_SHARED: Final = {
    "data", "requeue", "plan_required", "soft", "deadline", "thread", "priority", "part_of",
}  # fmt: skip
