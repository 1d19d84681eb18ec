"""Caps of single tasks (row Q24): once a task reaches one, its agent may only report."""

from __future__ import annotations

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import TaskEnded, on
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.ledger.budgets.usage import TaskCapRow
from hive_core.model.work.task import ResultStatus
from hive_core.operations.budgets.payer_budget import BUDGET
from hive_core.operations.notices import send_notice
from hive_core.operations.tasks.transitions import stop_task

AT_ONCE = 16
# The kinds of usage that count towards each cap.
_COUNTS = {
    "tokens": ("tokens", "tokens_in", "tokens_out"),
    "cost": ("money",),
    "tool_calls": ("tool_calls",),
    "iterations": ("iterations",),
}


def reached_cap(call: Call, task: str) -> str:
    """The cap that a task has reached, in words; empty: none."""
    capped = call.ledger.budgets.usage.task_caps(task)
    return "" if capped is None else capped.reached or _compute_reached_cap(call, capped)


def _compute_reached_cap(call: Call, capped: TaskCapRow) -> str:
    used = call.ledger.budgets.usage.of_task(capped.task)
    for name, most in capped.caps.items():
        amount = sum(used.get(kind, 0) for kind in _COUNTS[name])
        if amount >= most:
            return f"{amount} of {most} {name.replace('_', ' ')}"
    return ""


def check_caps(call: Call, task: str) -> bool:
    """Ask for a report when the task has just reached its first cap; return whether it has."""
    capped = call.ledger.budgets.usage.task_caps(task)
    if capped is None or capped.reached or not (cap := _compute_reached_cap(call, capped)):
        return False
    request_report_at_cap(call, capped, cap)
    return True


def request_report_at_cap(call: Call, capped: TaskCapRow, cap: str) -> None:
    """Ask the agent for a report; the task is stopped when none comes within some seconds."""
    grace = call.settings.budgets.stop
    call.ledger.budgets.usage.mark_reached_cap(
        capped.task, cap, call.now + grace if grace else None
    )
    name = call.hive.name(capped.agent)
    if name is None:
        return
    text = f"task {capped.task} has used {cap}: report now what you have"
    send_notice(call, call.hive, name, BUDGET, text)
    call.notify(f"{BUDGET}:{capped.agent}")


@on(TaskEnded)
def _forget_caps(call: Call, event: TaskEnded) -> None:
    call.ledger.budgets.usage.remove_caps(event.id)


@due(at=lambda ledger: ledger.budgets.usage.next_cap_stop(), topics=frozenset({BUDGET}))
def stop_at_task_caps(call: Call) -> Record[Result]:
    """Stop the tasks whose agents did not report in time after reaching a cap."""
    for capped in call.ledger.budgets.usage.caps_to_stop(call.now, AT_ONCE):
        call.ledger.budgets.usage.mark_reached_cap(capped.task, capped.reached, None)
        task = call.ledger.tasks.get(capped.task)
        if task is not None and task.open:
            why = f"budget: it has used {capped.reached}"
            stop_task(call, task, ResultStatus.STOPPED, why)
    return Record(Result())
