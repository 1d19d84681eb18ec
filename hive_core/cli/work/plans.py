"""`hive plan`: list, show, approve and reject plans of agents for their tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from hive_core.cli.config.approval_page import quote
from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import Column, Listing, moment, one, output_option, say, stamp, words
from hive_core.cli.core.session import Session, complete_plan, complete_task, entries
from hive_core.errors import InvalidArgument, NotFound
from hive_core.varlink import Message

PLANS: Final = Listing(
    "plan",
    (
        Column("plan"), Column("task", priority=2), Column("state"), Column("agent"),
        Column("created", words=moment, priority=1), Column("decided_by", "by", priority=3),
        Column("reason"),
    ),
    "no plans",
)  # fmt: skip
_WITH_REASON: Final = 2  # words: a plan and a reason
_WAITING: Final = Listing("plan", PLANS.columns[:-2], "no plan waits for a decision")


@click.group(cls=ListGroup)
def plan() -> None:
    """List, show, approve and reject plans of agents for their tasks."""


@plan.command("list")
@click.argument("task", metavar="[TASK]", required=False, shell_complete=complete_task)
@output_option
@click.pass_obj
def list_plans(session: Session, task: str | None, style: str) -> None:
    """List the plans of TASK, the newest first; without TASK, all plans that wait for a decision.

    Only the newest plan of a task can be approved.
    """
    if task is None:
        _WAITING.show(_waiting(session), style)
    else:
        PLANS.show(entries(session.ask("list_plans", task=task), "plans"), style)


def _waiting(session: Session) -> Iterator[Message]:
    """The newest plan of each task that waits for a decision."""
    waits = "awaiting_plan_approval"
    for task in session.rows("list_tasks", "tasks", state=waits, open=True):
        yield from entries(session.ask("list_plans", task=task.get("id")), "plans")[:1]


@plan.command
@click.argument("id_", metavar="TASK|PLAN", shell_complete=complete_plan)
@output_option
@click.pass_obj
def show(session: Session, id_: str, style: str) -> None:
    """Show a plan with its steps, or the newest plan of a task.

    Text that an agent wrote follows a bar, with control characters escaped.
    """
    row = _find_plan(session, id_)
    one(row, style, "plan", lambda: _page(row))


@plan.command
@click.argument("ids", metavar="PLAN", nargs=-1, shell_complete=complete_plan)
@click.pass_obj
def approve(session: Session, ids: tuple[str, ...]) -> None:
    """Approve PLAN: its agent may carry it out exactly as shown.

    Only the newest plan of a task can be approved.
    """
    task, id_ = _task_and_plan(session, ids)
    reply = session.change("approve_plan", task=task, plan=id_)
    say(f"approved: plan {id_} of {words(reply.get('agent'))}")


@plan.command
@click.argument("ids", metavar="PLAN REASON", nargs=-1, shell_complete=complete_plan)
@click.pass_obj
def reject(session: Session, ids: tuple[str, ...]) -> None:
    """Reject PLAN: its agent gets REASON and has to make another plan."""
    if len(ids) < _WITH_REASON:
        raise click.UsageError("name the plan and the reason: hive plan reject PLAN REASON")
    task, id_ = _task_and_plan(session, ids[:-1])
    reply = session.change("reject_plan", task=task, plan=id_, reason=ids[-1])
    say(f"rejected: plan {id_} of {words(reply.get('agent'))}")


def _task_and_plan(session: Session, ids: tuple[str, ...]) -> tuple[str, str]:
    """The task and the plan of `PLAN`, or of `TASK PLAN` as in older releases."""
    match ids:
        case (plan,):
            return str(_require_plan(session, plan).get("task")), plan
        case (task, plan):
            return task, plan
        case _:
            raise click.UsageError("name one plan; `hive plan` lists those that wait")


def _require_plan(session: Session, id_: str) -> Message:
    """A plan by its own id: a decision is on exactly the plan that was read."""
    try:
        return _get_plan(session, id_)
    except NotFound:
        newest = _find_plan(session, id_).get("plan")
        reason = f"{id_} is a task: its newest plan is {newest} (`hive plan show {newest}`)"
        raise InvalidArgument(reason, field="plan") from None


def _find_plan(session: Session, id_: str) -> Message:
    """A plan by its own id, or the newest of a task."""
    # Look up the task first, as `hive todo` names it: a request for an unknown plan is an event.
    try:
        plans = entries(session.ask("list_plans", task=id_), "plans")
    except NotFound:
        return _get_plan(session, id_)
    if not plans:
        raise NotFound(f"no plan of task {id_}")
    return plans[0]


def _get_plan(session: Session, id_: str) -> Message:
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
    yield f"{'created':<10} {stamp(row.get('created'))}"
    if row.get("note"):
        yield "note"
        yield from quote(str(row.get("note")))
    for step in entries(row, "steps"):
        tools = f"  [{words(step.get('tools'))}]" if step.get("tools") else ""
        yield f"{step.get('step')}. {words(step.get('status'))}{tools}"
        yield from quote("\n".join(filter(None, (str(step.get("title") or ""),
                                                  str(step.get("detail") or ""),
                                                  str(step.get("note") or "")))))  # fmt: skip
    if row.get("state") == "submitted" and row.get("task"):
        yield ""
        yield f"yes        hive plan approve {words(row.get('plan'))}"
        yield f"no         hive plan reject {words(row.get('plan'))} REASON"
