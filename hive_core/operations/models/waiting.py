"""Agents whose call of a model was refused for a budget: they are told when it has room again."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, CallRefused, on
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.ledger.models.storage import WaitingAgent
from hive_core.model.work.budget import BudgetKind
from hive_core.operations.budgets.payer_budget import BUDGET
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
    waiting = WaitingAgent(
        params.agent, params.task or "", need.least(BudgetKind.TOKENS),
        need.least(BudgetKind.MONEY),
    )  # fmt: skip
    call.ledger.models.wait(waiting, call.now + AGAIN)
    call.notify(f"{BUDGET}:{params.agent}")


@on(AgentDestroyed)
def _forget_refused_agent(call: Call, event: AgentDestroyed) -> None:
    call.ledger.models.stop_waiting(event.uuid)


@due(at=lambda ledger: ledger.models.next_look(), topics=frozenset({BUDGET}))
def notify_refused_agents(call: Call) -> Record[Result]:
    """Tell agents that a budget has room again for the call that was refused."""
    models = call.ledger.models
    for waiting in models.waiting(call.now, AT_ONCE):
        name = call.hive.name(waiting.agent)
        if name is None or has_room(call, name, waiting):
            models.stop_waiting(waiting.agent)
        else:
            models.wait(waiting, call.now + AGAIN)
            continue
        if name is not None:
            text = "the budgets that pay for your calls of models have room again: continue"
            send_notice(call, call.hive, name, BUDGET, text)
    return Record(Result(), audited=True)


def has_room(call: Call, name: str, waiting: WaitingAgent) -> bool:
    """Whether all budgets that pay have room for the input of the call that was refused."""
    task = call.ledger.tasks.get(waiting.task) if waiting.task else None
    work = Work(
        waiting.agent, call.hive.spec(name).tier.value, task.id if task and task.open else ""
    )
    if work.task and reached_cap(call, work.task):
        return False
    least = {BudgetKind.TOKENS: waiting.tokens, BudgetKind.MONEY: waiting.money}
    return all(
        payer.budget.free >= max(1, least[payer.budget.kind]) for payer in paying_for(call, work)
    )
