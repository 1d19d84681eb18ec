"""`hive survey`: how everybody is, in one listing; `hive reap` clears away who ended."""

from __future__ import annotations

from typing import Final

import click

from hive_core.cli.core.output import Column, Listing, Row, moment, output_option, say
from hive_core.cli.core.session import Session


def seconds(value: object) -> str:
    """For people: `12 s`, and nothing where there is none."""
    return f"{value:.0f} s" if isinstance(value, int | float) else "-"


SURVEY: Final = Listing(
    "name",
    (Column("name"), Column("state"), Column("activity"), Column("tasks"),
     Column("quiet", "quiet for", seconds), Column("unanswered", "unanswered for", seconds),
     Column("orphan"), Column("ended_at", "zombie since", moment)),
    "no agents",
)  # fmt: skip
# Nothing is to be done about those who are so.
_WELL: Final = frozenset({"running", "sleeping", "stopped", "starting", "stopping", "deploying"})


def is_noted(row: Row) -> bool:
    """Whether somebody may want to look at it."""
    marks = (row.get("ended_at") is not None, row.get("orphan"), row.get("unanswered"))
    return any(marks) or row.get("state") not in _WELL


@click.command
@click.option(
    "--noted",
    is_flag=True,
    help="Only agents that need somebody: zombies, orphans, failed, unanswered.",
)
@output_option
@click.pass_obj
def survey(session: Session, style: str, *, noted: bool) -> None:
    """Tell how everybody is: machines, tasks, and what waits for whom.

    Zombies are agents that were there for one task, have ended, and were not asked how; they go by
    themselves after a while.
    """
    rows = session.rows("survey", "agents")
    SURVEY.show((row for row in rows if not noted or is_noted(row)), style)


@click.command
@click.option("--older", type=click.FloatRange(0), default=0, show_default=True,
              help="Only those that ended at least so many seconds ago.")  # fmt: skip
@click.pass_obj
def reap(session: Session, older: float) -> None:
    """Clear away zombies now. How they ended can still be asked for."""
    while gone := session.change("reap_zombies", older=older).get("agents"):
        say(f"gone: {', '.join(map(str, gone))}" if isinstance(gone, list) else str(gone))
