"""`hive survey` and `hive top`: all agents in one listing; `hive reap` clears zombies away."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import click

from hive_core.cli.core.output import (
    Column,
    Listing,
    Row,
    columns_of,
    moment,
    output_option,
    say,
    table,
)
from hive_core.cli.core.parameters import DURATION
from hive_core.cli.core.session import Session
from hive_core.cli.core.units import format_duration
from hive_core.cli.core.watch import redraw, watch_option


def seconds(value: object) -> str:
    """A duration for people; `-` where there is none."""
    return format_duration(value) if isinstance(value, int | float) else "-"


SURVEY: Final = Listing(
    "name",
    (Column("name"), Column("state"), Column("activity"), Column("tasks"),
     Column("quiet", "quiet for", seconds, priority=1),
     Column("unanswered", "unanswered for", seconds, priority=2),
     Column("orphan", priority=3), Column("ended_at", "zombie since", moment, priority=4)),
    "no agents",
)  # fmt: skip
# States in which an agent needs no attention.
_HEALTHY: Final = frozenset({"running", "sleeping", "stopped", "starting", "stopping", "deploying"})
# The order of `hive top`: what needs attention, then what works.
_RANKS: Final = ("running", "blocked", "idle")


def needs_attention(row: Row) -> bool:
    """Whether the operator may want to look at the agent."""
    marks = (row.get("ended_at") is not None, row.get("orphan"), row.get("unanswered"))
    return any(marks) or row.get("state") not in _HEALTHY


def _rank(row: Row) -> tuple[bool, int, str]:
    activity = row.get("activity")
    busy = _RANKS.index(str(activity)) if activity in _RANKS else len(_RANKS)
    return not needs_attention(row), busy, str(row.get("name"))


noted_option: Final = click.option(
    "--noted", is_flag=True,
    help="Only agents that need attention: zombies, orphans, failed, unanswered.",
)  # fmt: skip


@click.command
@noted_option
@watch_option
@output_option
@click.pass_obj
def survey(session: Session, style: str, *, noted: bool, watch: bool) -> None:
    """Show all agents: machines, tasks, and what waits for an answer.

    Zombies are agents that were made for one task, have ended, and whose parent has not asked how;
    they are removed after a while.
    """

    def rows() -> Iterator[Row]:
        agents = session.rows("survey", "agents")
        return (row for row in agents if not noted or needs_attention(row))

    if watch:
        redraw(lambda: table(list(rows()), SURVEY.columns, columns_of()))
    else:
        SURVEY.show(rows(), style)


@click.command
@noted_option
@output_option
@click.pass_obj
def top(session: Session, style: str, *, noted: bool) -> None:
    """Show the busiest agents first, again every 2 seconds on a terminal, until Ctrl-C."""

    def rows() -> list[Row]:
        agents = session.rows("survey", "agents")
        return sorted((row for row in agents if not noted or needs_attention(row)), key=_rank)

    if style == "table" and sys.stdout.isatty():
        redraw(lambda: table(rows(), SURVEY.columns, columns_of()))
    else:
        SURVEY.show(rows(), style)


@click.command
@click.option("--older", type=DURATION, default=0, help="Only zombies that ended so long ago.")
@click.pass_obj
def reap(session: Session, older: float) -> None:
    """Remove zombies now. How they ended can still be asked for."""
    while agents := session.change("reap_zombies", older=older).get("agents"):
        say(f"gone: {', '.join(map(str, agents))}" if isinstance(agents, list) else str(agents))
