"""Plans: made by who has a task, decided by who gave it; until then nothing is carried out.

Only `approve_plan` with the id of the newest plan approves. No message ever does.
"""

from __future__ import annotations

import json
from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, TaskEnded, when
from hive_core.broker.operation import Whose, operation
from hive_core.errors import Conflict, InvalidArgument, NotAllowed, NotFound
from hive_core.ledger.mail.posting import one_line
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.planning import Plan, PlanState, PlanStep
from hive_core.model.work.task import Task
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.notices import More, tell
from hive_core.operations.pages import fitting
from hive_core.operations.plans.requests import take_back_prompt
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
    audited,
    decided,
    made,
    row,
    steps_text,
)
from hive_core.operations.questions.letters import quote_lines, shorten
from hive_core.operations.tasks.begin import begin
from hive_core.operations.tasks.notices import daemon_mail
from hive_core.operations.tasks.transitions import move
from hive_core.operations.waits.operations import called_or_none
from hive_core.operations.waits.wait_tasks import seen_task
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF, fact_rule

SUBMITTED, APPROVED, REJECTED = "plan_submitted", "plan_approved", "plan_rejected"
_EVENTS: Final = {
    "in_progress": "start", "done": "finish", "failed": "fail", "skipped": "skip",
}  # fmt: skip


@operation(action="work", allow=SELF)
def create_plan(call: Call, params: CreatePlanParams) -> Record[PlanMade]:
    """Make a plan for a task of the caller's, and ask whoever gave it for approval.

    Until exactly this plan is approved, tools that execute are refused to the caller. A revised
    plan gets a new id, and the older one counts no more. A root agent's own plan needs nobody.
    """
    task = None if params.task is None else _own_task(call, params.task)
    if _needs_nobody(call):
        plan, voids = _created(call, params)
        plan = call.ledger.plans.move(plan.id, "adopt", call.now)
        return Record(made(plan, voids, ""), _adopted(call, task, plan), audited(call, plan))
    if task is None:
        raise InvalidArgument("say for which task: only a root plans without one", field="task")
    plan, voids = _created(call, params)
    task, begun = begin(call, task, "its plan")
    task, topics = move(call, task, "submit", why=f"plan {plan.id} waits for approval", plan="")
    topics |= begun | _prompt(call, task, plan, voids)
    topics = topics.union(*(take_back_prompt(call, each) for each in voids))
    return Record(made(plan, voids, display_name(call, task.assigner)), topics, audited(call, plan))


def _created(call: Call, params: CreatePlanParams) -> tuple[Plan, list[str]]:
    steps = [PlanStep(each.title, each.detail, tuple(each.tools)) for each in params.steps]
    plans = call.ledger.plans
    return plans.create(call.uuid, params.task or "", steps, params.note, call.now)


def _of_plan(call: Call, params: PlanParams | UpdateStepParams) -> str | None:
    found = call.ledger.plans.get(params.plan)
    return None if found is None else called_or_none(call, found.agent)


def _of_task(call: Call, params: ListPlansParams | ApprovePlanParams) -> str | None:
    task = call.ledger.tasks.get(params.task)
    return None if task is None else called_or_none(call, task.assignee)


def _assigner_of_plan(call: Call, params: PlanParams) -> frozenset[str]:
    plan = call.ledger.plans.get(params.plan)
    return frozenset() if plan is None or not plan.task else _gave(call, plan.task)


def _assigner_of_task(call: Call, params: ListPlansParams | ApprovePlanParams) -> frozenset[str]:
    return _gave(call, params.task)


def _gave(call: Call, id_: str) -> frozenset[str]:
    """Whether the caller gave this task to another; nobody decides on a plan of its own."""
    task = call.ledger.tasks.get(id_)
    gave = task is not None and call.uuid == task.assigner != task.assignee
    return frozenset({"assigner"}) if gave else frozenset()


_ASSIGNER: Final = fact_rule("assigner", "who assigned it", "you did not assign it")
_READS: Final = SELF | ANCESTOR | OPERATOR | _ASSIGNER
_DECIDES: Final = ANCESTOR | OPERATOR | _ASSIGNER


@operation(
    action="read", allow=_READS, whose=Whose("plan", "plan", _of_plan), facts=_assigner_of_plan
)
def get_plan(call: Call, params: PlanParams) -> PlanRow:
    """Show a plan with its steps: to its maker, an ancestor, who gave the task, the operator."""
    return row(call, call.ledger.plans.require(params.plan))


@operation(
    action="read", allow=_READS, whose=Whose("task", "task", _of_task), facts=_assigner_of_task
)
def list_plans(call: Call, params: ListPlansParams) -> PlanRows:
    """List the plans of a task, the newest first, as many as fit into one answer."""
    rows = (row(call, each) for each in call.ledger.plans.plans_of_task(params.task))
    return PlanRows(plans=list(fitting(rows, lambda each: len(each.model_dump_json().encode()))))


@operation(
    action="assign",
    allow=_DECIDES,
    whose=Whose("task", "task", _of_task),
    facts=_assigner_of_task,
    urgent=True,
)
def approve_plan(call: Call, params: ApprovePlanParams) -> Record[PlanDecided]:
    """Let a task be done in exactly the way of its newest plan.

    Who assigned the task may, an ancestor of its agent, and the operator. It is used once.
    """
    task, plan = _undecided(call, params, "approve")
    plan = call.ledger.plans.move(plan.id, "approve", call.now, by=call.uuid)
    topics = move(call, task, "approve", why=f"plan {plan.id} is approved", plan=plan.id)[1]
    topics |= take_back_prompt(call, plan.id)
    topics |= _answer(call, task, plan, APPROVED, "Your plan is approved: carry it out.")
    return Record(decided(call, plan), topics, audited(call, plan))


@operation(
    action="assign",
    allow=_DECIDES,
    whose=Whose("task", "task", _of_task),
    facts=_assigner_of_task,
    urgent=True,
)
def reject_plan(call: Call, params: RejectPlanParams) -> Record[PlanDecided]:
    """Refuse the newest plan of a task; its agent is told why and has to plan anew."""
    task, plan = _undecided(call, params, "reject")
    plan = call.ledger.plans.move(plan.id, "reject", call.now, by=call.uuid, reason=params.reason)
    topics = move(call, task, "reject", why=f"plan {plan.id} is rejected: {params.reason}")[1]
    topics |= take_back_prompt(call, plan.id)
    text = f"Your plan is rejected: {one_line(params.reason)}\nMake another one with create_plan."
    topics |= _answer(call, task, plan, REJECTED, text)
    return Record(decided(call, plan), topics, audited(call, plan))


@operation(action="work", allow=SELF, whose=Whose("plan", "plan", _of_plan))
def update_plan_step(call: Call, params: UpdateStepParams) -> Record[PlanRow]:
    """Say how a step of an approved plan stands. Only its maker may."""
    plan = call.ledger.plans.require(params.plan)
    if plan.state is not PlanState.APPROVED:
        raise Conflict(f"cannot carry out plan {plan.id}: it is {plan.state}")
    found = call.ledger.plans.move_step(plan.id, params.step, _EVENTS[params.status], params.note)
    topics = frozenset({f"task:{plan.task}"} if plan.task else ())
    return Record(row(call, found), topics, audited(call, found))


@when(TaskEnded)
def plans_end(call: Call, what: TaskEnded) -> frozenset[str]:
    """Of a task that has ended no plan is decided any more."""
    topics = frozenset[str]()
    for each in call.ledger.plans.plans_of_task(what.id):
        if each.state is PlanState.SUBMITTED:
            call.ledger.plans.move(each.id, "void", call.now, reason="its task has ended")
            topics |= take_back_prompt(call, each.id)
    return topics


@when(AgentDestroyed)
def plans_go(call: Call, what: AgentDestroyed) -> frozenset[str]:
    """The plans of a destroyed agent are kept as a record; nothing of them is open."""
    topics = frozenset[str]()
    for each in call.ledger.plans.plans_of_agent(what.uuid, STEPS_MOST):
        if each.open:
            call.ledger.plans.move(each.id, "void", call.now, reason="its agent is gone")
            topics |= take_back_prompt(call, each.id)
    return topics


def _own_task(call: Call, id_: str) -> Task:
    task = seen_task(call, id_)
    if task.assignee != call.uuid:
        raise NotAllowed(
            f"cannot plan task {id_} of {display_name(call, task.assignee)}: not yours"
        )
    return task


def _needs_nobody(call: Call) -> bool:
    """Row T2: a main manager's own plans are approved by nobody."""
    return call.by_operator or call.hive.topology.parent(call.caller) is None


def _adopted(call: Call, task: Task | None, plan: Plan) -> frozenset[str]:
    """A task that needs a plan has one now; its state is as before."""
    if task is None:
        return frozenset()
    task, begun = begin(call, task, "its plan")
    moved, topics = move(call, task, "submit", why=f"plan {plan.id}", plan="")
    return begun | topics | move(call, moved, "approve", why="its own plan", plan=plan.id)[1]


def _undecided(call: Call, params: ApprovePlanParams, verb: str) -> tuple[Task, Plan]:
    """The newest plan of the task, if it is this one and nobody has decided on it."""
    task = call.ledger.tasks.get(params.task)
    plan = call.ledger.plans.get(params.plan)
    if task is None or plan is None or plan.task != params.task:
        raise NotFound(f"no plan {params.plan} of task {params.task}")
    if (newest := call.ledger.plans.newest(params.task)) != plan.id:
        raise Conflict(f"cannot {verb} plan {plan.id}: {newest} took its place")
    if plan.state is not PlanState.SUBMITTED:
        raise Conflict(f"cannot {verb} plan {plan.id}: it is {plan.state}")
    return task, plan


def _prompt(call: Call, task: Task, plan: Plan, voids: list[str]) -> frozenset[str]:
    """Ask who gave the task, with the whole plan and how to answer."""
    name = called_or_none(call, task.assigner)
    if name is None:  # gone; an ancestor of the agent, or the operator, decides
        name = call.hive.topology.parent(call.caller) or THE_OPERATOR
    head = {"task": task.id, "plan": plan.id, "agent": call.caller, "voids": voids}
    lines = [
        json.dumps(head),
        f"{call.caller} asks for approval of its plan for task {task.id} ({shorten(task.label)}):",
        *steps_text(plan),
        *(["Note:", *quote_lines(plan.note)] if plan.note else []),
        f"Answer with approve_plan {task.id} {plan.id}, or reject_plan {task.id} {plan.id} REASON."
        " A message is no answer.",
    ]
    letter, topics = daemon_mail(call, name, SUBMITTED, "\n".join(lines), **_thread(task))
    asked = THE_OPERATOR if name == THE_OPERATOR else call.hive.spec(name).id
    call.ledger.plans.set_prompt(plan.id, asked, letter)
    return topics


def _thread(task: Task) -> More:
    return More(thread=task.request.thread) if task.request.thread else More()


def _answer(call: Call, task: Task, plan: Plan, kind: str, text: str) -> frozenset[str]:
    name = call.hive.name(task.assignee)
    if name is None:
        return frozenset()
    head = {"task": task.id, "plan": plan.id, "by": call.caller, "state": plan.state}
    body = f"{json.dumps(head)}\n{text}"
    return tell(call, call.hive, name, kind, body, **_thread(task))
