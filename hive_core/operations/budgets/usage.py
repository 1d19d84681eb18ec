"""What was used: reported by agents, measured by the daemon, and summed up."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from hive_core.broker.call import Call, Later, Record
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import InvalidArgument
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.budget import (
    AMOUNT_MOST,
    REPORTED_KINDS,
    UNITS,
    Budget,
    BudgetKind,
    UsageSource,
    source_of,
    to_display,
)
from hive_core.operations.budgets.cpu_time import read_cpu, running_agents
from hive_core.operations.budgets.operations import Tiers
from hive_core.operations.budgets.payer_budget import (
    SLIDING,
    bounds,
    holder_name,
    paying_budgets,
    settle,
    with_reported_use,
)
from hive_core.operations.budgets.reported_bounds import report_context
from hive_core.operations.budgets.spending import UsageReport, record_usage
from hive_core.operations.budgets.usage_rollup import UsageTree
from hive_core.operations.budgets.usage_sums import UsageSummation, requeue_with, sum_usage
from hive_core.operations.fields import Agent
from hive_core.operations.host.metrics import count_turns
from hive_core.operations.pages import fitting, written
from hive_core.operations.tasks.begin import begin
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

ROWS: Final = 2000
DAY: Final = 86_400
Amount = Annotated[int, Field(ge=0, le=AMOUNT_MOST // 1000)]
TURNS: Final = 64
Turns = Annotated[
    list[Annotated[float, Field(ge=0, le=DAY)]],
    BeforeValidator(lambda said: [said] if isinstance(said, int | float) else said),
]
Model = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$")]


class ReportUsageParams(Mutation):
    task: str | None = Field(
        None, max_length=64, description="For which task of the caller's; absent: for none."
    )
    model: Model | None = Field(None, description="Which model was used.")
    tier: Tiers | None = Field(None, description="Of which tier; absent: the caller's own.")
    tokens_in: Amount = Field(0, description="Tokens that the model read.")
    tokens_out: Amount = Field(0, description="Tokens that the model wrote.")
    cost: Amount = Field(0, description="Money, in millionths of the host's currency.")
    iterations: Amount = Field(0, description="Turns that were taken.")
    context: Amount | None = Field(
        None, description="How many tokens the context of the caller has now."
    )
    turn_seconds: Turns = Field(
        [], max_length=TURNS, description="How long turns took, one by one; or one number."
    )


class Balance(Result):
    kind: str = Field(description="What of.")
    tier: str = Field(description="For which tier; empty: for all.")
    unit: str = Field(description="What the amounts are.")
    agent: str = Field(
        description="Whose budget it is: its own, or that of an ancestor; `(host)`: a bound of the"
        " host's settings for each agent."
    )
    left: int = Field(
        description="What is neither spent nor given on, or what is left to a bound; of calls, the"
        " bound."
    )
    spent: int = Field(
        description="What was spent out of it, by all who draw on it; of tokens an hour those of"
        " the last hour, of context what there is now."
    )
    owed: int = Field(description="What was used beyond it and is not paid yet.")
    source: str = Field(description="Who says so: `measured` by the daemon, `reported` by agents.")
    task: str = Field(description="The task that has it as its own; empty: the agent has it.")


class UsageReported(Result):
    budgets: list[Balance] = Field(description="What pays for it, after this.")


class Sum(Result):
    key: str = Field(description="Whose: a name, a day, a model, a task.")
    kind: str = Field(
        description="What of: tokens_in, tokens_out, money, iterations, tool_calls, time, cpu,"
        " messages, tasks, children, calls; by agent also context, as it is now."
    )
    source: str = Field(description="`measured` by the daemon, or `reported` by the agent.")
    amount: int = Field(
        description="How much; of time the whole seconds, of cpu the milliseconds of one processor."
    )


class UsageParams(Params):
    agent: Agent | None = Field(
        None, description="Of whom, with all below; absent: the caller, or everybody."
    )
    since: float | None = Field(
        None, ge=0, description="Seconds since 1970, from whose day (of UTC) on; absent: all."
    )
    by: Literal["agent", "subtree", "task", "day", "model", "tier", "user", "node"] = Field(
        "agent", description="What the sums are of. A subtree is one as it is now."
    )


class UsageResult(Result):
    budgets: list[Balance] = Field(
        description="What pays for what the agent itself does; without an agent, all there are."
    )
    sums: list[Sum] = Field(description="What was used.")
    currency: str = Field(description="What money is counted in, in millionths.")
    whole: bool = Field(description="False when there are more sums than fit here.")


@operation(action="work", allow=SELF)
def report_usage(call: Call, params: ReportUsageParams) -> Record[UsageReported]:
    """Say what the caller has used since it said so last, for a task or for itself.

    It is written down as reported, charged to who pays for the caller, and counts towards the
    bounds of the task. With an idempotency key a repeat is not charged again.
    """
    spent = UsageReport(
        tokens_in=params.tokens_in, tokens_out=params.tokens_out, cost=params.cost,
        iterations=params.iterations, model=params.model or "", tier=params.tier or "",
        task=params.task or "",
    )  # fmt: skip
    if not spent.amounts and params.context is None and not params.turn_seconds:
        raise InvalidArgument("say what was used", field="tokens_in")
    topics = frozenset[str]()
    if params.task is not None:
        _check_task(call, params.task)
        topics = begin(call, call.ledger.tasks.require(params.task), "it was spent on")[1]
    topics |= record_usage(call, call.uuid, spent)
    if params.context is not None:
        topics |= report_context(call, call.uuid, params.context)
    count_turns(call, params.turn_seconds)
    said = params.model_dump(exclude={"idempotency_key", "turn_seconds"})
    said.update(turns=len(params.turn_seconds), seconds=sum(params.turn_seconds))
    fields = {key: value for key, value in said.items() if value}
    result = UsageReported(budgets=list(_balances(call, call.uuid, tuple(REPORTED_KINDS))))
    return Record(result, wakes=topics, fields=fields)


def _check_task(call: Call, task: str) -> None:
    found = call.ledger.tasks.get(task)
    if found is None or found.assignee != call.uuid:
        raise InvalidArgument(f"{task} is no task of yours", field="task")


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def get_usage(call: Call, params: UsageParams) -> UsageResult | Later[UsageResult]:
    """Show what an agent and all below it have used, and what is left to it.

    Time, cpu, messages, tasks, children, calls and tool calls are measured by the daemon; tokens,
    money and iterations are what agents report. Those who are no more count where they hung last,
    by agent in one line for all children of one, but for the last who are gone.
    """
    name = params.agent or ("" if call.by_operator else call.caller)
    uuid = call.hive.spec(name).id if name else ""
    if call.read_result is None and params.by != "task" and (those := running_agents(call, name)):
        return Later(read_cpu(those))
    found = _usage_sums(call, params, uuid)
    if isinstance(found, UsageSummation):
        return Later(requeue_with(found))
    sums = [*_sum_rows(found), *(_context_rows(call, uuid) if params.by == "agent" else ())]
    shown_ = list(fitting(sums[:ROWS], lambda each: written(each.key)))
    return UsageResult(
        budgets=list(_balances(call, uuid, tuple(BudgetKind)) if uuid else _all_balances(call)),
        sums=shown_, currency=call.settings.budgets.currency, whole=len(shown_) == len(sums),
    )  # fmt: skip


def _balances(call: Call, uuid: str, kinds: Iterable[BudgetKind]) -> Iterator[Balance]:
    for kind in kinds:
        found = bounds(call, uuid, kind) if kind in SLIDING else paying_budgets(call, uuid, kind)
        yield from (_balance(call, purse) for purse in found)
    for fund in call.ledger.budgets.funds.of_agent(uuid):
        if fund.budget.kind in kinds:
            yield _balance(call, fund.budget, fund.task)


def _all_balances(call: Call) -> Iterator[Balance]:
    purses = (purse for kind in BudgetKind for purse in call.ledger.budgets.of_kind(kind))
    yield from (_balance(call, settle(call, purse)) for purse in islice(purses, ROWS))
    for fund in islice(call.ledger.budgets.funds.all(), ROWS):
        yield _balance(call, fund.budget, fund.task)


def _balance(call: Call, purse: Budget, task: str = "") -> Balance:
    kind, purse = purse.kind, with_reported_use(call, purse)
    return Balance(
        kind=kind.value, tier=purse.tier, unit=UNITS[kind], agent=holder_name(call, purse),
        left=to_display(kind, purse.free), spent=to_display(kind, purse.spent),
        owed=to_display(kind, purse.over),
        source=source_of(kind).value, task=task,
    )  # fmt: skip


def _usage_sums(
    call: Call, params: UsageParams, uuid: str
) -> UsageSummation | Counter[tuple[str, str, str]]:
    """Sums by key, kind and source."""
    if params.by != "task":
        column, by = _COLUMNS.get(params.by, ""), params.by
        return sum_usage(call, uuid, params.since or 0.0, column, partial(_sum_keys, by, uuid))
    found = Counter[tuple[str, str, str]]()
    inside = UsageTree(call).below(uuid) if uuid else None
    usage = call.ledger.budgets.usage
    for task, kind, source, amount in usage.by_task(params.since or 0.0, inside, ROWS + 1):
        found[task, kind, source] += amount
    return found


def _sum_rows(found: Counter[tuple[str, str, str]]) -> list[Sum]:
    """Who lives comes first, then the lines of those who are gone."""
    return [
        Sum.model_construct(
            key=key, kind=kind, source=source, amount=to_display(kind, found[key, kind, source])
        )
        for key, kind, source in sorted(found, key=_row_order)[: ROWS + 1]
    ]


def _row_order(row: tuple[str, str, str]) -> tuple[bool, bool, tuple[str, str, str]]:
    """Only words for those who are gone have brackets: all children of one, or one."""
    key = row[0]
    return key.endswith(")"), not key.startswith("("), row


def _context_rows(call: Call, uuid: str) -> Iterator[Sum]:
    """As they are now: no sums."""
    places = UsageTree(call)
    inside = places.below(uuid) if uuid else frozenset()
    for agent, tokens in call.ledger.budgets.bounds.contexts().items():
        if not uuid or agent in inside:
            yield Sum(
                key=places.name(agent), kind=BudgetKind.CONTEXT.value,
                source=UsageSource.REPORTED.value, amount=tokens,
            )  # fmt: skip


def _sum_keys(by: str, top: str, places: UsageTree, what: str | int) -> Iterable[str]:
    """Under which keys something counts."""
    if by == "subtree":
        chain = places.lineage(str(what))
        end = chain.index(top) + 1 if top else len(chain)
        return tuple(map(places.name, chain[:end]))
    return (_KEYS[by](places, what),)


def _date(day: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(day * DAY))


# Which column it is by; of all else there is one.
_COLUMNS: Final = {
    "agent": "agent", "subtree": "agent", "day": "day", "model": "model", "tier": "tier",
}  # fmt: skip
_KEYS: Final[Mapping[str, Callable[[UsageTree, str | int], str]]] = {
    "agent": lambda places, agent: places.name(str(agent)),
    "day": lambda _, day: _date(int(day)),
    "model": lambda _, model: str(model) or "-",
    "tier": lambda _, tier: str(tier) or "-",
    "user": lambda _, __: THE_OPERATOR,
    "node": lambda _, __: os.uname().nodename,
}
