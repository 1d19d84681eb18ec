"""`hive phase`: the phase of the queen and her colony."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from hive_core.cli.core.lazy import Group
from hive_core.cli.core.output import Row, one, output_option, say, stamp, words
from hive_core.cli.core.session import Session, complete_agent, entries

_PROFILE: Final = ("goal", "criteria", "constraints", "tools", "status")
_queen_option: Final = click.option(
    "--queen", metavar="NAME", shell_complete=complete_agent,
    help="The queen.  [default: the queen of this host]",
)  # fmt: skip


@click.group(cls=Group)
def phase() -> None:
    """Show and change the phase of the queen: open, run, stop and close a colony."""


@phase.command
@_queen_option
@output_option
@click.pass_obj
def show(session: Session, queen: str | None, style: str) -> None:
    """Show the phase of the queen, her colony, and where the phase leads."""
    view = session.ask("get_phase", agent=queen)
    one(view, style, "phase", lambda: _page(view))


def _page(view: Row) -> Iterator[str]:
    yield f"queen        {words(view.get('agent'))}"
    yield f"phase        {words(view.get('phase'))}"
    if view.get("since"):
        yield f"since        {stamp(view.get('since'))}"
    colony = view.get("colony")
    if isinstance(colony, dict):
        yield f"colony       {words(colony.get('name'))}"
        yield from (f"{key:<12} {words(colony.get(key))}" for key in _PROFILE)
    if view.get("work"):
        yield f"open work    {words(view.get('work'))}"
    if view.get("persona"):
        yield f"persona      {words(view.get('persona'))}"
    yield f"queen tools  {words(view.get('tools'))}"
    for move in entries(view, "moves"):
        by = f"{words(move.get('by'))} ({words(move.get('causes'))})"
        yield f"leads to     {words(move.get('to'))}: {by}"


@phase.command("open")
@click.argument("colony", shell_complete=complete_agent)
@_queen_option
@click.option("--goal", default="", metavar="TEXT", help="What the colony is for.")
@click.option("--criteria", default="", metavar="TEXT", help="How one can tell that it is reached.")
@click.option("--constraints", default="", metavar="TEXT", help="What the colony must not do.")
@click.pass_obj
def open_(session: Session, /, colony: str, queen: str | None, **texts: str) -> None:
    """Open the agent COLONY as the colony of the queen; she then prepares its work."""
    reply = session.change("open_colony", agent=queen, colony=colony, **texts)
    say(f"{words(reply.get('agent'))} is in the phase {words(reply.get('phase'))}")


@phase.command
@_queen_option
@click.pass_obj
def close(session: Session, queen: str | None) -> None:
    """Stop the work of the queen's colony, and close it."""
    reply = session.change("close_colony", agent=queen)
    say(f"{words(reply.get('agent'))} is in the phase {words(reply.get('phase'))}")


@phase.command
@click.argument("task")
@_queen_option
@click.pass_obj
def run(session: Session, task: str, queen: str | None) -> None:
    """Have the worker of the colony do TASK, a text that is complete in itself."""
    reply = session.change("run_agent_with_input", agent=queen, task=task)
    warnings = reply.get("warnings")
    for warning in warnings if isinstance(warnings, list) else []:
        say(f"warning: {warning}")
    say(f"{words(reply.get('worker'))} has the task {words(reply.get('task'))}")


@phase.command
@_queen_option
@click.option("--reason", default="", metavar="TEXT", help="Reason, recorded in the results.")
@click.pass_obj
def stop(session: Session, queen: str | None, reason: str) -> None:
    """Stop the run of the colony: its tasks, batches and triggers."""
    reply = session.change("stop_worker", agent=queen, reason=reason)
    say(f"stopped: {words(reply.get('tasks')) or 'no task'}")


@phase.command
@click.argument("text", required=False, default="")
@_queen_option
@click.option("--reason", default="", metavar="TEXT", help="Reason, recorded in the audit log.")
@click.pass_obj
def persona(session: Session, text: str, queen: str | None, reason: str) -> None:
    """Set how the queen presents herself to people; without TEXT she has no persona.

    It takes effect with her next conversation or phase, and adds no right.
    """
    reply = session.change("set_persona", agent=queen, persona=text, reason=reason)
    say(f"persona of {words(reply.get('agent'))}: {'set' if text else 'none'}")
