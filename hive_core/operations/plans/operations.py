"""Plans: the assignee makes a plan and the assigner decides.

Before that the assignee executes nothing.

Only `approve_plan` with the id of the newest plan approves it. A message cannot.
"""

from __future__ import annotations

import json
from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, TaskEnded, TaskHandedBack, on
from hive_core.broker.login_rule import FRESH
from hive_core.broker.operation import Whose, operation
from hive_core.errors import Conflict, InvalidArgument, NotAllowed, NotFound
from hive_core.ledger.mail.posting import one_line
from hive_core.model.work.planning import Plan, PlanState, PlanStep
from hive_core.model.work.task import Task
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.notices import send_notice
from hive_core.operations.pages import take_fitting
from hive_core.operations.plans.prompts import mail_thread, send_prompt, withdraw_prompt
from hive_core.operations.plans.views import (
    STEPS_MOST,
    ApprovePlanParams,
    CreatePlanParams,
    ListPlansParams,
    PlanDecided,
    PlanMade,
    PlanParams,
    PlanRow,
    PlanRows,
    RejectPlanParams,
    UpdateStepParams,
    created_plan,
    event_fields,
    plan_decision,
    plan_row,
)
from hive_core.operations.tasks.rules import living_name, visible_task
from hive_core.operations.tasks.steps import begin_work, task_topic
from hive_core.operations.tasks.transitions import move_task
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF, fact_rule

APPROVED, REJECTED = "plan_approved", "plan_rejected"
_STEP_EVENTS: Final = {
    "in_progress": "start", "done": "finish", "failed": "fail", "skipped": "skip",
}  # fmt: skip


@operation(action="work", allow=SELF)
def create_plan(call: Call, params: CreatePlanParams) -> Record[PlanMade]:
    """Make a plan for a task of the caller, and ask its assigner for approval.

    Until exactly this plan is approved, tools that execute are refused to the caller. A revised
    plan gets a new id, and the older one is void. A root agent's plan needs no approval.
    """
    task = None if params.task is None else _own_task(call, params.task)
    if _needs_no_approval(call):
        plan, voids = _create(call, params)
        plan = call.ledger.plans.move(plan.id, "adopt", call.now)
        if task is not None:
            _adopt(call, task, plan)
        return Record(created_plan(plan, voids, ""), fields=event_fields(call, plan))
    if task is None:
        raise InvalidArgument("name the task: only a root agent plans without one", field="task")
    plan, voids = _create(call, params)
    task = begin_work(call, task, "its plan")
    task = move_task(call, task, "submit", why=f"plan {plan.id} waits for approval", plan="")
    send_prompt(call, task, plan, voids)
    for void in voids:
        withdraw_prompt(call, void)
    assigner = display_name(call, task.assigner)
    return Record(created_plan(plan, voids, assigner), fields=event_fields(call, plan))


def _needs_no_approval(call: Call) -> bool:
    """Whether the caller is a root agent or the operator (row T2)."""
    return call.by_operator or call.hive.topology.parent(call.caller) is None


def _create(call: Call, params: CreatePlanParams) -> tuple[Plan, list[str]]:
    """The new plan, and the ids of the plans that it makes void."""
    steps = [PlanStep(step.title, step.detail, tuple(step.tools)) for step in params.steps]
    plans = call.ledger.plans
    return plans.create(call.uuid, params.task or "", steps, params.note, call.now)


def _plan_maker(call: Call, params: PlanParams | UpdateStepParams) -> str | None:
    plan = call.ledger.plans.get(params.plan)
    return None if plan is None else living_name(call, plan.agent)


def _assignee(call: Call, params: ListPlansParams | ApprovePlanParams) -> str | None:
    task = call.ledger.tasks.get(params.task)
    return None if task is None else living_name(call, task.assignee)


def _facts_of_plan(call: Call, params: PlanParams) -> frozenset[str]:
    plan = call.ledger.plans.get(params.plan)
    return frozenset() if plan is None or not plan.task else _assigner_facts(call, plan.task)


def _facts_of_task(call: Call, params: ListPlansParams | ApprovePlanParams) -> frozenset[str]:
    return _assigner_facts(call, params.task)


def _assigner_facts(call: Call, id_: str) -> frozenset[str]:
    """Whether the caller assigned the task to another agent.

    An agent cannot approve its own plan.
    """
    task = call.ledger.tasks.get(id_)
    is_assigner = task is not None and call.uuid == task.assigner != task.assignee
    return frozenset({"assigner"}) if is_assigner else frozenset()


_ASSIGNER: Final = fact_rule("assigner", "the assigner of the task", "you did not assign it")
_READS: Final = SELF | ANCESTOR | OPERATOR | _ASSIGNER
_DECIDES: Final = ANCESTOR | OPERATOR | _ASSIGNER


@operation(
    action="read", allow=_READS, whose=Whose("plan", "plan", _plan_maker), facts=_facts_of_plan
)
def get_plan(call: Call, params: PlanParams) -> PlanRow:
    """Show a plan with its steps.

    Allowed to the agent that made it, its ancestors, the assigner of the task and the operator.
    """
    return plan_row(call, call.ledger.plans.require(params.plan))


@operation(
    action="read", allow=_READS, whose=Whose("task", "task", _assignee), facts=_facts_of_task
)
def list_plans(call: Call, params: ListPlansParams) -> PlanRows:
    """List the plans of a task, the newest first, as many as fit into one reply."""
    rows = (plan_row(call, plan) for plan in call.ledger.plans.plans_of_task(params.task))
    return PlanRows(plans=list(take_fitting(rows, lambda row: len(row.model_dump_json().encode()))))


@operation(
    action="assign",
    allow=_DECIDES,
    whose=Whose("task", "task", _assignee),
    facts=_facts_of_task,
    urgent=True,
    idempotent=True,
    login=FRESH,
)
def approve_plan(call: Call, params: ApprovePlanParams) -> Record[PlanDecided]:
    """Approve the newest plan of a task: the agent may carry it out, exactly as it is.

    Allowed to the assigner of the task, the ancestors of its agent and the operator. A plan can be
    approved once.
    """
    task, plan = _undecided_plan(call, params, "approve")
    plan = call.ledger.plans.move(plan.id, "approve", call.now, by=call.uuid)
    move_task(call, task, "approve", why=f"plan {plan.id} is approved", plan=plan.id)
    withdraw_prompt(call, plan.id)
    _send_decision(call, task, plan, APPROVED, "Your plan is approved: carry it out.")
    return Record(plan_decision(call, plan), fields=event_fields(call, plan))


@operation(
    action="assign",
    allow=_DECIDES,
    whose=Whose("task", "task", _assignee),
    facts=_facts_of_task,
    urgent=True,
)
def reject_plan(call: Call, params: RejectPlanParams) -> Record[PlanDecided]:
    """Reject the newest plan of a task; its agent is told the reason and has to make a new plan."""
    task, plan = _undecided_plan(call, params, "reject")
    plan = call.ledger.plans.move(plan.id, "reject", call.now, by=call.uuid, reason=params.reason)
    move_task(call, task, "reject", why=f"plan {plan.id} is rejected: {params.reason}")
    withdraw_prompt(call, plan.id)
    text = f"Your plan is rejected: {one_line(params.reason)}\nMake another one with create_plan."
    _send_decision(call, task, plan, REJECTED, text)
    return Record(plan_decision(call, plan), fields=event_fields(call, plan))


@operation(action="work", allow=SELF, whose=Whose("plan", "plan", _plan_maker))
def update_plan_step(call: Call, params: UpdateStepParams) -> Record[PlanRow]:
    """Set the status of a step of an approved plan. Allowed to the agent that made the plan."""
    plan = call.ledger.plans.require(params.plan)
    if plan.state is not PlanState.APPROVED:
        raise Conflict(f"cannot carry out plan {plan.id}: it is {plan.state}")
    event = _STEP_EVENTS[params.status]
    plan = call.ledger.plans.move_step(plan.id, params.step, event, params.note)
    if plan.task:
        call.notify(task_topic(plan.task))
    return Record(plan_row(call, plan), fields=event_fields(call, plan))


@on(TaskEnded)
def void_plans_of_task(call: Call, event: TaskEnded) -> None:
    """Void the undecided plan of a task that has ended."""
    _void_undecided_plan(call, event.id, "its task has ended")


@on(TaskHandedBack)
def void_plans_of_attempt(call: Call, event: TaskHandedBack) -> None:
    """Void the undecided plan of an attempt that is over: the next attempt plans anew."""
    _void_undecided_plan(call, event.id, f"its task was queued again: {event.why}")


def _void_undecided_plan(call: Call, task: str, why: str) -> None:
    for plan in call.ledger.plans.plans_of_task(task):
        if plan.state is PlanState.SUBMITTED:
            call.ledger.plans.move(plan.id, "void", call.now, reason=why)
            withdraw_prompt(call, plan.id)


@on(AgentDestroyed)
def void_plans_of_agent(call: Call, event: AgentDestroyed) -> None:
    """Void the open plans of a destroyed agent; all its plans are kept as a record."""
    for plan in call.ledger.plans.plans_of_agent(event.uuid, STEPS_MOST):
        if plan.open:
            call.ledger.plans.move(plan.id, "void", call.now, reason="its agent was destroyed")
            withdraw_prompt(call, plan.id)


def _own_task(call: Call, id_: str) -> Task:
    task = visible_task(call, id_)
    if task.assignee != call.uuid:
        raise NotAllowed(
            f"cannot plan task {id_} of {display_name(call, task.assignee)}: it is not yours"
        )
    return task


def _adopt(call: Call, task: Task, plan: Plan) -> None:
    """Record the plan of a root agent, which needs no approval, in its task.

    The state does not change.
    """
    task = begin_work(call, task, "its plan")
    task = move_task(call, task, "submit", why=f"plan {plan.id}", plan="")
    move_task(call, task, "approve", why="its own plan", plan=plan.id)


def _undecided_plan(call: Call, params: ApprovePlanParams, verb: str) -> tuple[Task, Plan]:
    """The task and its newest plan; refused unless that is the named plan and it is undecided."""
    task = call.ledger.tasks.get(params.task)
    plan = call.ledger.plans.get(params.plan)
    if task is None or plan is None or plan.task != params.task:
        raise NotFound(f"no plan {params.plan} of task {params.task}")
    if (newest := call.ledger.plans.newest(params.task)) != plan.id:
        raise Conflict(f"cannot {verb} plan {plan.id}: {newest} took its place")
    if plan.state is not PlanState.SUBMITTED:
        raise Conflict(f"cannot {verb} plan {plan.id}: it is {plan.state}")
    return task, plan


def _send_decision(call: Call, task: Task, plan: Plan, kind: str, text: str) -> None:
    name = call.hive.name(task.assignee)
    if name is None:
        return
    head = {"task": task.id, "plan": plan.id, "by": call.caller, "state": plan.state}
    body = f"{json.dumps(head)}\n{text}"
    send_notice(call, call.hive, name, kind, body, **mail_thread(task))
