"""`hive survey`: all agents in one listing; `hive reap` removes zombies."""

from __future__ import annotations

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


def needs_attention(row: Row) -> bool:
    """Whether the agent needs the operator's attention."""
    marks = (row.get("ended_at") is not None, row.get("orphan"), row.get("unanswered"))
    return any(marks) or row.get("state") not in _HEALTHY


noted_option: Final = click.option(
    "--noted", is_flag=True,
    help="Only agents that need attention: zombies, orphans, failed agents, unanswered questions.",
)  # fmt: skip


@click.command
@noted_option
@watch_option
@output_option
@click.pass_obj
def survey(session: Session, style: str, *, noted: bool, watch: bool) -> None:
    """Show all agents with their machines, tasks and unanswered questions.

    Zombies are one-shot agents that have ended and whose parent has not called wait_child yet; the
    daemon removes them after a while.
    """

    def rows() -> Iterator[Row]:
        agents = session.rows("survey", "agents")
        return (row for row in agents if not noted or needs_attention(row))

    if watch:
        redraw(lambda: table(list(rows()), SURVEY.columns, columns_of()))
    else:
        SURVEY.show(rows(), style)


@click.command
@click.option(
    "--older", type=DURATION, default=0, help="Only zombies that ended at least this long ago."
)
@click.pass_obj
def reap(session: Session, older: float) -> None:
    """Remove zombies now. Their parents can still read how they ended."""
    while agents := session.change("reap_zombies", older=older).get("agents"):
        say(f"removed: {', '.join(map(str, agents))}" if isinstance(agents, list) else str(agents))
