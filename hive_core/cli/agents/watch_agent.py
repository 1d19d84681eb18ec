"""`hive watch AGENT`: its turns, mail, tools and steps as they come, over restarts of hived."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Final

import click

from hive_core.agent.output import as_json
from hive_core.agent.reconnect import wire_name
from hive_core.cli.core.output import Row, block, colour, echo, moment, words
from hive_core.cli.core.session import Session, complete_agent, entries
from hive_core.cli.work.live_text import LiveLines
from hive_core.errors import HiveError, Internal, NotFound, TimedOut, Unreachable
from hive_core.varlink import Client, Message

_PAUSES: Final = (0.2, 0.5, 1.0, 2.0)
_BODY: Final = 500
_PASSING: Final = (Unreachable, TimedOut)
# Events of these operations are frequent and say nothing about work.
_ROUTINE: Final = frozenset({"ack", "hello", "stream_turn"})
_Lines = queue.SimpleQueue[Row | HiveError]


@click.command
@click.argument("name", metavar="AGENT", shell_complete=complete_agent)
@click.option("--logs", "with_logs", is_flag=True, help="Lines of its log as well.")
@click.option(
    "-o", "--output", "style", type=click.Choice(["table", "jsonl"]), default="table",
    show_default=True, help="Lines for people, or a JSON object in each line.",
)  # fmt: skip
@click.pass_obj
def watch(session: Session, name: str, style: str, *, with_logs: bool) -> None:
    """Show what AGENT does, as it comes: the text of its turns, its mail, tools, tasks and steps.

    It begins with what happens from now on and ends with Ctrl-C, or when the agent is destroyed.
    After a restart of hived it continues where it was. With `-o jsonl`, `stream` of each line is
    `event`, `turn`, `mail` or `log`. Text of agents is printed with control characters spelled out.
    """
    session.ask("get_agent", agent=name)  # an unknown name is an error at once
    print_agent(session, name, style, with_logs=with_logs)


def print_agent(session: Session, name: str, style: str, *, with_logs: bool) -> None:
    """Print the lines of an agent until Ctrl-C."""
    for row in follow_agent(session, name, with_logs=with_logs):
        echo(as_json(row) if style == "jsonl" else watch_line(row))


def follow_agent(session: Session, name: str, *, with_logs: bool) -> Iterator[Row]:
    """What happens to an agent, of several streams in the order in which it comes."""
    lines = _Lines()
    readers: list[Callable[[], Iterator[Row]]] = [
        lambda: _events(session.socket, name), lambda: _turns(session.socket, name),
        lambda: _mail(session.socket, name),
    ]  # fmt: skip
    if with_logs:
        readers.append(lambda: _logs(session.socket, name))
    for reader in readers:
        threading.Thread(target=_put_all, args=(reader, lines), daemon=True).start()
    while True:
        row = lines.get()
        if isinstance(row, HiveError):
            raise row
        yield row


def _put_all(reader: Callable[[], Iterator[Row]], lines: _Lines) -> None:
    try:
        for row in reader():
            lines.put(row)
    except HiveError as error:
        lines.put(error)
    except Exception as error:  # noqa: BLE001 - a thread: the command has to end with the reason
        lines.put(Internal(str(error)))


def _pages(socket: str, operation: str, params: Mapping[str, object]) -> Iterator[Message]:
    """The pages of a stream; after a break it continues behind the last one."""
    asked, failures = dict(params), 0
    while True:
        try:
            with Client(socket, wait=None) as client:
                for page in client.stream(wire_name(operation), asked):
                    failures = 0
                    if after := page.get("next"):
                        asked["after"] = after
                        asked.pop("last", None)
                    yield page
        except _PASSING:
            pass  # the daemon restarts
        time.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
        failures += 1


def _events(socket: str, name: str) -> Iterator[Row]:
    with closing(Session(socket)) as session:
        uuid = str(session.ask("get_agent", agent=name).get("uuid"))
    # By UUID: the events of its end come though the name is free again.
    for page in _pages(socket, "list_events", {"agents": [uuid], "last": 0}):
        for row in entries(page, "events"):
            if row.get("operation") in _ROUTINE and row.get("allowed") is not False:
                continue
            yield {"stream": "event", **row}
            if row.get("operation") == "destroy" and row.get("target_uuid") == uuid:
                raise NotFound(f"{name} was destroyed")


def _turns(socket: str, name: str) -> Iterator[Row]:
    live = LiveLines()
    for page in _pages(socket, "watch_turn", {"agent": name}):
        for part in entries(page, "parts"):
            for line in live.lines(part):
                yield {"stream": "turn", "time": time.time(), "turn": part.get("turn"),
                       "conversation": part.get("conversation"), "text": line}  # fmt: skip


def _mail(socket: str, name: str) -> Iterator[Row]:
    """Letters that arrive from now on."""
    newest: object = None
    with closing(Session(socket)) as session:
        for row in session.rows("list_messages", "messages", agent=name):
            newest = row.get("id")
    params = {"agent": name, "after": newest} if newest else {"agent": name}
    for page in _pages(socket, "list_messages", params):
        for row in entries(page, "messages"):
            yield {"stream": "mail", "time": row.get("sent_at"), **row}


def _logs(socket: str, name: str) -> Iterator[Row]:
    for page in _pages(socket, "get_logs", {"agent": name, "lines": 0}):
        for row in entries(page, "lines"):
            yield {"stream": "log", **row}


def watch_line(row: Row) -> str:
    """One line for people."""
    return f"{moment(row.get('time'))} {_WRITERS[str(row.get('stream'))](row)}"


def _event_line(row: Row) -> str:
    call = " ".join(
        words(row.get(key)) for key in ("caller", "operation", "target") if row.get(key)
    )
    fields = row.get("fields")
    about = _about(fields if isinstance(fields, dict) else {})
    refused = f" {colour('refused')}" if row.get("allowed") is False else ""
    reason = f": {words(row.get('reason'))}" if row.get("reason") else ""
    return f"{words(row.get('kind'))} {call}{about}{refused}{reason}"


def _about(fields: Mapping[str, object]) -> str:
    """The fields about work, in a fixed order."""
    shown = [
        f"{key}={words(fields[key])}"
        for key in ("task", "state", "percent", "tool", "argument", "plan", "step", "status",
                    "model", "tokens_in", "tokens_out", "text")
        if fields.get(key) not in (None, "")
    ]  # fmt: skip
    return f" ({', '.join(shown)})" if shown else ""


def _mail_line(row: Row) -> str:
    return f"mail from {words(row.get('from'))}: {block(str(row.get('body'))[:_BODY])}"


_WRITERS: Final[Mapping[str, Callable[[Row], str]]] = {
    "event": _event_line,
    "turn": lambda row: f"turn {words(row.get('turn'))} | {words(row.get('text'))}",
    "mail": _mail_line,
    "log": lambda row: f"log {words(row.get('unit'))}: {words(row.get('text'))}",
}
