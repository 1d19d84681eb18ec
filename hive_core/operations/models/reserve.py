"""Whether an agent may call a model now, and what the call holds until it ends."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from uuid import uuid4

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Params, Result, Whose, operation
from hive_core.errors import LimitReached, NotAllowed, NotFound
from hive_core.ledger.models.storage import ReservedCall
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.work.budget import BudgetKind
from hive_core.operations.agents.quarantine import check_quarantine_of
from hive_core.operations.budgets.payer_budget import (
    BUDGET,
    bounds,
    budget_title,
    giver_name,
    holder_name,
    usage_text,
    with_reported_use,
)
from hive_core.operations.models.holds import (
    BYTES_A_TOKEN,
    OUT_MOST,
    ModelNeed,
    Work,
    hold,
    model_refusal,
    short_payer,
)
from hive_core.operations.tasks.caps import reached_cap
from hive_core.policy.rules import MODEL

TOPIC: Final = "model"
RATE: Final = "rate"
# An open call without a note for so long was lost: it is charged as estimated.
NOTED_WITHIN: Final = 60.0
# The longest time that a call may hold anything.
LONGEST: Final = 3600.0
_SIZE_MOST: Final = 1 << 31
Size = Annotated[int, Field(ge=0, le=_SIZE_MOST)]
Price = Annotated[float, Field(ge=0, le=1_000_000)]


class ReserveModelParams(Params):
    agent: str = Field(max_length=64, description="UUID of the agent that calls.")
    sub: str = Field("", max_length=64, description="Its sub-agent that calls; empty: itself.")
    alias: str = Field(max_length=64, description="The model that is called.")
    wire: Literal["chat", "responses", "messages"] = Field(description="Wire of the call.")
    bytes: Size = Field(description="Size of the request in bytes.")
    out_most: Size = Field(description="Maximum number of tokens of the answer.")
    task: str | None = Field(
        None, max_length=64, description="The task of the agent that the call is for."
    )
    tools: bool = Field(
        default=True,
        description="Whether the model may call tools in its answer.",
    )
    hand_back: bool = Field(
        default=False,
        description="Whether the answer is to be the report of a task whose budget is used up. Such"
        " a call, without tools, passes once for each attempt of the task.",
    )
    price_in: Price | None = Field(
        None, description="Price of a million tokens of input; absent: that of models.toml."
    )
    price_out: Price | None = Field(None, description="Price of a million tokens of output.")


class ModelReservation(Result):
    reservation: str = Field(description="Id of the reservation, for its notes and its settlement.")
    alias: str = Field(description="The model.")
    held_tokens: int = Field(description="Number of tokens that the call is expected to use.")


@operation(
    action="meter",
    allow=MODEL,
    whose=Whose("agent", "agent", lambda call, params: call.hive.name(params.agent)),
    preposition="for",
)
def reserve_model(call: Call, params: ReserveModelParams) -> Record[ModelReservation]:
    """Decide whether an agent may call a model now, and hold what the call is expected to use.

    The model has to be among those of the agent, the budgets that pay must have room for the input,
    and no bound of tokens an hour may be reached. What is held is not free until the call is
    settled. A call that is not noted for a minute is charged as estimated.
    """
    name = call.hive.name(params.agent) or params.agent
    spec = call.hive.spec(name)
    check_quarantine_of(call, spec.id, f"call a model for {name}")
    check_model(call, name, spec, params.alias)
    work = Work(spec.id, spec.tier.value, task_of_call(call, spec.id, params))
    need = model_need(call, params)
    check_hour(call, name, work.uuid)
    may_hand_back = params.hand_back and not params.tools
    hand_back = check_room(call, name, work, need, may_hand_back=may_hand_back)
    reserved = ReservedCall(
        str(uuid4()), spec.id, params.sub, params.alias, params.wire, work.tier, work.task,
        hand_back, need.tokens_in, 0, need.price_in, need.price_out, call.now,
        call.now + NOTED_WITHIN,
    )  # fmt: skip
    call.ledger.models.save(reserved)
    if hand_back:
        attempt = call.ledger.tasks.require(work.task).attempt
        call.ledger.models.hand_back(work.task, attempt, reserved.id)
    call.ledger.models.stop_waiting(spec.id)
    hold(call, reserved.id, work, need)
    call.notify(f"{TOPIC}:{spec.id}")
    expected = need.whole(BudgetKind.TOKENS)
    result = ModelReservation(reservation=reserved.id, alias=params.alias, held_tokens=expected)
    return Record(result)


def check_model(call: Call, name: str, spec: AgentSpec, alias: str) -> None:
    """Raise NotFound for a model that the host does not have, NotAllowed for one of others."""
    allowed = call.models.allowed_models(spec)
    there = ", ".join(allowed) or "none"
    if alias not in call.models.aliases:
        raise NotFound(f"no model {alias}: {name} may use {there}")
    if alias not in allowed:
        raise NotAllowed(
            f"cannot call {alias} for {name}: it may use {there}; the operator can grant the"
            f" capability model:{alias}",
            rule="model",
        )


def task_of_call(call: Call, uuid: str, params: ReserveModelParams) -> str:
    """The open task that pays for a call: that of its sub-agent, where one calls."""
    if not params.sub:
        return own_task(call, uuid, params.task)
    sub = call.ledger.subagents.get(uuid, params.sub)
    if sub is None or sub.deadline <= call.now:
        raise NotFound(f"no model call for sub-agent {params.sub}: it is closed")
    return own_task(call, uuid, sub.task or params.task)


def own_task(call: Call, uuid: str, id_: str | None) -> str:
    """The open task of the agent that the call is for; empty: none, or one that has ended.

    An assigner has the result of a task judged for the task, while it waits for that.
    """
    task = call.ledger.tasks.get(id_) if id_ else None
    judges = task is not None and task.assigner == uuid and task.is_delivered
    if id_ and (task is None or not (task.assignee == uuid or judges)):
        raise NotAllowed(f"cannot call a model for task {id_}: it is not a task of the agent")
    return task.id if task is not None and task.open else ""


def model_need(call: Call, params: ReserveModelParams) -> ModelNeed:
    entry = call.models.file.models[params.alias]
    price_in = entry.price_in if params.price_in is None else params.price_in
    price_out = entry.price_out if params.price_out is None else params.price_out
    return ModelNeed(
        -(-params.bytes // BYTES_A_TOKEN), min(params.out_most, OUT_MOST), price_in or 0.0,
        price_out or 0.0,
    )  # fmt: skip


def check_room(call: Call, name: str, work: Work, need: ModelNeed, *, may_hand_back: bool) -> bool:
    """Raise LimitReached where a budget has no room; return whether the call hands a task back.

    A task whose own budget is used up, or that has reached a cap, has one call without tools in
    each attempt, so that its agent can say what it has (row Q24).
    """
    cap = reached_cap(call, work.task) if work.task else ""
    payer = short_payer(call, work, need)
    if not cap and payer is None:
        return False
    if may_hand_back and _has_hand_back(call, work.task) and (
        cap or (payer is not None and payer.fund is not None)
    ):  # fmt: skip
        payer = short_payer(call, work, need, last=True)
        if payer is None:
            return True
    if payer is not None:
        raise model_refusal(call, name, payer, need)
    raise LimitReached(
        f"no model call for {name}: task {work.task} has used {cap}; report now what you have",
        rule=BUDGET, budget=f"task {work.task}", of="task",
    )  # fmt: skip


def _has_hand_back(call: Call, id_: str) -> bool:
    """Whether this attempt of the task still has its call beyond the budget."""
    task = call.ledger.tasks.get(id_) if id_ else None
    return task is not None and not call.ledger.models.has_handed_back(task.id, task.attempt)


def check_hour(call: Call, name: str, uuid: str) -> None:
    """Raise LimitReached where a bound of tokens an hour is reached (row K23)."""
    for bound in bounds(call, uuid, BudgetKind.TOKENS_PER_HOUR):
        used = with_reported_use(call, bound)
        shortage = call.ledger.budgets.shortage(bound)
        if not used.empty and shortage is None:
            continue
        hour = call.ledger.budgets.bounds.hour(bound.agent, call.now)[0]
        again = hour.time_below(bound.free)
        if shortage is not None and shortage.stop_at is not None:
            again = shortage.stop_at
        wait = max(1.0, again - call.now) if bound.free else LONGEST
        raise LimitReached(
            f"no model call for {name}: the {budget_title(used)} of {holder_name(call, used)} is"
            f" reached ({usage_text(call, used)}); try again in {wait:.0f} s, or"
            f" {giver_name(call, used)} can give more",
            rule=RATE, of=BudgetKind.TOKENS_PER_HOUR.value, retry_after=wait,
        )  # fmt: skip
