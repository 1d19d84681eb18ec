"""`hive wait`: until agents are in a state, something has ended, or something happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import click

from hive_core.agent.output import as_json
from hive_core.agent.reconnect import camel
from hive_core.cli.core.output import echo, words
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import WAIT, Session, complete_agent, ended, entries
from hive_core.errors import TimedOut, Unreachable
from hive_core.varlink import Client, Message

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
        self.instead = ""  # how it is when there is no patience left

    def slice(self) -> float:
        """Seconds of the next call; raises TimedOut when none are left."""
        if self._ends is None:
            return float(WAIT)
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimedOut(f"not within {self._seconds:g} s: {self._what}{self.instead}")
        return min(float(WAIT), left)


def _states(text: str) -> list[str]:
    states = text.removeprefix("state=").split(",")
    for state in states:
        if state not in STATES:
            raise click.UsageError(
                f"{state!r} is no state; --for takes {', '.join(STATES)}, or one of"
                f" {', '.join(f'{each}=' for each in WAITS)}, event.KIND"
            )
    return states


def _job(session: Session, job: str, deadline: Deadline) -> None:
    while True:
        if ended(session.ask("wait_job", id=job, wait=deadline.slice())):
            return


def _agents(session: Session, names: list[str], states: list[str], deadline: Deadline) -> None:
    while True:
        found = session.ask("wait_agents", agents=names, states=states, wait=deadline.slice())
        are = [f"{words(row.get('name'))} {words(row.get('state'))}"
               for row in entries(found, "agents")]  # fmt: skip
        if found.get("done"):
            for each in are:
                echo(each)
            return
        deadline.instead = f"; now {', '.join(are)}" if are else ""


def _task(session: Session, id_: str, deadline: Deadline) -> None:
    while True:
        found = session.ask("wait_tasks", tasks=[id_], wait=deadline.slice())
        if found.get("done"):
            (row,) = entries(found, "tasks")
            told = {**row, "summary": row.get("summary") or _data(session, id_)}
            echo(" ".join(words(told.get(key)) for key in ("task", "status", "summary")))
            return


def _data(session: Session, id_: str) -> object:
    """What a program gave as its result that says nothing in words."""
    row = session.ask("get_task", task=id_).get("task")
    result = row.get("result") if isinstance(row, dict) else None
    return result.get("data") if isinstance(result, dict) else None


def _question(session: Session, id_: str, deadline: Deadline) -> None:
    while True:
        found = session.ask("get_question", question=id_, wait=deadline.slice())
        row = found.get("question")
        if isinstance(row, dict) and row.get("state") != "open":
            given = [words(item.get("answer")) for item in entries(found, "items")]
            echo(" ".join([words(row.get("id")), words(row.get("state")), *given]))
            return


def _agent(session: Session, text: str, deadline: Deadline) -> None:
    name, colon, states = text.partition(":")
    if not colon:
        raise click.UsageError("say agent.state=NAME:STATE")
    _agents(session, [name], _states(states), deadline)


def _event(session: Session, kind: str, deadline: Deadline) -> None:
    """The next one of a kind; those before are over."""
    newest = entries(session.ask("list_events", last=1), "events")
    after = str(newest[-1].get("seq")) if newest else "0"
    while True:
        page = _coming(session, after, kind, deadline)
        for row in entries(page, "events"):
            if row.get("kind") == kind:
                echo(as_json(row))
                return
        after = str(page.get("next") or after)


def _coming(session: Session, after: str, kind: str, deadline: Deadline) -> Message:
    """The next page of events of a kind; a daemon that was started anew has forgotten none."""
    while True:
        left = deadline.slice()
        try:
            with Client(session.socket, wait=left) as client:
                return next(client.stream(camel("list_events"), {"after": after, "kinds": [kind]}))
        except TimedOut:
            continue  # the slice is over; of the whole time `deadline` knows
        except Unreachable:
            session.ask("status")  # waits until the daemon is back, and no longer than usual


WAITS: Final[Mapping[str, Callable[[Session, str, Deadline], None]]] = {
    "job": _job, "task.done": _task, "question.answered": _question, "agent.state": _agent,
}  # fmt: skip


@click.command
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_agent)
@click.option(
    "--for",
    "wanted",
    required=True,
    metavar="WHAT",
    help="STATE[,STATE] of each NAME; or job=ID, task.done=ID, question.answered=ID,"
    " agent.state=NAME:STATE, event.KIND.",
)
@click.option("--timeout", type=click.FloatRange(0), help="Seconds; then the exit status is 124.")
@click.pass_obj
def wait(session: Session, names: tuple[str, ...], wanted: str, timeout: float | None) -> None:
    """Wait until each NAME is in a state, a job or a task has ended, a question has, or an event is
    there.

    For instance: hive wait alice bob --for running --timeout 10. An event is the next one of that
    kind, from now on. Printed is what came: the states, how the task or the question ended, or the
    event as JSON.
    """
    deadline = Deadline(timeout, f"{' '.join(names)} {wanted}".strip())
    kind, colon, text = wanted.partition("=")
    with working(f"waiting for {' '.join([*names, wanted])}"):
        if kind.startswith("event.") and not colon:
            _event(session, kind.removeprefix("event."), deadline)
        elif colon and kind in WAITS:
            WAITS[kind](session, text, deadline)
        else:
            states = _states(wanted)
            if not names:
                raise click.UsageError("name the agents to wait for")
            _agents(session, list(names), states, deadline)
