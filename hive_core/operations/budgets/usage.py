"""Usage: reported by agents, measured by the daemon, and summed up."""

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
    to_display,
)
from hive_core.operations.budgets.budget_sources import BudgetSources
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
from hive_core.operations.pages import reply_bytes, take_fitting
from hive_core.operations.tasks.steps import begin_work
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

ROWS: Final = 2000
DAY: Final = 86_400
Amount = Annotated[int, Field(ge=0, le=AMOUNT_MOST // 1000)]
TURNS: Final = 64
Turns = Annotated[
    list[Annotated[float, Field(ge=0, le=DAY)]],
    BeforeValidator(lambda value: [value] if isinstance(value, int | float) else value),
]
Model = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$")]


class ReportUsageParams(Mutation):
    task: str | None = Field(
        None, max_length=64, description="The task of the caller that used it; absent: no task."
    )
    model: Model | None = Field(None, description="The model that was used.")
    tier: Tiers | None = Field(None, description="The tier of the work; absent: the caller's own.")
    tokens_in: Amount = Field(0, description="Tokens that the model read.")
    tokens_out: Amount = Field(0, description="Tokens that the model wrote.")
    cost: Amount = Field(0, description="Money, in millionths of the host's currency.")
    iterations: Amount = Field(0, description="Turns that were taken.")
    context: Amount | None = Field(
        None, description="The number of tokens in the context of the caller now."
    )
    turn_seconds: Turns = Field(
        [], max_length=TURNS, description="Seconds that each turn took; a list, or one number."
    )


class Balance(Result):
    kind: str = Field(description="What the budget is of.")
    tier: str = Field(description="The tier that it is for; empty: all tiers.")
    unit: str = Field(description="The unit of the amounts.")
    agent: str = Field(
        description="The agent that has the budget: the agent itself or an ancestor; `(host)`: a"
        " bound in the host's settings for each agent."
    )
    left: int = Field(
        description="The amount that is neither spent nor given to others, or that is left to a"
        " bound; for calls, the bound."
    )
    held: int = Field(description="What calls of models hold that have begun.")
    spent: int = Field(
        description="What all agents that draw on it have spent; for tokens an hour, the tokens of"
        " the last hour; for context, its present size."
    )
    owed: int = Field(description="The use beyond it that is not paid yet.")
    source: str = Field(
        description="Source of the numbers: `measured` by the daemon; `reported`, wholly or partly,"
        " by agents; or `estimated`, partly: calls of models whose end is not known."
    )
    task: str = Field(description="The task that has this fund; empty: it is an agent's budget.")


class UsageReported(Result):
    budgets: list[Balance] = Field(description="The budgets that pay for it, after this report.")


class Sum(Result):
    key: str = Field(
        description="What the sum is for: the name of an agent, a day, a model, a task and so on."
    )
    kind: str = Field(
        description="What was used: tokens_in, tokens_out, money, iterations, tool_calls, time,"
        " cpu, messages, tasks, children, calls; by agent also context, at its present size."
    )
    source: str = Field(
        description="`measured` by the daemon, `reported` by the agent, or `estimated`: a call of a"
        " model whose end is not known."
    )
    amount: int = Field(
        description="The amount; time in whole seconds, cpu in milliseconds of one processor."
    )


class UsageParams(Params):
    agent: Agent | None = Field(
        None,
        description="The agent to sum up, with all its descendants; absent: the caller, or all"
        " agents for the operator.",
    )
    since: float | None = Field(
        None, ge=0,
        description="Seconds since 1970; sums begin with the UTC day of this moment. Absent: all.",
    )  # fmt: skip
    by: Literal["agent", "subtree", "task", "day", "model", "tier", "user", "node"] = Field(
        "agent", description="What to group the sums by. Subtrees are those of now."
    )


class UsageResult(Result):
    budgets: list[Balance] = Field(
        description="The budgets that pay for the agent itself; without an agent, all budgets."
    )
    sums: list[Sum] = Field(description="What was used.")
    currency: str = Field(description="The currency of money, which is counted in millionths.")
    whole: bool = Field(description="Whether all sums fit into this answer.")


@operation(action="work", allow=SELF)
def report_usage(call: Call, params: ReportUsageParams) -> Record[UsageReported]:
    """Report what the caller has used since its last report, for a task or for itself.

    It is recorded as reported, charged to the budgets that pay for the caller, and counts towards
    the bounds of the task. With an idempotency key a repeated call is not charged again.
    """
    report = UsageReport(
        tokens_in=params.tokens_in, tokens_out=params.tokens_out, cost=params.cost,
        iterations=params.iterations, model=params.model or "", tier=params.tier or "",
        task=params.task or "",
    )  # fmt: skip
    if not report.amounts and params.context is None and not params.turn_seconds:
        raise InvalidArgument("set at least one amount", field="tokens_in")
    if params.task is not None:
        _check_task(call, params.task)
        task = call.ledger.tasks.require(params.task)
        begin_work(call, task, "it was spent on")
    record_usage(call, call.uuid, report)
    if params.context is not None:
        report_context(call, call.uuid, params.context)
    count_turns(call, params.turn_seconds)
    values = params.model_dump(exclude={"idempotency_key", "turn_seconds"})
    values.update(turns=len(params.turn_seconds), seconds=sum(params.turn_seconds))
    fields = {key: value for key, value in values.items() if value}
    sources = BudgetSources(call, just_reported=True)
    balances = _balances(call, call.uuid, tuple(REPORTED_KINDS), sources)
    result = UsageReported(budgets=list(balances))
    return Record(result, fields=fields)


def _check_task(call: Call, id_: str) -> None:
    task = call.ledger.tasks.get(id_)
    if task is None or task.assignee != call.uuid:
        raise InvalidArgument(f"{id_} is not a task of yours", field="task")


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def get_usage(call: Call, params: UsageParams) -> UsageResult | Later[UsageResult]:
    """Show what an agent and all its descendants have used, and what is left to the agent.

    Time, cpu, messages, tasks, children, calls and tool calls are measured by the daemon, and so
    are tokens and money of calls through hive-model; the rest is reported by agents. A destroyed
    agent counts below its last parent. Grouped by agent, the destroyed children of one parent share
    one line, except the most recent.
    """
    name = params.agent or ("" if call.by_operator else call.caller)
    uuid = call.hive.spec(name).id if name else ""
    if call.read_result is None and params.by != "task" and (agents := running_agents(call, name)):
        return Later(read_cpu(agents))
    sums = _usage_sums(call, params, uuid)
    if isinstance(sums, UsageSummation):
        return Later(requeue_with(sums))
    rows = [*_sum_rows(sums), *(_context_rows(call, uuid) if params.by == "agent" else ())]
    page = list(take_fitting(rows[:ROWS], lambda row: reply_bytes(row.key)))
    sources = BudgetSources(call)
    balances = _balances(call, uuid, tuple(BudgetKind), sources) if uuid else None
    return UsageResult(
        budgets=list(_all_balances(call, sources) if balances is None else balances),
        sums=page, currency=call.settings.budgets.currency, whole=len(page) == len(rows),
    )  # fmt: skip


def _balances(
    call: Call, uuid: str, kinds: Iterable[BudgetKind], sources: BudgetSources
) -> Iterator[Balance]:
    for kind in kinds:
        budgets = bounds(call, uuid, kind) if kind in SLIDING else paying_budgets(call, uuid, kind)
        yield from (_balance(call, budget, sources) for budget in budgets)
    for fund in call.ledger.budgets.funds.of_agent(uuid):
        if fund.budget.kind in kinds:
            yield _balance(call, fund.budget, sources, fund.task)


def _all_balances(call: Call, sources: BudgetSources) -> Iterator[Balance]:
    budgets = (budget for kind in BudgetKind for budget in call.ledger.budgets.of_kind(kind))
    yield from (_balance(call, settle(call, budget), sources) for budget in islice(budgets, ROWS))
    for fund in islice(call.ledger.budgets.funds.all(), ROWS):
        yield _balance(call, fund.budget, sources, fund.task)


def _balance(call: Call, budget: Budget, sources: BudgetSources, task: str = "") -> Balance:
    kind, budget = budget.kind, with_reported_use(call, budget)
    return Balance(
        kind=kind.value, tier=budget.tier, unit=UNITS[kind], agent=holder_name(call, budget),
        left=to_display(kind, budget.free), held=to_display(kind, budget.held),
        spent=to_display(kind, budget.spent),
        owed=to_display(kind, budget.over), source=sources.of(budget, task), task=task,
    )  # fmt: skip


def _usage_sums(
    call: Call, params: UsageParams, uuid: str
) -> UsageSummation | Counter[tuple[str, str, str]]:
    """Sums by key, kind and source; an unfinished summation, which the caller queues again."""
    if params.by != "task":
        column, by = _COLUMNS.get(params.by, ""), params.by
        return sum_usage(call, uuid, params.since or 0.0, column, partial(_sum_keys, by, uuid))
    sums = Counter[tuple[str, str, str]]()
    inside = UsageTree(call).below(uuid) if uuid else None
    usage = call.ledger.budgets.usage
    for task, kind, source, amount in usage.by_task(params.since or 0.0, inside, ROWS + 1):
        sums[task, kind, source] += amount
    return sums


def _sum_rows(sums: Counter[tuple[str, str, str]]) -> list[Sum]:
    """Living agents come first, then the lines of destroyed agents."""
    return [
        Sum.model_construct(
            key=key, kind=kind, source=source, amount=to_display(kind, sums[key, kind, source])
        )
        for key, kind, source in sorted(sums, key=_row_order)[: ROWS + 1]
    ]


def _row_order(row: tuple[str, str, str]) -> tuple[bool, bool, tuple[str, str, str]]:
    """Only keys of destroyed agents have brackets: all children of a parent, or one agent."""
    key = row[0]
    return key.endswith(")"), not key.startswith("("), row


def _context_rows(call: Call, uuid: str) -> Iterator[Sum]:
    """The present sizes of contexts, which are not summed up."""
    tree = UsageTree(call)
    inside = tree.below(uuid) if uuid else frozenset()
    for agent, tokens in call.ledger.budgets.bounds.contexts().items():
        if not uuid or agent in inside:
            yield Sum(
                key=tree.name(agent), kind=BudgetKind.CONTEXT.value,
                source=UsageSource.REPORTED.value, amount=tokens,
            )  # fmt: skip


def _sum_keys(by: str, top: str, tree: UsageTree, value: str | int) -> Iterable[str]:
    """The keys under which a value of the column counts."""
    if by == "subtree":
        lineage = tree.lineage(str(value))
        end = lineage.index(top) + 1 if top else len(lineage)
        return tuple(map(tree.name, lineage[:end]))
    return (_KEYS[by](tree, value),)


def _date(day: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(day * DAY))


# The column of each grouping; the others have one key for everything.
_COLUMNS: Final = {
    "agent": "agent", "subtree": "agent", "day": "day", "model": "model", "tier": "tier",
}  # fmt: skip
_KEYS: Final[Mapping[str, Callable[[UsageTree, str | int], str]]] = {
    "agent": lambda tree, agent: tree.name(str(agent)),
    "day": lambda _, day: _date(int(day)),
    "model": lambda _, model: str(model) or "-",
    "tier": lambda _, tier: str(tier) or "-",
    "user": lambda _, __: THE_OPERATOR,
    "node": lambda _, __: os.uname().nodename,
}
