"""Plans as they are asked for, shown and told."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Mutation, Params, Result
from hive_core.ledger.mail.posting import one_line
from hive_core.model.work.planning import Plan, PlanStep
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.fields import also, bounded_text

STEPS_MOST: Final = 100
# In a message, which people and models read; `get_plan` shows all of it.
_SHOWN: Final = 48 * 1024

Id = Annotated[str, Field(max_length=64)]
Text = Annotated[str, bounded_text(16 * 1024)]


class StepParams(Params):
    title: str = Field(min_length=1, max_length=200, description="What is done, in a few words.")
    detail: Annotated[str, bounded_text(2048)] = Field("", description="More of it, if need be.")
    tools: list[Annotated[str, Field(max_length=200)]] = Field(
        [], max_length=32, description="Tools that it means to use."
    )


def _whole(step: object) -> object:
    return {"title": step} if isinstance(step, str) else step


class CreatePlanParams(Mutation):
    task: Id | None = Field(
        None, description="The task that it is for; absent: a main manager's plan of its own."
    )
    steps: list[Annotated[StepParams, BeforeValidator(_whole)]] = Field(
        min_length=1, max_length=STEPS_MOST,
        description="In the order in which they are done; a bare text is a title.",
    )  # fmt: skip
    note: Text = Field("", description="What who decides should know.")


class PlanMade(Result):
    plan: str = Field(description="The plan; a revised one gets a new id.")
    state: str = Field(description="submitted, or approved where nobody has to.")
    voids: list[str] = Field(description="Older plans of the task that count no more.")
    decides: str = Field(description="Who was asked; empty where nobody has to approve.")


class PlanParams(Params):
    plan: Id = Field(description="The plan.")


class StepRow(Result):
    step: int = Field(description="Its number, from 1.")
    title: str = Field(description="What is done.")
    detail: str = Field(description="More of it.")
    tools: list[str] = Field(description="Tools that it means to use.")
    status: str = Field(description="pending, in_progress, done, failed or skipped.")
    note: str = Field(description="What was said of it.")


class PlanRow(Result):
    plan: str = Field(description="The plan.")
    task: str = Field(description="The task that it is for; empty: a main manager's own.")
    agent: str = Field(description="Who made it.")
    state: str = Field(description="submitted, approved, rejected or void.")
    note: str = Field(description="What its maker said.")
    created: float = Field(description="Seconds since 1970.")
    decided_by: str = Field(description="Who approved or rejected it; empty: nobody did.")
    decided: float | None = Field(description="Seconds since 1970.")
    reason: str = Field(description="Why it was rejected, or is void.")
    steps: list[StepRow] = Field(description="In order.")


class ListPlansParams(Params):
    task: Id = Field(description="The task.")


class PlanRows(Result):
    plans: list[PlanRow] = Field(description="The newest first; only that one can be approved.")


class ApprovePlanParams(Mutation):
    task: Id = Field(
        validation_alias=also("task", "task_id"), description="The task. Also `task_id`."
    )
    plan: Id = Field(
        validation_alias=also("plan", "plan_id"), description="Its newest plan. Also `plan_id`."
    )


class RejectPlanParams(ApprovePlanParams):
    reason: str = Field(min_length=1, max_length=2000, description="Why; the agent is told.")


class PlanDecided(Result):
    plan: str = Field(description="The plan.")
    task: str = Field(description="The task.")
    agent: str = Field(description="Whose it is.")
    state: str = Field(description="approved or rejected.")


class UpdateStepParams(Mutation):
    plan: Id = Field(description="The plan.")
    step: int = Field(ge=1, le=STEPS_MOST, description="The number of the step, from 1.")
    status: Literal["in_progress", "done", "failed", "skipped"] = Field(
        description="How it stands now."
    )
    note: Annotated[str, bounded_text(2000)] = Field("", description="What there is to say of it.")


def steps_text(plan: Plan) -> list[str]:
    """The steps, a line each whatever stands in them, as many as a message has room for."""
    lines: list[str] = []
    left = _SHOWN
    for number, each in enumerate(plan.steps, 1):
        line = step_text(number, each)
        left -= len(line.encode())
        if left < 0:
            return [*lines, f"... and {len(plan.steps) - len(lines)} more: get_plan {plan.id}"]
        lines.append(line)
    return lines


def step_text(number: int, step: PlanStep) -> str:
    tools = f" [{', '.join(step.tools)}]" if step.tools else ""
    detail = f": {step.detail}" if step.detail else ""
    return one_line(f"{number}. {step.title}{detail}{tools}")


def made(plan: Plan, voids: list[str], decides: str) -> PlanMade:
    return PlanMade(plan=plan.id, state=plan.state, voids=voids, decides=decides)


def decided(call: Call, plan: Plan) -> PlanDecided:
    return PlanDecided(
        plan=plan.id, task=plan.task, agent=display_name(call, plan.agent), state=plan.state
    )


def audited(call: Call, plan: Plan) -> dict[str, object]:
    return {
        "plan": plan.id, "task": plan.task, "agent": plan.agent,
        "agent_name": display_name(call, plan.agent), "state": plan.state,
    }  # fmt: skip


def row(call: Call, plan: Plan) -> PlanRow:
    steps = [
        StepRow(
            step=number, title=each.title, detail=each.detail, tools=list(each.tools),
            status=each.state, note=each.note,
        )
        for number, each in enumerate(plan.steps, 1)
    ]  # fmt: skip
    return PlanRow(
        plan=plan.id, task=plan.task, agent=display_name(call, plan.agent), state=plan.state,
        note=plan.note, created=plan.created,
        decided_by=display_name(call, plan.decided_by) if plan.decided_by else "",
        decided=plan.decided, reason=plan.reason, steps=steps,
    )  # fmt: skip
