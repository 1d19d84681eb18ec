"""How tasks are put into words: for who does one, and for who gave some."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from hive_core.broker.call import Call
from hive_core.ledger.mail.posting import one_line
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.task import Task
from hive_core.operations.approvals.outcome import display_name

# What is shown of each; a whole notice stays far below what a message may have.
_SUMMARY: Final = 400
SHOWN: Final = 64


def letter(call: Call, task: Task) -> str:
    """The body with which a task is given: a head of `key: value` lines, then text and data."""
    wish = task.request
    parts = ["\n".join(_head(call, task)), wish.description]
    if wish.data is not None:
        parts.append(f"data:\n{json.dumps(dict(wish.data), indent=1, ensure_ascii=False)}")
    parts.extend(_needed(call, wish.after))
    return "\n\n".join(parts)


def _head(call: Call, task: Task) -> list[str]:
    wish, plan = task.request, ""
    if wish.plan_required:
        plan = f"{task.plan} is approved" if task.plan else "required"
    said = {
        "task": task.id, "attempt": str(task.attempt), "from": who(call, task.assigner),
        "title": one_line(wish.title),
        "deadline": f"{wish.deadline:g} s" if wish.deadline else "",
        "budget": ", ".join(f"{most} {what}" for what, most in wish.budget.items()),
        "part_of": wish.part_of, "artifacts": one_line(" ".join(wish.artifacts)), "plan": plan,
        "context": wish.context,
    }  # fmt: skip
    return [f"{key}: {value}" for key, value in said.items() if value or key == "from"]


def _needed(call: Call, after: Sequence[str]) -> list[str]:
    """What came out of the tasks that it waited for."""
    found = [task for each in after if (task := call.ledger.tasks.get(each)) is not None]
    return ["\n".join(("results before this:", *(line(call, each) for each in found)))][
        : len(found)
    ]


def line(call: Call, task: Task) -> str:
    """`3f2a... worker: done, success: "..." [what it is about]`."""
    state = task.state.value.replace("_", " ")
    result = task.result
    if result is not None:
        said = _cut(result.summary or result.error)
        state = f"{state}, {result.status}" + (f": {said}" if said else "")
    elif task.why:
        state = f"{state}: {_cut(task.why)}"
    elif task.progress:
        state = f"{state}, {'' if task.percent is None else f'{task.percent} % '}{task.progress}"
    # One line whatever agents wrote: the next one is about another task.
    return one_line(f"{task.id} {display_name(call, task.assignee)} [{task.label}] {state}")


def board(call: Call, new: Iterable[Task], some: Sequence[Task], count: int) -> str:
    """What has changed, then what is open: `some` of them, `count` in all."""
    fresh = [line(call, each) for each in new]
    known = {each.partition(" ")[0] for each in fresh}
    rest = [line(call, each) for each in some if each.id not in known]
    left = count - sum(each.id in known for each in some)
    body = ["changed:", *fresh[-SHOWN:]]
    if len(fresh) > SHOWN:
        body.insert(1, f"({len(fresh) - SHOWN} more before these)")
    body.append(f"\nopen: {count}")
    body += rest[:SHOWN]
    if left > SHOWN:
        body.append(f"({left - SHOWN} more)")
    return "\n".join(body)


def who(call: Call, party: str) -> str:
    """Name of an agent, or the operator."""
    return party if party == OPERATOR else display_name(call, party)


def _cut(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _SUMMARY else f"{words[:_SUMMARY]}..."
