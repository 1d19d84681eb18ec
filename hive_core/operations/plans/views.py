"""Parameters and results of the operations on plans."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Mutation, Params, Result
from hive_core.model.work.planning import Plan
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.fields import also, bounded_text

STEPS_MOST: Final = 100

Id = Annotated[str, Field(max_length=64)]
Text = Annotated[str, bounded_text(16 * 1024)]


class StepParams(Params):
    title: str = Field(min_length=1, max_length=200, description="Short title of the step.")
    detail: Annotated[str, bounded_text(2048)] = Field("", description="Details of the step.")
    tools: list[Annotated[str, Field(max_length=200)]] = Field(
        [], max_length=32, description="Tools that the step needs."
    )


def _step_from_text(step: object) -> object:
    return {"title": step} if isinstance(step, str) else step


class CreatePlanParams(Mutation):
    task: Id | None = Field(
        None, description="Task that the plan is for; default: none, for a root agent's own plan."
    )
    steps: list[Annotated[StepParams, BeforeValidator(_step_from_text)]] = Field(
        min_length=1, max_length=STEPS_MOST,
        description="Steps in the order of their execution; a plain string is a title.",
    )  # fmt: skip
    note: Text = Field("", description="Note for the approver.")


class PlanMade(Result):
    plan: str = Field(description="Id of the plan; a revised plan gets a new id.")
    state: str = Field(description="submitted, or approved when no approval is needed.")
    voids: list[str] = Field(description="Older plans of the task that are void now.")
    decides: str = Field(
        description="Name of the agent that was asked; empty when no approval is needed."
    )


class PlanParams(Params):
    plan: Id = Field(description="Id of the plan.")


class PlanStepRow(Result):
    step: int = Field(description="Number of the step, from 1.")
    title: str = Field(description="Short title of the step.")
    detail: str = Field(description="Details of the step.")
    tools: list[str] = Field(description="Tools that the step needs.")
    status: str = Field(description="pending, in_progress, done, failed or skipped.")
    note: str = Field(description="Note about the status.")


class PlanRow(Result):
    plan: str = Field(description="Id of the plan.")
    task: str = Field(description="Task that it is for; empty: a root agent's own plan.")
    agent: str = Field(description="Name of the agent that made it.")
    state: str = Field(description="submitted, approved, rejected or void.")
    note: str = Field(description="Note of the agent that made it.")
    created: float = Field(description="Seconds since 1970.")
    decided_by: str = Field(description="Name of the agent that approved or rejected it; or empty.")
    decided: float | None = Field(description="Seconds since 1970; null: not decided.")
    reason: str = Field(description="Why it was rejected, or is void.")
    steps: list[PlanStepRow] = Field(description="Steps in order.")


class ListPlansParams(Params):
    task: Id = Field(description="Id of the task.")


class PlanRows(Result):
    plans: list[PlanRow] = Field(
        description="The plans, the newest first; only the newest can be approved."
    )


class ApprovePlanParams(Mutation):
    task: Id = Field(
        validation_alias=also("task", "task_id"), description="Id of the task. Also `task_id`."
    )
    plan: Id = Field(
        validation_alias=also("plan", "plan_id"),
        description="Id of its newest plan. Also `plan_id`.",
    )


class RejectPlanParams(ApprovePlanParams):
    reason: str = Field(
        min_length=1,
        max_length=2000,
        description="Reason, which the daemon tells the agent of the task.",
    )


class PlanDecided(Result):
    plan: str = Field(description="Id of the plan.")
    task: str = Field(description="Id of the task.")
    agent: str = Field(description="Name of the agent that made the plan.")
    state: str = Field(description="approved or rejected.")


class UpdateStepParams(Mutation):
    plan: Id = Field(description="Id of the plan.")
    step: int = Field(ge=1, le=STEPS_MOST, description="Number of the step, from 1.")
    status: Literal["in_progress", "done", "failed", "skipped"] = Field(
        description="New status of the step."
    )
    note: Annotated[str, bounded_text(2000)] = Field("", description="Note about the status.")


def created_plan(plan: Plan, voids: list[str], decides: str) -> PlanMade:
    return PlanMade(plan=plan.id, state=plan.state, voids=voids, decides=decides)


def plan_decision(call: Call, plan: Plan) -> PlanDecided:
    return PlanDecided(
        plan=plan.id, task=plan.task, agent=display_name(call, plan.agent), state=plan.state
    )


def event_fields(call: Call, plan: Plan) -> dict[str, object]:
    """The fields of every event about a plan."""
    return {
        "plan": plan.id, "task": plan.task, "agent": plan.agent,
        "agent_name": display_name(call, plan.agent), "state": plan.state,
    }  # fmt: skip


def plan_row(call: Call, plan: Plan) -> PlanRow:
    steps = [
        PlanStepRow(
            step=number, title=step.title, detail=step.detail, tools=list(step.tools),
            status=step.state, note=step.note,
        )
        for number, step in enumerate(plan.steps, 1)
    ]  # fmt: skip
    return PlanRow(
        plan=plan.id, task=plan.task, agent=display_name(call, plan.agent), state=plan.state,
        note=plan.note, created=plan.created,
        decided_by=display_name(call, plan.decided_by) if plan.decided_by else "",
        decided=plan.decided, reason=plan.reason, steps=steps,
    )  # fmt: skip
