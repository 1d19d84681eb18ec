"""`hive session`: what the session of an agent did, and back to an earlier turn.

The log of a session is root's, in the container of the agent. So root enters the container, as with
`hive shell`, and `hive-agent session` does the work there.
"""

from __future__ import annotations

import shlex

import click

from hive_core.cli.agents import enter
from hive_core.cli.core.lazy import Group
from hive_core.cli.core.session import Session, complete_agent
from hive_core.errors import NotFound

_conversation = click.option(
    "--conversation", metavar="NAME", default="main",
    help="Name of the conversation: main, or task-ID for a task. Default main.",
)  # fmt: skip


@click.group("session", cls=Group)
def session_group() -> None:
    """Show what the session of an agent did, and go back to an earlier turn."""


@session_group.command("log")
@click.argument("name", shell_complete=complete_agent)
@_conversation
@click.option("--turn", type=int, help="Only the records of this turn.")
@click.option(
    "-o",
    "--output",
    "style",
    type=click.Choice(["text", "jsonl"]),
    default="text",
    help="`text`, the default, has a line for each record; `jsonl` has the whole records.",
)
@click.option("--json", "style", flag_value="jsonl", hidden=True)  # its name until 0.1
@click.pass_obj
def print_log(session: Session, name: str, conversation: str, turn: int | None, style: str) -> int:
    """List the records of a conversation of NAME, one a line.

    Only root may do this, and NAME must be running.
    """
    return _run(session, name, "log", ["--conversation", conversation, "-o", style], turn)


@session_group.command("show")
@click.argument("name", shell_complete=complete_agent)
@_conversation
@click.option("--turn", type=int, help="Only this turn.")
@click.pass_obj
def show_turns(session: Session, name: str, conversation: str, turn: int | None) -> int:
    """Show what a model of NAME read, said and called.

    Only root may do this, and NAME must be running.
    """
    return _run(session, name, "show", ["--conversation", conversation], turn)


@session_group.command("rewind")
@click.argument("name", shell_complete=complete_agent)
@_conversation
@click.option(
    "--turn",
    type=int,
    required=True,
    help="Number of the turn after which the conversation continues; 0: from its beginning.",
)
@click.pass_obj
def rewind(session: Session, name: str, conversation: str, turn: int) -> int:
    """Continue a conversation of NAME from the end of an earlier turn.

    The log keeps the later turns, but the model no longer sees them. Their effects stay. A turn
    that waits, after failures of its model or for a budget, is given up with the others. The
    command is refused while a turn runs, and while one works on a task, even if it waits. Only root
    may do this, and NAME must be running.
    """
    return _run(session, name, "rewind", ["--conversation", conversation], turn)


def _run(session: Session, name: str, verb: str, words: list[str], turn: int | None) -> int:
    _check_session(session, name)
    place = enter.locate(session, name, "read the session of")
    turns = [] if turn is None else ["--turn", str(turn)]
    return enter.run_without_input(place, ["hive-agent", "session", verb, *words, *turns])


def _check_session(session: Session, name: str) -> None:
    """Refuse an agent that runs a program of its own, and no session."""
    row = session.ask("get_agent", agent=name)
    command = row.get("command")
    program = [str(word) for word in command] if isinstance(command, list) else []
    if row.get("runtime") or any("hive-agent" in word for word in program):
        return
    runs = f"its command is {shlex.join(program)}" if program else "it has no command"
    raise NotFound(
        f"cannot read the session of {name}: it has no session, because it has no runtime; {runs}."
        f" `hive logs {name}` shows what it printed"
    )
