"""`hive plan`: how agents mean to do their tasks; yes or no to one of them, by its id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from hive_core.cli.config.approval_page import quoted
from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import Column, Listing, moment, one, output_option, say, words
from hive_core.cli.core.session import Session, entries
from hive_core.errors import NotFound
from hive_core.varlink import Message

PLANS: Final = Listing(
    "plan",
    (
        Column("plan"), Column("task"), Column("state"), Column("agent"),
        Column("created", words=moment),
        Column("decided_by", "by"), Column("reason"),
    ),
    "no plans",
)  # fmt: skip
_WAITING: Final = Listing("plan", PLANS.columns[:-2], "no plan waits for a decision")


@click.group(cls=ListGroup)
def plan() -> None:
    """How agents mean to do their tasks: list, show, approve, reject."""


@plan.command("list")
@click.argument("task", metavar="[TASK]", required=False)
@output_option
@click.pass_obj
def listed(session: Session, task: str | None, style: str) -> None:
    """List the plans of a task, the newest first; without TASK those that wait for a decision.

    Only the newest of a task can be approved.
    """
    if task is None:
        _WAITING.show(_waiting(session), style)
    else:
        PLANS.show(entries(session.ask("list_plans", task=task), "plans"), style)


def _waiting(session: Session) -> Iterator[Message]:
    """The newest plan of each task that can go on once somebody has decided."""
    waits = "awaiting_plan_approval"
    for task in session.rows("list_tasks", "tasks", state=waits, open=True):
        yield from entries(session.ask("list_plans", task=task.get("id")), "plans")[:1]


@plan.command
@click.argument("id_", metavar="TASK|PLAN")
@output_option
@click.pass_obj
def show(session: Session, id_: str, style: str) -> None:
    """Show a plan with its steps, or the newest plan of a task.

    What agents wrote stands behind a bar, odd characters spelled out.
    """
    found = _found(session, id_)
    one(found, style, "plan", lambda: _page(found))


@plan.command
@click.argument("task", metavar="TASK")
@click.argument("id_", metavar="PLAN")
@click.pass_obj
def approve(session: Session, task: str, id_: str) -> None:
    """Let an agent do its task in exactly the way of this plan, its newest one."""
    reply = session.change("approve_plan", task=task, plan=id_)
    say(f"approved: plan {id_} of {words(reply.get('agent'))}")


@plan.command
@click.argument("task", metavar="TASK")
@click.argument("id_", metavar="PLAN")
@click.argument("why")
@click.pass_obj
def reject(session: Session, task: str, id_: str, why: str) -> None:
    """Refuse a plan; its agent is told WHY, and has to plan anew."""
    reply = session.change("reject_plan", task=task, plan=id_, reason=why)
    say(f"rejected: plan {id_} of {words(reply.get('agent'))}")


def _found(session: Session, id_: str) -> Message:
    """A plan by its own id, or the newest of a task."""
    # The task first, as `hive todo` names it: asking for what is not there is an event.
    try:
        plans = entries(session.ask("list_plans", task=id_), "plans")
    except NotFound:
        return _known(session, id_)
    if not plans:
        raise NotFound(f"no plan of task {id_}")
    return plans[0]


def _known(session: Session, id_: str) -> Message:
    try:
        return session.ask("get_plan", plan=id_)
    except NotFound:
        raise NotFound(f"no task or plan {id_}") from None


def _page(row: Message) -> Iterator[str]:
    yield f"plan       {words(row.get('plan'))}"
    yield f"state      {words(row.get('state'))}"
    for label, field in (("task", "task"), ("agent", "agent"), ("decided by", "decided_by"),
                         ("why", "reason")):  # fmt: skip
        if row.get(field):
            yield f"{label:<10} {words(row.get(field))}"
    yield f"{'created':<10} {moment(row.get('created'))}"
    if row.get("note"):
        yield "note"
        yield from quoted(str(row.get("note")))
    for step in entries(row, "steps"):
        tools = f"  [{words(step.get('tools'))}]" if step.get("tools") else ""
        yield f"{step.get('step')}. {words(step.get('status'))}{tools}"
        yield from quoted("\n".join(filter(None, (str(step.get("title") or ""),
                                                  str(step.get("detail") or ""),
                                                  str(step.get("note") or "")))))  # fmt: skip
    if row.get("state") == "submitted" and row.get("task"):
        both = f"{words(row.get('task'))} {words(row.get('plan'))}"
        yield ""
        yield f"yes        hive plan approve {both}"
        yield f"no         hive plan reject {both} WHY"
