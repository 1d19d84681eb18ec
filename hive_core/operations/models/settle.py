"""The end of a call of a model: what it used is charged once, and recorded as one event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import TaskEnded, on
from hive_core.broker.operation import Params, Result, operation
from hive_core.broker.timers import due
from hive_core.errors import NotFound
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.budgets.usage import UsageAmount, day_of
from hive_core.ledger.models.storage import ESTIMATED, OPEN, SETTLED, ModelHold, ReservedCall
from hive_core.model.work.budget import AMOUNT_MOST, BudgetKind, UsageSource
from hive_core.operations.budgets.payer_budget import ChargedPayers, budget_topic
from hive_core.operations.budgets.shortages import end_shortage
from hive_core.operations.budgets.spending import DAY_MOST, AdmittedUse, UsageReport, record_usage
from hive_core.operations.models.holds import KINDS, Work, charged_payers, find_payer, release
from hive_core.operations.models.reserve import LONGEST, NOTED_WITHIN, TOPIC
from hive_core.policy.rules import MODEL

MODEL_EVENT: Final = "model"
AT_ONCE: Final = 16
_MILLIONTHS: Final = 1_000_000
_COST_MOST: Final = 1_000_000.0
_TOKENS: Final = {"tokens_in": "tokens_in", "tokens_out": "tokens_out", "cost": "money"}
# Ends of a call that the caller cannot bring about: it had no answer, by no fault of its own.
_FAILED: Final = frozenset({"error", "timeout"})
Tokens = Annotated[int, Field(ge=0, le=DAY_MOST)]
Milliseconds = Annotated[int, Field(ge=0, le=1 << 40)]


class NoteModelParams(Params):
    reservation: str = Field(max_length=64, description="The reservation of the call.")
    tokens_out: Tokens = Field(0, description="Tokens of the answer so far.")


class ModelNoted(Result):
    open: bool = Field(
        description="Whether the call still holds anything; else it was charged as estimated."
    )


class SettleModelParams(Params):
    reservation: str = Field(max_length=64, description="The reservation of the call.")
    status: Literal["done", "error", "broken", "gone", "timeout"] = Field(
        description="How it ended: `error`: the provider answered with one; `broken`: the provider"
        " stopped in the middle; `gone`: the caller left; `timeout`: the provider was silent."
    )
    model: str = Field(
        "", max_length=64, description="The model that answered; empty: the reserved."
    )
    tokens_in: Tokens = Field(0, description="Tokens of the input, those of the cache included.")
    tokens_out: Tokens = Field(0, description="Tokens of the answer.")
    cache_read: Tokens = Field(0, description="Tokens of the input that a cache had.")
    cache_write: Tokens = Field(0, description="Tokens of the input that a cache keeps now.")
    cost: float = Field(0.0, ge=0, le=_COST_MOST, description="Its price, in the host's currency.")
    ttft_ms: Milliseconds = Field(0, description="Milliseconds until the first part of the answer.")
    latency_ms: Milliseconds = Field(0, description="Milliseconds until its end.")
    prefix: str = Field(
        "",
        pattern=r"^([0-9a-f]{64})?$",
        description="SHA-256 of the request up to its last message.",
    )
    estimated: bool = Field(
        default=False, description="Whether the provider did not say what was used."
    )


class ModelSettled(Result):
    reservation: str = Field(description="The reservation.")
    tokens_in: int = Field(description="Tokens of input that were charged.")
    tokens_out: int = Field(description="Tokens of output that were charged.")
    cost: int = Field(description="Money that was charged, in millionths.")


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What one call used, as it is charged. `cost` is in millionths."""

    model: str
    tokens_in: int
    tokens_out: int
    cost: int
    source: UsageSource


@operation(action="meter", allow=MODEL)
def note_model(call: Call, params: NoteModelParams) -> Record[ModelNoted] | ModelNoted:
    """Say that a call goes on, and how long its answer is by now; every few seconds."""
    noted = _require(call, params.reservation)
    if noted.status != OPEN:
        return ModelNoted(open=False)
    until = min(call.now + NOTED_WITHIN, noted.begun + LONGEST)
    tokens = max(noted.tokens_out, params.tokens_out)
    call.ledger.models.save(replace(noted, tokens_out=tokens, due=until))
    return Record(ModelNoted(open=True))


@operation(action="meter", allow=MODEL)
def settle_model(call: Call, params: SettleModelParams) -> Record[ModelSettled] | ModelSettled:
    """Charge what a call used, once, and record the call as an event of kind `model`.

    Repeating it returns the first result. A call that was charged as estimated meanwhile is charged
    anew.
    """
    reserved = _require(call, params.reservation)
    if reserved.status == SETTLED:
        return _settlement(reserved)
    paid = _withdraw_estimate(call, reserved) if reserved.status == ESTIMATED else []
    source = UsageSource.ESTIMATED if params.estimated else UsageSource.MEASURED
    cost = min(AMOUNT_MOST, round(params.cost * _MILLIONTHS))
    model = params.model or reserved.alias
    use = ModelUse(model, params.tokens_in, params.tokens_out, cost, source)
    details = params.model_dump(
        include={"status", "cache_read", "cache_write", "ttft_ms", "latency_ms", "prefix"}
    )
    ended = _end(call, reserved, use, SETTLED, paid)
    if params.status in _FAILED and not any((use.tokens_in, use.tokens_out, use.cost)):
        call.ledger.models.allow_another_hand_back(ended.id)
    _log(call, ended, use, {**details, "replaces_estimate": reserved.status == ESTIMATED})
    return Record(_settlement(ended))


@due(at=lambda ledger: ledger.models.next_due(), topics=frozenset({TOPIC}))
def estimate_lost_calls(call: Call) -> Record[Result]:
    """Charge calls whose end is not known, as far as they were noted."""
    models = call.ledger.models
    for lost in models.overdue(call.now, AT_ONCE):
        cost = lost.cost(lost.tokens_out)
        use = ModelUse(
            lost.alias, lost.tokens_in, lost.tokens_out, cost, UsageSource.ESTIMATED
        )  # fmt: skip
        _log(call, _end(call, lost, use, ESTIMATED), use, {"status": "lost"})
    models.prune(call.now)
    return Record(Result(), audited=True)


@on(TaskEnded)
def _forget_hand_back(call: Call, event: TaskEnded) -> None:
    call.ledger.models.forget_hand_back(event.id)


def _require(call: Call, id_: str) -> ReservedCall:
    known = call.ledger.models.get(id_)
    if known is None:
        raise NotFound(f"no reservation {id_}")
    return known


def _end(
    call: Call, reserved: ReservedCall, use: ModelUse, status: str, paid: Sequence[ModelHold] = ()
) -> ReservedCall:
    """Release what the call holds, charge what it used, and save its end.

    `paid`: what its estimate was paid by.
    """
    holds = [*release(call, reserved.id), *paid]
    charged = _charge(call, reserved, use, holds)
    ended = reserved.with_end(call.now, status, charged)
    call.ledger.models.save(ended)
    call.notify(f"{TOPIC}:{reserved.agent}", budget_topic(reserved.agent))
    return ended


def _charge(
    call: Call, reserved: ReservedCall, use: ModelUse, holds: Sequence[ModelHold]
) -> dict[str, Any]:
    """Charge the use to the budgets that admitted the call; return what is stored of it.

    Without such budgets, what pays for the agent now is charged.
    """
    payer = payer_of(call, reserved.agent)
    work = Work(payer, reserved.tier, reserved.task)
    charged = {kind: charged_payers(call, work, kind, holds) for kind in KINDS}
    use = _countable_use(call, reserved, use, charged)
    amounts = {"tokens_in": use.tokens_in, "tokens_out": use.tokens_out, "cost": use.cost}
    stored: dict[str, Any] = {
        **amounts, "model": use.model, "source": use.source.value, "day": day_of(call.now),
    }  # fmt: skip
    if payer or any(budgets or fund for budgets, fund in charged.values()):
        report = UsageReport(
            tokens_in=use.tokens_in, tokens_out=use.tokens_out, cost=use.cost, model=use.model,
            tier=reserved.tier, task=reserved.task,
        )  # fmt: skip
        stored["paid"] = record_usage(
            call, reserved.agent, report, use.source, AdmittedUse(payer, charged)
        )
    return stored


def payer_of(call: Call, uuid: str) -> str:
    """The agent whose budgets pay: itself, or the nearest living ancestor of a destroyed one."""
    rollups = call.ledger.budgets.rollups
    while uuid and call.hive.name(uuid) is None:
        gone = rollups.get(uuid)
        uuid = "" if gone is None else gone.parent
    return uuid


def _countable_use(
    call: Call, reserved: ReservedCall, use: ModelUse, charged: Mapping[BudgetKind, ChargedPayers]
) -> ModelUse:
    """The use, at most what sums of a day and of a budget can count: a settlement never fails."""
    usage, day = call.ledger.budgets.usage, day_of(call.now)
    amounts = {
        field: min(getattr(use, field), DAY_MOST - usage.used_on_day(day, reserved.agent, kind))
        for field, kind in _TOKENS.items()
    }
    room = dict.fromkeys(BudgetKind, AMOUNT_MOST)
    for of, (budgets, fund) in charged.items():
        for budget in (*budgets, *([fund.budget] if fund else [])):
            room[of] = min(room[of], AMOUNT_MOST - budget.total)
    tokens_in = min(amounts["tokens_in"], room[BudgetKind.TOKENS])
    tokens_out = min(amounts["tokens_out"], room[BudgetKind.TOKENS] - tokens_in)
    cost = min(amounts["cost"], room[BudgetKind.MONEY])
    return replace(use, tokens_in=tokens_in, tokens_out=tokens_out, cost=cost)


def _withdraw_estimate(call: Call, reserved: ReservedCall) -> list[ModelHold]:
    """Take back what was charged as an estimate, and return what had paid it."""
    charged = reserved.charged
    paid = [ModelHold(holder, BudgetKind(kind), tier, amount)
            for holder, kind, tier, amount in charged.get("paid", ())]  # fmt: skip
    for holder, kind, tier, amount in paid:
        payer = find_payer(call, holder, kind, tier)
        if payer is None:
            continue
        budget = payer.budget.with_refund(amount)
        payer.save(call, budget)
        if payer.fund is None and not budget.empty:
            end_shortage(call, budget)
    if "paid" not in charged:
        return paid
    for field, used in _TOKENS.items():
        if amount := int(charged[field]):
            row = UsageAmount(
                int(charged["day"]), reserved.agent, used, str(charged["source"]), reserved.tier,
                str(charged["model"]), -amount,
            )  # fmt: skip
            call.ledger.budgets.usage.add(row)
            if reserved.task:
                call.ledger.budgets.usage.add_task(reserved.task, row, call.now)
    return paid


def _log(call: Call, ended: ReservedCall, use: ModelUse, details: Mapping[str, Any]) -> None:
    fields = {
        "alias": ended.alias, "model": use.model, "wire": ended.wire, "sub": ended.sub,
        "task": ended.task, "reservation": ended.id, "tokens_in": use.tokens_in,
        "tokens_out": use.tokens_out, "cost": use.cost, "source": use.source.value,
        "hand_back": ended.hand_back, **details,
    }  # fmt: skip
    shown = {"caller_name": call.hive.name(ended.agent) or "", **fields}
    call.ledger.events.append(
        AuditEntry(
            MODEL_EVENT, ended.agent, "call", "", None, "", "", call.hive.commit,
            call.request, call.now, {key: value for key, value in shown.items() if value},
        )
    )  # fmt: skip
    call.notify("events")


def _settlement(ended: ReservedCall) -> ModelSettled:
    charged = ended.charged
    return ModelSettled(
        reservation=ended.id, tokens_in=charged["tokens_in"], tokens_out=charged["tokens_out"],
        cost=charged["cost"],
    )  # fmt: skip
