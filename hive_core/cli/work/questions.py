"""`hive question`: list, show, answer, relay and cancel questions of agents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from hive_core.cli.config.approval_page import quote
from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.options import reason_option
from hive_core.cli.core.output import (
    Column,
    Listing,
    Row,
    moment,
    one,
    output_option,
    say,
    stamp,
    words,
)
from hive_core.cli.core.session import Session, complete_agent, complete_question, entries
from hive_core.cli.host.todo import age
from hive_core.plan.printable import escape

QUESTION_COLUMNS: Final = (
    Column("id"), Column("state", priority=3), Column("asker"), Column("to", priority=2),
    Column("asked", "age", age), Column("deadline", words=moment, priority=1),
)  # fmt: skip
QUESTIONS: Final = Listing(
    "id",
    (*QUESTION_COLUMNS[:1], Column("kind", priority=4), *QUESTION_COLUMNS[1:], Column("prompt")),
    "no questions",
)  # fmt: skip

everyone_option: Final = click.option(
    "--all", "everyone", is_flag=True, help="Include questions that wait for other agents."
)
ended_option: Final = click.option("--ended", is_flag=True, help="Include those that have ended.")


@click.group(cls=ListGroup, aliases={"rm": "cancel"})
def question() -> None:
    """List, show, answer, relay and cancel questions of agents."""


@question.command("list")
@everyone_option
@ended_option
@output_option
@click.pass_obj
def list_questions(session: Session, style: str, *, everyone: bool, ended: bool) -> None:
    """List the questions and escalations that wait for you, the newest first."""
    QUESTIONS.show(question_rows(session, everyone=everyone, ended=ended), style)


@question.command
@click.argument("id_", metavar="ID", shell_complete=complete_question)
@output_option
@click.pass_obj
def show(session: Session, id_: str, style: str) -> None:
    """Show a question: its asker, the party that has to answer, and the command to answer it.

    Text that an agent wrote follows a bar, with control characters escaped.
    """
    reply = session.ask("get_question", question=id_)
    value = reply.get("question")
    row = value if isinstance(value, dict) else {}
    one({**reply, "id": row.get("id")} if style == "name" else reply, style, "id",
        lambda: _page(reply, row))  # fmt: skip


@question.command
@click.argument("id_", metavar="ID", shell_complete=complete_question)
@click.argument("answers", nargs=-1, required=True, metavar="TEXT...")
@click.pass_obj
def answer(session: Session, id_: str, answers: tuple[str, ...]) -> None:
    """Answer a question or an escalation, with one TEXT for each item in order."""
    reply = session.change("answer", question=id_, answers=list(answers))
    say(f"answered: {words(reply.get('asker'))} gets it as mail")


@question.command
@click.argument("id_", metavar="ID", shell_complete=complete_question)
@click.argument("name", shell_complete=complete_agent)
@click.pass_obj
def relay(session: Session, id_: str, name: str) -> None:
    """Pass a question that waits for you to NAME, an ancestor of the asker."""
    reply = session.change("relay_question", question=id_, to=name)
    say(f"{id_} waits for {words(reply.get('to'))} now")


@question.command
@click.argument("id_", metavar="ID", shell_complete=complete_question)
@reason_option("Reason shown to the asker and to the agent that was asked.")
@click.pass_obj
def cancel(session: Session, id_: str, reason: str) -> None:
    """Cancel a question or an escalation of any agent."""
    reply = session.change("cancel_question", question=id_, why=reason)
    say(f"cancelled: {words(reply.get('asker'))} is told")


def question_rows(session: Session, *, everyone: bool, ended: bool) -> Iterator[Row]:
    which = "subtree" if everyone else None
    return session.rows("list_questions", "questions", which=which, open=not ended)


def _page(reply: Row, row: Row) -> Iterator[str]:
    yield f"{words(row.get('kind')):<10} {words(row.get('id'))}"
    yield f"state      {words(row.get('state'))}"
    yield f"asked by   {words(row.get('asker'))}, {stamp(row.get('asked'))}"
    for hop in entries(reply, "hops"):
        by = f", from {words(hop.get('by'))}" if hop.get("why") != "asked" else ""
        why = f"{words(hop.get('why'))}{by}"
        yield f"waited for {words(hop.get('to'))} since {stamp(hop.get('at'))} ({why})"
    for field in ("severity", "task", "deadline", "climbs", "answered_by", "ended", "reason"):
        if row.get(field):
            timed = field in ("deadline", "climbs", "ended")
            text = stamp(row[field]) if timed else words(row[field])
            yield f"{field.replace('_', ' '):<10} {text}"
    for number, item in enumerate(entries(reply, "items"), 1):
        yield from _item(number, item)
    if reply.get("context"):
        yield "context"
        yield from _words_of_agents(reply["context"])
    if row.get("state") == "open":
        texts = " ".join("TEXT" for _ in entries(reply, "items"))
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
    return quote("\n".join(map(escape, str(text or "").split("\n"))))
