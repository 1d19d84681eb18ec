"""The letters that ask for a decision on a plan; the daemon can withdraw an unread one."""

from __future__ import annotations

import json
from typing import Final

from hive_core.broker.call import Call
from hive_core.ledger.mail.posting import one_line
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.planning import Plan, PlanState, PlanStep
from hive_core.model.work.task import Task
from hive_core.operations.notices import More, inbox
from hive_core.operations.questions.letters import quote_lines, shorten
from hive_core.operations.tasks.notices import send_daemon_mail
from hive_core.operations.tasks.rules import living_name

SUBMITTED: Final = "plan_submitted"
# Bytes of steps in a message; `get_plan` shows all of them.
_STEPS_MOST: Final = 48 * 1024


def send_prompt(call: Call, task: Task, plan: Plan, voids: list[str]) -> None:
    """Ask the assigner for a decision, with the whole plan and how to answer.

    If the assigner was destroyed, ask the parent of the agent, or the operator.
    """
    name = living_name(call, task.assigner)
    if name is None:
        name = call.hive.topology.parent(call.caller) or OPERATOR
    head = {"task": task.id, "plan": plan.id, "agent": call.caller, "voids": voids}
    lines = [
        json.dumps(head),
        f"{call.caller} asks for approval of its plan for task {task.id} ({shorten(task.label)}):",
        *_step_lines(plan),
        *(["Note:", *quote_lines(plan.note)] if plan.note else []),
        f"{_how_to_answer(name, task, plan)} A message does not answer it.",
    ]
    letter = send_daemon_mail(call, name, SUBMITTED, "\n".join(lines), **mail_thread(task))
    party = OPERATOR if name == OPERATOR else call.hive.spec(name).id
    call.ledger.plans.set_prompt(plan.id, party, letter)


def _how_to_answer(name: str, task: Task, plan: Plan) -> str:
    if name == OPERATOR:
        return f"Answer with `hive plan approve {plan.id}` or `hive plan reject {plan.id} REASON`."
    ids = f"{task.id} {plan.id}"
    return f"Answer with approve_plan {ids}, or reject_plan {ids} REASON."


def withdraw_prompt(call: Call, plan: str) -> None:
    """Withdraw the unread letter about a plan that is decided or void."""
    party, letter = call.ledger.plans.prompt(plan)
    if letter and call.ledger.messages.untaken(party, letter):
        call.ledger.messages.ack(party, [letter])
        call.notify(inbox(party))


def withdraw_prompt_of_task(call: Call, task: str) -> None:
    """Withdraw the unread letter about the newest plan of a task that has a new assigner."""
    plan = call.ledger.plans.newest(task)
    if plan and call.ledger.plans.require(plan).state is PlanState.SUBMITTED:
        withdraw_prompt(call, plan)


def mail_thread(task: Task) -> More:
    """The conversation of the task, for a letter about it."""
    return More(thread=task.request.thread) if task.request.thread else More()


def _step_lines(plan: Plan) -> list[str]:
    """The steps that a message has room for, one line each."""
    lines: list[str] = []
    left = _STEPS_MOST
    for number, step in enumerate(plan.steps, 1):
        line = _step_line(number, step)
        left -= len(line.encode())
        if left < 0:
            return [*lines, f"... and {len(plan.steps) - len(lines)} more: get_plan {plan.id}"]
        lines.append(line)
    return lines


def _step_line(number: int, step: PlanStep) -> str:
    tools = f" [{', '.join(step.tools)}]" if step.tools else ""
    detail = f": {step.detail}" if step.detail else ""
    return one_line(f"{number}. {step.title}{detail}{tools}")
