"""The hard end: who still works on an empty purse when its time is over is stopped."""

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
from hive_core.operations.tasks.offers import withdraw
from hive_core.operations.tasks.transitions import stop

AT_ONCE: Final = 16


@due(at=lambda ledger: ledger.budgets.next_stop_at(), topics=frozenset({BUDGET}))
def stop_at_empty_budgets(call: Call) -> Record[Result]:
    """Whatever works on an empty purse is stopped when its time is over."""
    topics = frozenset[str]()
    for missed in call.ledger.budgets.overdue_shortages(call.now, AT_ONCE):
        if missed.kind in SLIDING:
            topics |= recheck_bound(call, missed)
            continue
        purse = call.ledger.budgets.get(missed.agent, missed.kind, missed.tier)
        stopped: tuple[str, ...] = ()
        if purse is not None and purse.empty:
            stopped, touched = _stop_work(call, purse)
            topics |= touched
        # Those that were stopped for another purse before it paid for them wait for it as well.
        stopped = tuple(dict.fromkeys((*missed.stopped, *stopped)))
        call.ledger.budgets.save_shortage(replace(missed, stop_at=None, stopped=stopped))
    return Record(Result(), wakes=topics)


def _stop_work(call: Call, purse: Budget) -> tuple[tuple[str, ...], frozenset[str]]:
    """Machines where time is what they have no more; else the tasks that they work on."""
    why = f"budget: the {budget_title(purse)} of {owner_name(call.hive, purse)} is used up"
    if purse.kind is BudgetKind.TIME:
        stopped, topics = _stop_machines(call, purse)
        log_budget_event(call, purse, "stopped", f"{why}; {len(stopped)} machines are stopped")
        return stopped, topics
    topics, number = frozenset[str](), 0
    for uuid in drawing_agents(call, purse):
        for task in call.ledger.tasks.open_tasks(uuid):
            own = not purse.tier and purse.kind in funded_kinds(call, task.id, uuid)
            if task.offered and not own:
                topics |= withdraw(call, task, why)[1]
            elif task.begun and not own:
                topics |= stop(call, task, ResultStatus.STOPPED, why)[1]
                number += 1
    log_budget_event(call, purse, "stopped", f"{why}; {number} tasks are stopped")
    return (), topics


def _stop_machines(call: Call, purse: Budget) -> tuple[tuple[str, ...], frozenset[str]]:
    stopped, runs = list[str](), call.ledger.runs
    for uuid in drawing_agents(call, purse):
        run = runs.get(uuid)
        if run is not None and run.wanted is DesiredState.RUNNING:
            grace = call.settings.grace.stop
            runs.want(uuid, DesiredState.STOPPED, call.now, grace=grace, reason=BUDGET)
            stopped.append(uuid)
    return tuple(stopped), frozenset(f"run:{uuid}" for uuid in stopped)
