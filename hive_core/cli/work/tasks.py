"""`hive task`: list, show, assign and cancel tasks of agents."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, cast

import click

from hive_core.agent.output import as_json, plain
from hive_core.agent.reconnect import wire_name
from hive_core.cli.config.approval_page import quote
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
    stamp,
    words,
)
from hive_core.cli.core.parameters import DURATION
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import Session, complete_agent, complete_task, entries
from hive_core.cli.core.units import format_duration
from hive_core.cli.host.todo import age
from hive_core.cli.work.budgets import REPORTED, format_amount, parse_amount
from hive_core.errors import HiveError
from hive_core.model.wire.trace_context import parse_traceparent

STATES: Final = (
    "awaiting_plan_approval", "awaiting_more_information", "awaiting_judgement",
    "in_progress", "pending_delegation",
    "stopping", "queued", "waiting", "done", "cancelled",
)  # fmt: skip
_SUCCESSES: Final = ("success", "partial")
FAILURE: Final = 1


def _state(state: object) -> str:
    return str(state).replace("_", " ")


def _outcome(row: Row) -> str:
    """The result of a task, or its progress."""
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
        Column("id"), Column("state", words=_state), Column("agent"),
        Column("assigner", priority=2), Column("created", "age", age, priority=1), Column("title"),
        Column("outcome"),
    ),
    "no tasks",
)  # fmt: skip


@click.group(cls=ListGroup, aliases={"rm": "cancel"})
def task() -> None:
    """List, show, assign and cancel tasks of agents."""


@task.command("list")
@click.argument("name", required=False, shell_complete=complete_agent)
@click.option("--state", type=click.Choice(STATES), help="Only tasks in this state.")
@click.option("--all", "everything", is_flag=True, help="Include tasks that have ended.")
@output_option
@click.pass_obj
def list_tasks(
    session: Session, style: str, name: str | None, state: str | None, *, everything: bool
) -> None:
    """List tasks, the newest first: those of NAME and its descendants, or of all agents."""
    open_ = None if everything or state in ("done", "cancelled") else True
    rows: Iterable[Row] = session.rows("list_tasks", "tasks", agent=name, state=state, open=open_)
    if style == "table":
        rows = ({**row, "outcome": _outcome(row)} for row in rows)
    TASKS.show(rows, style)


@task.command
@click.argument("name", required=False, shell_complete=complete_agent)
@click.option("--all", "everything", is_flag=True, help="Include tasks that have ended.")
@click.pass_obj
def board(session: Session, name: str | None, *, everything: bool) -> None:
    """Show tasks by state, each below the task that it is a part of."""
    rows = list(session.rows("list_tasks", "tasks", agent=name, open=None if everything else True))
    if not rows:
        say(TASKS.empty)
    for state in STATES:
        tasks = [row for row in rows if row.get("state") == state]
        if tasks:
            echo(f"{_state(state)} ({len(tasks)})")
            for line in _tree(tasks):
                echo(line)


def _tree(rows: Sequence[Row]) -> Iterator[str]:
    """Tasks with their parts indented below them, the oldest first."""
    ids = {row.get("id") for row in rows}
    ordered = rows[::-1]
    stack = [(row, 1) for row in reversed(ordered) if row.get("part_of") not in ids]
    while stack:
        row, depth = stack.pop()
        outcome = _outcome(row)
        about = f"{words(row.get('id'))}  {words(row.get('agent'))}  {words(row.get('title'))}"
        yield f"{'  ' * depth}{about}{f'  {outcome}' if outcome else ''}"
        parts = [part for part in ordered if part.get("part_of") == row.get("id")]
        stack.extend((part, depth + 1) for part in reversed(parts))


@task.command
@click.argument("id_", metavar="ID", shell_complete=complete_task)
@output_option
@click.pass_obj
def show(session: Session, id_: str, style: str) -> None:
    """Show a task: description, state, result, and its history.

    Text that an agent wrote follows a bar, with control characters escaped.
    """
    reply = session.ask("get_task", task=id_)
    value = reply.get("task")
    row = value if isinstance(value, dict) else {}
    one({**reply, "id": id_} if style == "name" else reply, style, "id", lambda: _page(reply, row))


def _page(reply: Row, row: Row) -> Iterator[str]:
    yield f"task       {words(row.get('id'))}  {words(row.get('title'))}"
    yield f"state      {_state(row.get('state'))}"
    result = row.get("result")
    summary = result.get("summary") if isinstance(result, dict) else None  # it is shown below
    for label, field in (("why", "why"), ("agent", "agent"), ("given by", "assigner"),
                         ("part of", "part_of"), ("waits for", "waits_for"), ("plan", "plan"),
                         ("progress", "progress")):  # fmt: skip
        if row.get(field) and (field, row.get(field)) != ("why", summary):
            yield f"{label:<10} {words(row.get(field))}"
    if reply.get("hint"):
        yield f"not begun  {words(reply.get('hint'))}"
    for label, field in (("created", "created"), ("started", "started"), ("deadline", "deadline"),
                         ("ended", "ended")):  # fmt: skip
        if row.get(field) is not None:
            yield f"{label:<10} {stamp(row.get(field))}"
    yield from _block("to do", str(reply.get("description") or ""))
    if reply.get("data") is not None:
        yield from _block("data", as_json(reply.get("data"), 2))
    yield from _criteria_lines(reply)
    yield from _result(row.get("result") or reply.get("delivered"))
    yield ""
    for step in entries(reply, "history"):
        why = f"  {words(step.get('why'))}" if step.get("why") else ""
        state, by = _state(step.get("state")), words(step.get("by"))
        yield f"{moment(step.get('time'))}  {words(step.get('event'))} -> {state}  by {by}{why}"


def _criteria_lines(reply: Row) -> Iterator[str]:
    """What the result has to meet, and the verdicts on it."""
    criteria = reply.get("criteria")
    if not isinstance(criteria, dict):
        return
    yield from _block("criteria", str(criteria.get("text") or ""))
    for field in ("data", "artifacts", "retries"):
        if criteria.get(field):
            yield f"{field:<10} {words(criteria.get(field))}"
    for row in entries(reply, "judgements"):
        head = f"attempt {words(row.get('attempt'))}: {words(row.get('verdict'))}"
        yield f"{head} by {words(row.get('judge'))}  {words(row.get('feedback'))}".rstrip()


def _result(result: object) -> Iterator[str]:
    if not isinstance(result, dict):
        return
    yield ""
    yield f"result     {words(result.get('status'))}, {_duration(result.get('duration'))}"
    for field in ("error", "artifacts"):
        if result.get(field):
            yield f"{field:<10} {words(result.get(field))}"
    yield from _spend(result)
    yield from quote(str(result.get("summary") or ""))
    if result.get("data") is not None:
        yield from _block("data", as_json(result.get("data"), 2))


def _spend(result: Row) -> Iterator[str]:
    """Tokens and money of the task; figures that are not measured have a mark."""
    mark = "" if result.get("source") == "measured" else REPORTED
    if result.get("tokens"):
        yield f"tokens     {mark}{words(result.get('tokens'))}"
    if result.get("cost"):
        yield f"cost       {mark}{format_amount('money', result.get('cost'))}"


def _duration(value: object) -> str:
    return format_duration(value) if isinstance(value, int | float) else "-"


def _block(label: str, text: str) -> Iterator[str]:
    yield ""
    yield f"{label}:"
    yield from quote(text)


@task.command
@click.argument("name", shell_complete=complete_agent)
@click.argument("text")
@click.option("--title", default=None, help="Title for lists.")
@click.option("--data", default=None, metavar="JSON", help="Input for programs: a JSON object.")
@click.option("--deadline", type=DURATION, default=None,
              help="Working time after which the task is stopped; 0: never.")  # fmt: skip
@click.option("--soft", type=DURATION, default=None,
              help="Working time after which a report is requested.")  # fmt: skip
@click.option(
    "--needs",
    multiple=True,
    metavar="ID",
    shell_complete=complete_task,
    help="Start only after this task succeeds (repeatable).",
)
@click.option("--requeue", type=int, default=None, metavar="N",
              help="Retries if the agent exits before the task ends.")  # fmt: skip
@click.option(
    "--plan", is_flag=True, help="Require a plan; the agent executes nothing before it is approved."
)
@click.option("--context", type=click.Choice(("keep", "clear")), default=None,
              help="Whether the agent keeps or clears its memory of earlier tasks.")  # fmt: skip
@click.option(
    "--priority", type=click.IntRange(0, 3), default=None, help="Priority, 0 (most urgent) to 3."
)
@click.option("--criteria", default=None, metavar="TEXT",
              help="What the result must meet, in words; the assigner judges it.")  # fmt: skip
@click.option("--require-data", multiple=True, metavar="NAME",
              help="Name that the data of the result must have (repeatable).")  # fmt: skip
@click.option("--retries", type=click.IntRange(0, 10), default=None, metavar="N",
              help="Times that a result below the criteria is given back (default 2).")  # fmt: skip
@click.option("--wait", is_flag=True, help="Wait until the task ends, and print its result.")
@output_option
@click.pass_obj
def assign(
    session: Session, /, name: str, text: str, style: str, *, wait: bool, **options: object
) -> int:
    """Assign a task to the agent NAME; TEXT is its description (- reads standard input).

    The command prints the id of the task. With --wait it prints the id to standard error and the
    summary of the result to standard output, or the data of the result as JSON when it has no
    summary; then your inbox no longer tells of that end. The exit status is then 0 when the result
    is success or partial. Ctrl-C ends the wait, not the task. As JSON it prints the answer of the
    daemon, with --wait the ended task.
    """
    options["data"] = _parse_object(options["data"])
    options["needs"] = list(cast("tuple[str, ...]", options["needs"])) or None
    options["plan_required"] = options.pop("plan") or None
    options["traceparent"] = _traceparent()
    options["criteria"] = _criteria(options)
    text = sys.stdin.read() if text == "-" else text
    reply = session.change("assign_task", agent=name, description=text, **options)
    id_ = str(reply.get("task"))
    hint = f"; {words(reply.get('hint'))}" if reply.get("hint") else ""
    if hint or not wait:
        say(f"{words(reply.get('agent'))}: {_state(reply.get('state'))}{hint}")
    if not wait:
        one(reply, style, "task", lambda: [id_])
        return 0
    say(f"task {id_} of {words(reply.get('agent'))}")
    try:
        with working(f"task {id_} of {name}"):
            row = _await_end(session, id_)
    except KeyboardInterrupt:
        say(f"the task continues: `hive wait --for task.done={id_}`, `hive task show {id_}`")
        raise
    status = _print_result(id_, row, style)
    # Only now: were it lost before it is printed, the mail would still tell of it.
    with suppress(HiveError):
        session.change("clear_inbox", tasks=[id_])
    return status


def _traceparent() -> str | None:
    """The span that the environment names, so that the task belongs to its trace."""
    text = os.environ.get("TRACEPARENT", "")
    return text if parse_traceparent(text) else None


def _criteria(options: dict[str, object]) -> dict[str, object] | None:
    """Take the options about criteria out of all options."""
    fields = {
        "text": options.pop("criteria"), "data": list(cast("tuple[str, ...]",
        options.pop("require_data"))) or None, "retries": options.pop("retries"),
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None} or None


def _parse_object(text: object) -> dict[str, object] | None:
    if text is None:
        return None
    try:
        value = json.loads(str(text))
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--data") from error
    if not isinstance(value, dict):
        raise click.BadParameter("not a JSON object", param_hint="--data")
    return value


def _await_end(session: Session, id_: str) -> Row:
    """Wait for the end of a task and return it."""
    for _ in session.link.stream(wire_name("watch_task"), {"task": id_}):
        pass  # each change is a reply, and the last reply is the end
    row = session.ask("get_task", task=id_).get("task")
    return row if isinstance(row, dict) else {}


def _print_result(id_: str, row: Row, style: str) -> int:
    """Print an ended task; for people the summary of its result, or its error, or its data."""
    value = row.get("result")
    result: Row = value if isinstance(value, dict) else {}
    say(f"task {id_}: {words(result.get('status'))}")
    one(row, style, "id", lambda: _result_text(result))
    return 0 if result.get("status") in _SUCCESSES else FAILURE


def _result_text(result: Row) -> Iterator[str]:
    if text := result.get("summary") or result.get("error"):
        yield plain(str(text))
    elif result.get("data") is not None:
        yield as_json(result["data"])


@task.command
@click.argument("id_", metavar="ID", shell_complete=complete_task)
@click.argument("verdict", type=click.Choice(("accept", "retry", "escalate")))
@click.argument("feedback", default="")
@click.pass_obj
def judge(session: Session, id_: str, verdict: str, feedback: str) -> None:
    """Decide on the result of a task that waits for a verdict; FEEDBACK says what is missing.

    accept ends the task with its result, retry gives the work back with FEEDBACK, and escalate
    leaves the decision to the assigner.
    """
    reply = session.change("judge_task", task=id_, verdict=verdict, feedback=feedback)
    say(f"task {id_}: {words(reply.get('verdict'))}, {_state(reply.get('state'))}")


@task.command
@click.argument("id_", metavar="ID", shell_complete=complete_task)
@reason_option("Reason shown to the assignee.")
@click.pass_obj
def cancel(session: Session, id_: str, reason: str) -> None:
    """Cancel a task with its parts, stop the work on them, and print the cancelled tasks."""
    reply = session.change("cancel_task", task=id_, reason=reason)
    for row in entries(reply, "hit"):
        task_, agent = words(row.get("task")), words(row.get("agent"))
        say(f"{task_} of {agent}: {_state(row.get('state'))}")
    if reply.get("more"):
        say("the daemon cancels the other parts one after the other")


@task.command("top-up")
@click.argument("id_", metavar="ID", shell_complete=complete_task)
@click.argument("kind", type=click.Choice(("tokens", "money")))
@click.argument("quantity", metavar="AMOUNT")
@click.pass_obj
def top_up(session: Session, id_: str, kind: str, quantity: str) -> None:
    """Add AMOUNT to the budget of a task, from the budget of the agent that assigned it.

    Write money as 12.50.
    """
    more = {"cost" if kind == "money" else kind: parse_amount(kind, quantity)}
    reply = session.change("fund_task", task=id_, **more)
    for row in entries(reply, "budget"):
        kind = str(row["kind"])
        left, spent = (format_amount(kind, row[field]) for field in ("left", "spent"))
        echo(f"task {id_} has {left} {kind} left, {spent} spent")
