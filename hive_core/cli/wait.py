"""`hive wait`: until agents are in a state, a job has ended, or there is nothing left to do."""

from __future__ import annotations

import time
from typing import Final

import click

from hive_core.cli.output import echo, words
from hive_core.cli.progress import working
from hive_core.cli.session import WAIT, Session, complete_agent, ended, entries
from hive_core.errors import TimedOut

STATES: Final = (
    "absent", "starting", "running", "degraded", "stopping", "stopped", "sleeping", "failed",
    "parked", "deploying",
)  # fmt: skip


class Deadline:
    """How much of the patience is left."""

    def __init__(self, seconds: float | None, what: str) -> None:
        self._ends = None if seconds is None else time.monotonic() + seconds
        self._what = what
        self._seconds = seconds

    def slice(self) -> float:
        """Seconds of the next call; raises TimedOut when none are left."""
        if self._ends is None:
            return float(WAIT)
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimedOut(f"not within {self._seconds:g} s: {self._what}")
        return min(float(WAIT), left)


def _states(text: str) -> list[str]:
    states = text.removeprefix("state=").split(",")
    for state in states:
        if state not in STATES:
            raise click.UsageError(
                f"{state!r} is no state; --for takes {', '.join(STATES)}, or job=ID"
            )
    return states


def _job(session: Session, job: str, deadline: Deadline) -> None:
    while True:
        if ended(session.ask("wait_job", id=job, wait=deadline.slice())):
            return


def _agents(session: Session, names: list[str], states: list[str], deadline: Deadline) -> None:
    while True:
        found = session.ask("wait_agents", agents=names, states=states, wait=deadline.slice())
        if found.get("done"):
            for row in entries(found, "agents"):
                echo(f"{words(row.get('name'))} {words(row.get('state'))}")
            return


@click.command
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_agent)
@click.option(
    "--for",
    "wanted",
    required=True,
    metavar="STATE[,STATE]|job=ID",
    help="What to wait for: each NAME in one of these states, or the end of a job.",
)
@click.option("--timeout", type=click.FloatRange(0), help="Seconds; then the exit status is 124.")
@click.pass_obj
def wait(session: Session, names: tuple[str, ...], wanted: str, timeout: float | None) -> None:
    """Wait until each NAME is in a state, or a job has ended.

    For instance: hive wait alice bob --for running --timeout 10.
    """
    deadline = Deadline(timeout, f"{' '.join(names)} {wanted}".strip())
    if wanted.startswith("job="):
        with working(f"waiting for {wanted}"):
            _job(session, wanted.removeprefix("job="), deadline)
        return
    states = _states(wanted)
    if not names:
        raise click.UsageError("name the agents to wait for")
    with working(f"waiting for {', '.join(names)} to be {' or '.join(states)}"):
        _agents(session, list(names), states, deadline)
