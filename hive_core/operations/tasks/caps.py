"""Bounds of single tasks (row Q24): at one of them only the report is left."""

from __future__ import annotations

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import TaskEnded, when
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.ledger.budgets.usage import TaskCapRow
from hive_core.model.work.task import ResultStatus
from hive_core.operations.budgets.payer_budget import BUDGET
from hive_core.operations.notices import tell
from hive_core.operations.tasks.transitions import stop

AT_ONCE = 16
# What of the accounts counts towards which bound.
_COUNTS = {
    "tokens": ("tokens", "tokens_in", "tokens_out"),
    "cost": ("money",),
    "tool_calls": ("tool_calls",),
    "iterations": ("iterations",),
}


def capped(call: Call, task: str) -> str:
    """Which bound a task has reached, in words; empty: none."""
    found = call.ledger.budgets.usage.task_caps(task)
    return "" if found is None else found.reached or _reached(call, found)


def _reached(call: Call, found: TaskCapRow) -> str:
    used = call.ledger.budgets.usage.of_task(found.task)
    for name, most in found.caps.items():
        amount = sum(used.get(kind, 0) for kind in _COUNTS[name])
        if amount >= most:
            return f"{amount} of {most} {name.replace('_', ' ')}"
    return ""


def note_caps(call: Call, task: str) -> frozenset[str]:
    """After something was used for it: at its first bound its agent is told to report."""
    found = call.ledger.budgets.usage.task_caps(task)
    if found is None or found.reached or not (bound := _reached(call, found)):
        return frozenset()
    return at_bound(call, found, bound)


def at_bound(call: Call, found: TaskCapRow, bound: str) -> frozenset[str]:
    """Its agent is told to report, and has some seconds to do it."""
    stop_ = call.settings.budgets.stop
    call.ledger.budgets.usage.mark_reached(found.task, bound, call.now + stop_ if stop_ else None)
    name = call.hive.name(found.agent)
    if name is None:
        return frozenset()
    text = f"task {found.task} has used {bound}: report now what you have"
    return tell(call, call.hive, name, BUDGET, text) | {f"{BUDGET}:{found.agent}"}


@when(TaskEnded)
def _forget_caps(call: Call, what: TaskEnded) -> frozenset[str]:
    call.ledger.budgets.usage.remove_caps(what.id)
    return frozenset()


@due(at=lambda ledger: ledger.budgets.usage.next_cap_stop(), topics=frozenset({BUDGET}))
def stop_at_task_caps(call: Call) -> Record[Result]:
    """Stop the tasks that had time to report after their bound and did not."""
    topics = frozenset[str]()
    for each in call.ledger.budgets.usage.caps_to_stop(call.now, AT_ONCE):
        call.ledger.budgets.usage.mark_reached(each.task, each.reached, None)
        task = call.ledger.tasks.get(each.task)
        if task is not None and task.open:
            why = f"budget: it has used {each.reached}"
            topics |= stop(call, task, ResultStatus.STOPPED, why)[1]
    return Record(Result(), wakes=topics)
