"""`hive question`, `hive escalations`, `hive remind` and `hive reminders`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

import click

from hive_core.cli.config.approval_page import quoted
from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.options import reason_option
from hive_core.cli.core.output import Column, Listing, Row, moment, one, output_option, say, words
from hive_core.cli.core.session import Session, complete_agent, entries
from hive_core.cli.host.todo import age
from hive_core.plan.printable import shown

_OF: Final = (
    Column("id"), Column("state"), Column("asker"), Column("to"), Column("asked", "age", age),
    Column("deadline", words=moment),
)  # fmt: skip
QUESTIONS: Final = Listing(
    "id", (*_OF[:1], Column("kind"), *_OF[1:], Column("prompt")), "no questions"
)
ESCALATIONS: Final = Listing(
    "id", (*_OF[:1], Column("severity"), *_OF[1:], Column("prompt")), "no escalations"
)
REMINDERS: Final = Listing(
    "id",
    (Column("id"), Column("to"), Column("by"), Column("due", words=moment), Column("body")),
    "no reminders",
)
_TIMES: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)([smhdw]?)")

everyone: Final = click.option(
    "--all", "everyone", is_flag=True, help="List those of the whole hive, whoever has to answer."
)
ended_too: Final = click.option("--ended", is_flag=True, help="Also list those that have ended.")


@click.group(cls=ListGroup)
def question() -> None:
    """What agents ask you: list, show, answer, pass on, cancel."""


@question.command("list")
@everyone
@ended_too
@output_option
@click.pass_obj
def listed(session: Session, style: str, *, everyone: bool, ended: bool) -> None:
    """List the questions and escalations that wait for you, the newest first."""
    QUESTIONS.show(_rows(session, everyone=everyone, ended=ended), style)


@question.command
@click.argument("id_", metavar="ID")
@output_option
@click.pass_obj
def show(session: Session, id_: str, style: str) -> None:
    """Show what is asked, by whom, on whom it has waited, and how to answer.

    What agents wrote stands behind a bar, odd characters spelled out.
    """
    found = session.ask("get_question", question=id_)
    row = found.get("question")
    known = row if isinstance(row, dict) else {}
    one({**found, "id": known.get("id")} if style == "name" else found, style, "id",
        lambda: _page(found, known))  # fmt: skip


@question.command
@click.argument("id_", metavar="ID")
@click.argument("answers", nargs=-1, required=True, metavar="TEXT...")
@click.pass_obj
def answer(session: Session, id_: str, answers: tuple[str, ...]) -> None:
    """Answer a question or an escalation: one TEXT for each item, in their order."""
    reply = session.change("answer", question=id_, answers=list(answers))
    say(f"answered: {words(reply.get('asker'))} gets it as mail")


@question.command
@click.argument("id_", metavar="ID")
@click.argument("name", shell_complete=complete_agent)
@click.pass_obj
def relay(session: Session, id_: str, name: str) -> None:
    """Pass a question that waits for you to NAME, an ancestor of the asker."""
    reply = session.change("relay_question", question=id_, to=name)
    say(f"{id_} waits on {words(reply.get('to'))} now")


@question.command
@click.argument("id_", metavar="ID")
@reason_option("Reason shown to the asker and to the agent that was asked.")
@click.pass_obj
def cancel(session: Session, id_: str, reason: str) -> None:
    """Cancel a question or an escalation, whoever asked it."""
    reply = session.change("cancel_question", question=id_, why=reason)
    say(f"cancelled: {words(reply.get('asker'))} is told")


@click.command
@everyone
@ended_too
@output_option
@click.pass_obj
def escalations(session: Session, style: str, *, everyone: bool, ended: bool) -> None:
    """List the escalations that wait for you; `hive question answer ID TEXT` settles one."""
    rows = _rows(session, everyone=everyone, ended=ended)
    ESCALATIONS.show((row for row in rows if row.get("kind") == "escalation"), style)


@click.command
@click.argument("name", shell_complete=complete_agent)
@click.argument("text")
@click.option("--in", "after", metavar="TIME", help="How long from now: 90, 90s, 5m, 2h, 3d, 1w.")
@click.option(
    "--at", "at", metavar="TIME", help="When: 2030-01-31T09:00, in local time unless it has a zone."
)
@click.pass_obj
def remind(session: Session, name: str, text: str, after: str | None, at: str | None) -> None:
    """Send TEXT to NAME later; NAME may be `operator`. Prints the id of the reminder.

    It is delivered also while the agent is stopped or asleep: its mail waits.
    """
    if (after is None) == (at is None):
        raise click.UsageError("say when: --in or --at")
    when = {"in": seconds(after)} if after is not None else {"at": epoch(str(at))}
    reply = session.change("remind", to=name, body=text, **when)
    say(f"comes {moment(reply.get('due'))}")
    click.echo(words(reply.get("reminder")))


@click.command
@click.argument("name", required=False, shell_complete=complete_agent)
@click.option("--cancel", "cancelled", metavar="ID", help="Take this one back.")
@output_option
@click.pass_obj
def reminders(session: Session, name: str | None, style: str, cancelled: str | None) -> None:
    """List what NAME, or you, will be reminded of."""
    if cancelled is not None:
        reply = session.change("cancel_reminder", reminder=cancelled)
        say(f"cancelled: {words(reply.get('to'))} does not get it")
        return
    REMINDERS.show(session.rows("list_reminders", "reminders", agent=name), style)


def seconds(text: str) -> float:
    """`5m` as seconds."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise click.UsageError(f"{text!r} is no time: 90, 90s, 5m, 2h, 3d or 1w")
    return float(found[1]) * _TIMES[found[2] or "s"]


def epoch(text: str) -> float:
    """A date and time, or seconds since 1970."""
    try:
        return float(text) if text.replace(".", "", 1).isdigit() else _parsed(text)
    except ValueError:
        raise click.UsageError(f"{text!r} is no time: say it as 2030-01-31T09:00") from None


def _parsed(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _rows(session: Session, *, everyone: bool, ended: bool) -> Iterator[Row]:
    which = "subtree" if everyone else None
    return session.rows("list_questions", "questions", which=which, open=not ended)


def _page(found: Row, row: Row) -> Iterator[str]:
    yield f"{words(row.get('kind')):<10} {words(row.get('id'))}"
    yield f"state      {words(row.get('state'))}"
    yield f"asked by   {words(row.get('asker'))}, {moment(row.get('asked'))}"
    for hop in entries(dict(found), "hops"):
        by = f", from {words(hop.get('by'))}" if hop.get("why") != "asked" else ""
        why = f"{words(hop.get('why'))}{by}"
        yield f"waited on  {words(hop.get('to'))} since {moment(hop.get('at'))} ({why})"
    for field in ("severity", "task", "deadline", "climbs", "answered_by", "ended", "reason"):
        if row.get(field):
            timed = field in ("deadline", "climbs", "ended")
            shown_as = moment(row[field]) if timed else words(row[field])
            yield f"{field.replace('_', ' '):<10} {shown_as}"
    for number, item in enumerate(entries(dict(found), "items"), 1):
        yield from _item(number, item)
    if found.get("context"):
        yield "context"
        yield from _words_of_agents(found["context"])
    if row.get("state") == "open":
        texts = " ".join("TEXT" for _ in entries(dict(found), "items"))
        yield f"answer     hive question answer {words(row.get('id'))} {texts}"


def _item(number: int, item: Row) -> Iterator[str]:
    yield f"item {number}"
    yield from _words_of_agents(item.get("prompt"))
    options = item.get("options")
    for option in options if isinstance(options, list) else []:
        yield f"  or       {words(option)}"
    for field in ("default", "answer"):
        if item.get(field) is not None:
            yield f"  {field:<8} {words(item[field])}"


def _words_of_agents(text: object) -> Iterator[str]:
    return quoted("\n".join(map(shown, str(text or "").split("\n"))))
