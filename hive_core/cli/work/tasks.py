"""`hive task`: what is to be done, by whom, how far it is; given and taken back."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

import click

from hive_core.agent.output import as_json, plain
from hive_core.agent.reconnect import camel
from hive_core.cli.config.approval_page import quoted
from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.options import reason_option
from hive_core.cli.core.output import (
    Column,
    Listing,
    Row,
    echo,
    moment,
    one,
    output_option,
    say,
    words,
)
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import Session, complete_agent, entries
from hive_core.cli.host.todo import age
from hive_core.cli.work.budgets import amount, written

STATES: Final = (
    "awaiting_plan_approval", "awaiting_more_information", "in_progress", "pending_delegation",
    "stopping", "queued", "waiting", "done", "cancelled",
)  # fmt: skip
_WELL: Final = ("success", "partial")
NOT_WELL: Final = 1


def _state(row: object) -> str:
    return str(row).replace("_", " ")


def _said(row: Row) -> str:
    """How it came out, or what is said of it."""
    result = row.get("result")
    if isinstance(result, dict):
        text = result.get("summary") or result.get("error") or result.get("data")
        return f"{result.get('status')}: {words(text)}" if text else str(result.get("status"))
    percent = row.get("percent")
    progress = words(row.get("progress")) if row.get("progress") else ""
    return f"{percent} % {progress}".strip() if percent is not None else progress


TASKS: Final = Listing(
    "id",
    (
        Column("id"), Column("state", words=_state), Column("agent"), Column("assigner"),
        Column("created", "age", age), Column("title"), Column("said"),
    ),
    "no tasks",
)  # fmt: skip


@click.group(cls=ListGroup)
def task() -> None:
    """What agents have to do: list, board, show, assign, cancel."""


@task.command("list")
@click.argument("name", required=False, shell_complete=complete_agent)
@click.option("--state", type=click.Choice(STATES), help="Only in this state.")
@click.option("--all", "everything", is_flag=True, help="Also list those that have ended.")
@output_option
@click.pass_obj
def listed(
    session: Session, style: str, name: str | None, state: str | None, *, everything: bool
) -> None:
    """List tasks, the newest first: those of NAME and all below it, or of everybody."""
    open_ = None if everything or state in ("done", "cancelled") else True
    found = session.rows("list_tasks", "tasks", agent=name, state=state, open=open_)
    if style == "table":
        found = ({**row, "said": _said(row)} for row in found)
    TASKS.show(found, style)


@task.command
@click.argument("name", required=False, shell_complete=complete_agent)
@click.option("--all", "everything", is_flag=True, help="Also list those that have ended.")
@click.pass_obj
def board(session: Session, name: str | None, *, everything: bool) -> None:
    """Show tasks by state, each part below the task that it is a part of."""
    rows = list(session.rows("list_tasks", "tasks", agent=name, open=None if everything else True))
    if not rows:
        say(TASKS.empty)
    for state in STATES:
        those = [row for row in rows if row.get("state") == state]
        if those:
            echo(f"{_state(state)} ({len(those)})")
            for line in _tree(those):
                echo(line)


def _tree(rows: Sequence[Row]) -> Iterator[str]:
    """Wholes before their parts, each indented under its own; the oldest first."""
    ids = {row.get("id") for row in rows}
    ordered = rows[::-1]
    stack = [(row, 1) for row in reversed(ordered) if row.get("part_of") not in ids]
    while stack:
        row, depth = stack.pop()
        said = _said(row)
        about = f"{words(row.get('id'))}  {words(row.get('agent'))}  {words(row.get('title'))}"
        yield f"{'  ' * depth}{about}{f'  {said}' if said else ''}"
        parts = [each for each in ordered if each.get("part_of") == row.get("id")]
        stack.extend((each, depth + 1) for each in reversed(parts))


@task.command
@click.argument("id_", metavar="ID")
@output_option
@click.pass_obj
def show(session: Session, id_: str, style: str) -> None:
    """Show a task: description, state, result, and each step until now.

    What agents wrote stands behind a bar, odd characters spelled out.
    """
    found = session.ask("get_task", task=id_)
    row = found.get("task")
    known = row if isinstance(row, dict) else {}
    one(
        {**found, "id": id_} if style == "name" else found, style, "id", lambda: _page(found, known)
    )


def _page(found: Row, row: Row) -> Iterator[str]:
    yield f"task       {words(row.get('id'))}  {words(row.get('title'))}"
    yield f"state      {_state(row.get('state'))}"
    for label, field in (("why", "why"), ("agent", "agent"), ("given by", "assigner"),
                         ("part of", "part_of"), ("waits for", "waits_for"), ("plan", "plan"),
                         ("progress", "progress")):  # fmt: skip
        if row.get(field):
            yield f"{label:<10} {words(row.get(field))}"
    if found.get("hint"):
        yield f"not begun  {words(found.get('hint'))}"
    for label, field in (("created", "created"), ("started", "started"), ("deadline", "deadline"),
                         ("ended", "ended")):  # fmt: skip
        if row.get(field) is not None:
            yield f"{label:<10} {moment(row.get(field))}"
    yield from _block("to do", str(found.get("description") or ""))
    if found.get("data") is not None:
        yield from _block("data", as_json(found.get("data"), 2))
    yield from _result(row.get("result"))
    yield ""
    for step in entries(dict(found), "history"):
        why = f"  {words(step.get('why'))}" if step.get("why") else ""
        state, by = _state(step.get("state")), words(step.get("by"))
        yield f"{moment(step.get('time'))}  {words(step.get('event'))} -> {state}  by {by}{why}"


def _result(result: object) -> Iterator[str]:
    if not isinstance(result, dict):
        return
    yield ""
    yield f"result     {words(result.get('status'))}, {result.get('duration')} s"
    for field in ("error", "artifacts", "tokens", "cost"):
        if result.get(field):
            yield f"{field:<10} {words(result.get(field))}"
    yield from quoted(str(result.get("summary") or ""))
    if result.get("data") is not None:
        yield from _block("data", as_json(result.get("data"), 2))


def _block(label: str, text: str) -> Iterator[str]:
    yield ""
    yield f"{label}:"
    yield from quoted(text)


@task.command
@click.argument("name", shell_complete=complete_agent)
@click.argument("text")
@click.option("--title", default=None, help="A few words for lists.")
@click.option("--data", default=None, metavar="JSON", help="An object for programs.")
@click.option("--deadline", type=float, default=None, metavar="SECONDS",
              help="Seconds of work after which the task is stopped; 0: never.")  # fmt: skip
@click.option("--soft", type=float, default=None, metavar="SECONDS",
              help="Seconds of work after which a report is requested.")  # fmt: skip
@click.option(
    "--needs", multiple=True, metavar="ID", help="Start only after this task succeeds (repeatable)."
)
@click.option("--requeue", type=int, default=None, metavar="N",
              help="Retries if the agent exits before the task ends.")  # fmt: skip
@click.option(
    "--plan", is_flag=True, help="The agent plans first; nothing runs before its plan is approved."
)
@click.option("--context", type=click.Choice(("keep", "clear")), default=None,
              help="Whether the agent keeps what it remembers, or begins afresh.")  # fmt: skip
@click.option("--priority", type=click.IntRange(0, 3), default=None, help="0 (most urgent) to 3.")
@click.option("--wait", is_flag=True, help="Wait until the task ends, and print its result.")
@click.pass_obj
def assign(session: Session, /, name: str, text: str, *, wait: bool, **said: object) -> int:
    """Give the agent NAME something to do; TEXT says what (- reads it from standard input).

    Prints the id of the task. With --wait that goes to standard error, and printed is the summary
    of its result, or its data as JSON where there is no summary; the exit status is 0 when the
    result is success or partial. Ctrl-C ends the waiting, not the task.
    """
    said["data"] = _object(said["data"])
    said["needs"] = list(cast("tuple[str, ...]", said["needs"])) or None
    said["plan_required"] = said.pop("plan") or None
    text = sys.stdin.read() if text == "-" else text
    reply = session.change("assign_task", agent=name, description=text, **said)
    id_ = str(reply.get("task"))
    hint = f"; {words(reply.get('hint'))}" if reply.get("hint") else ""
    if hint or not wait:
        say(f"{words(reply.get('agent'))}: {_state(reply.get('state'))}{hint}")
    if not wait:
        echo(id_)
        return 0
    say(f"task {id_} of {words(reply.get('agent'))}")
    try:
        with working(f"task {id_} of {name}"):
            row = _ended(session, id_)
    except KeyboardInterrupt:
        say(f"this goes on: `hive wait --for task.done={id_}`, `hive task show {id_}`")
        raise
    return _print_result(id_, row.get("result"))


def _object(text: object) -> dict[str, object] | None:
    if text is None:
        return None
    try:
        found = json.loads(str(text))
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--data") from error
    if not isinstance(found, dict):
        raise click.BadParameter("not a JSON object", param_hint="--data")
    return found


def _ended(session: Session, id_: str) -> Row:
    """The task once it has ended."""
    for _ in session.link.stream(camel("watch_task"), {"task": id_}):
        pass  # each change is a reply; the last one is its end
    row = session.ask("get_task", task=id_).get("task")
    return row if isinstance(row, dict) else {}


def _print_result(id_: str, result: object) -> int:
    """Print what came out: the summary, else the error, else the data."""
    found = result if isinstance(result, dict) else {}
    say(f"task {id_}: {words(found.get('status'))}")
    if text := found.get("summary") or found.get("error"):
        echo(plain(str(text)))
    elif found.get("data") is not None:
        echo(as_json(found["data"]))
    return 0 if found.get("status") in _WELL else NOT_WELL


@task.command
@click.argument("id_", metavar="ID")
@reason_option("Reason shown to the assignee.")
@click.pass_obj
def cancel(session: Session, id_: str, reason: str) -> None:
    """Cancel a task with its parts, and stop the work on them; prints which were cancelled."""
    reply = session.change("cancel_task", task=id_, reason=reason)
    for line in _hit(entries(reply, "hit")):
        say(line)
    if reply.get("more"):
        say("and more, one after the other")


@task.command("top-up")
@click.argument("id_", metavar="ID")
@click.argument("kind", type=click.Choice(("tokens", "money")))
@click.argument("given", metavar="AMOUNT")
@click.pass_obj
def top_up(session: Session, id_: str, kind: str, given: str) -> None:
    """Add AMOUNT to the task's own budget, out of the budget of the agent that assigned it.

    Money is written 12.50.
    """
    more = {"cost" if kind == "money" else kind: written(kind, given)}
    reply = session.change("fund_task", task=id_, **more)
    for row in entries(reply, "budget"):
        kind = str(row["kind"])
        left, spent = (amount(kind, row[each]) for each in ("left", "spent"))
        echo(f"task {id_} has {left} {kind} left, {spent} spent")


def _hit(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        yield f"{words(row.get('task'))} of {words(row.get('agent'))}: {_state(row.get('state'))}"
