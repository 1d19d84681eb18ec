"""The end of a shortage: the daemon stops work that still draws on the empty budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.model.agents.machine import DesiredState
from hive_core.model.work.budget import Budget, BudgetKind
from hive_core.model.work.task import ResultStatus
from hive_core.operations.budgets.payer_budget import (
    BUDGET,
    SLIDING,
    budget_title,
    funded_kinds,
    log_budget_event,
    owner_name,
)
from hive_core.operations.budgets.shortages import drawing_agents, recheck_bound
from hive_core.operations.tasks.offers import withdraw_offer
from hive_core.operations.tasks.transitions import stop_task

AT_ONCE: Final = 16


@due(at=lambda ledger: ledger.budgets.next_stop_at(), topics=frozenset({BUDGET}))
def stop_at_empty_budgets(call: Call) -> Record[Result]:
    """Stop the work that draws on empty budgets whose time to report is over."""
    for shortage in call.ledger.budgets.overdue_shortages(call.now, AT_ONCE):
        if shortage.kind in SLIDING:
            recheck_bound(call, shortage)
            continue
        budget = call.ledger.budgets.get(shortage.agent, shortage.kind, shortage.tier)
        stopped = _stop_work(call, budget) if budget is not None and budget.empty else ()
        # Machines that the shortage of an earlier payer stopped wait for this budget too.
        stopped = tuple(dict.fromkeys((*shortage.stopped, *stopped)))
        call.ledger.budgets.save_shortage(replace(shortage, stop_at=None, stopped=stopped))
    return Record(Result())


def _stop_work(call: Call, budget: Budget) -> tuple[str, ...]:
    """Stop machines when the budget is of time, otherwise tasks.

    Return the UUIDs of the machines.
    """
    why = f"budget: the {budget_title(budget)} of {owner_name(call.hive, budget)} is used up"
    if budget.kind is BudgetKind.TIME:
        stopped = _stop_machines(call, budget)
        log_budget_event(call, budget, "stopped", f"{why}; {len(stopped)} machines are stopped")
        return stopped
    number = 0
    for uuid in drawing_agents(call, budget):
        for task in call.ledger.tasks.open_tasks(uuid):
            funded = not budget.tier and budget.kind in funded_kinds(call, task.id, uuid)
            if task.offered and not funded:
                withdraw_offer(call, task, why)
            elif task.begun and not funded:
                stop_task(call, task, ResultStatus.STOPPED, why)
                number += 1
    log_budget_event(call, budget, "stopped", f"{why}; {number} tasks are stopped")
    return ()


def _stop_machines(call: Call, budget: Budget) -> tuple[str, ...]:
    stopped, runs = list[str](), call.ledger.runs
    for uuid in drawing_agents(call, budget):
        run = runs.get(uuid)
        if run is not None and run.wanted is DesiredState.RUNNING:
            grace = call.settings.grace.stop
            runs.want(uuid, DesiredState.STOPPED, call.now, grace=grace, reason=BUDGET)
            stopped.append(uuid)
            call.notify(f"run:{uuid}")
    return tuple(stopped)
