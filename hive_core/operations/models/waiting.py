"""Agents whose call of a model was refused for a budget: they are told when it has room again."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, CallRefused, on
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.ledger.models.storage import WaitingAgent
from hive_core.model.work.budget import BudgetKind
from hive_core.operations.budgets.payer_budget import BUDGET, agent_tier
from hive_core.operations.models.holds import Work, paying_for
from hive_core.operations.models.reserve import ReserveModelParams, model_need
from hive_core.operations.notices import send_notice
from hive_core.operations.tasks.caps import reached_cap

AT_ONCE: Final = 32
# Seconds until it is looked without a change of a budget: the agent may have moved.
AGAIN: Final = 300.0


@on(CallRefused)
def _remember_refused_agent(call: Call, event: CallRefused) -> None:
    params, error = event.params, event.error
    if not isinstance(params, ReserveModelParams) or error.fields.get("rule") != BUDGET:
        return
    need = model_need(call, params)
    least = need.least(BudgetKind.TOKENS), need.least(BudgetKind.MONEY)
    waiting = WaitingAgent(params.agent, params.task or "", *least, "")
    _wait(call, waiting._replace(holder=short_holder(call, waiting) or ""))


def _wait(call: Call, waiting: WaitingAgent) -> None:
    call.ledger.models.wait(waiting, call.now + AGAIN)
    call.notify(f"{BUDGET}:{waiting.agent}")


@on(AgentDestroyed)
def _forget_refused_agent(call: Call, event: AgentDestroyed) -> None:
    call.ledger.models.stop_waiting(event.uuid)


@due(at=lambda ledger: ledger.models.next_look(), topics=frozenset({BUDGET}))
def notify_refused_agents(call: Call) -> Record[Result]:
    """Tell agents that a budget has room again for the call that was refused."""
    models = call.ledger.models
    for waiting in models.waiting(call.now, AT_ONCE):
        name, holder = call.hive.name(waiting.agent), short_holder(call, waiting)
        if name is not None and holder is not None:
            _wait(call, waiting._replace(holder=holder))
            continue
        models.stop_waiting(waiting.agent)
        if name is not None:
            text = "the budgets that pay for your calls of models have room again: continue"
            send_notice(call, call.hive, name, BUDGET, text)
    return Record(Result(), audited=True)


def short_holder(call: Call, waiting: WaitingAgent) -> str | None:
    """The holder of the budget without room for the refused call; None: all have room."""
    task = call.ledger.tasks.get(waiting.task) if waiting.task else None
    open_task = task.id if task is not None and task.open else ""
    if open_task and reached_cap(call, open_task):
        return open_task
    work = Work(waiting.agent, agent_tier(call.hive, waiting.agent), open_task)
    least = {BudgetKind.TOKENS: waiting.tokens, BudgetKind.MONEY: waiting.money}
    short = (
        payer.holder for payer in paying_for(call, work)
        if payer.budget.free < max(1, least[payer.budget.kind])
    )  # fmt: skip
    return next(short, None)
