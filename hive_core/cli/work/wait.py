"""`hive wait`: wait for a state of agents, for the end of a task or job, or for an event."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import click

from hive_core.agent.output import as_json
from hive_core.agent.reconnect import wire_name
from hive_core.cli.core.options import AGENT_STATES
from hive_core.cli.core.output import echo, words
from hive_core.cli.core.parameters import DURATION
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import WAIT, Session, complete_agent, entries, has_ended, session_of
from hive_core.errors import TimedOut, Unreachable
from hive_core.varlink import Client, Message


class Deadline:
    """The remaining time of `--timeout`."""

    def __init__(self, seconds: float | None, condition: str) -> None:
        self._ends = None if seconds is None else time.monotonic() + seconds
        self._condition = condition
        self._seconds = seconds
        self.instead = ""  # the present state, for the error

    def slice(self) -> float:
        """Seconds for the next call; raises TimedOut when none are left."""
        if self._ends is None:
            return float(WAIT)
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimedOut(f"timed out after {self._seconds:g}s: {self._condition}{self.instead}")
        return min(float(WAIT), left)


def _states(text: str) -> list[str]:
    states = text.removeprefix("state=").split(",")
    for state in states:
        if state not in AGENT_STATES:
            raise click.UsageError(
                f"{state!r} is not a state; --for takes {', '.join(AGENT_STATES)}, or one of"
                f" {', '.join(f'{kind}=' for kind in WAITS)}, event.KIND"
            )
    return states


def _job(session: Session, job: str, deadline: Deadline) -> None:
    while True:
        if has_ended(session.ask("wait_job", id=job, wait=deadline.slice())):
            return


def _agents(session: Session, names: list[str], states: list[str], deadline: Deadline) -> None:
    while True:
        reply = session.ask("wait_agents", agents=names, states=states, wait=deadline.slice())
        lines = [f"{words(row.get('name'))} {words(row.get('state'))}"
                 for row in entries(reply, "agents")]  # fmt: skip
        if reply.get("done"):
            for line in lines:
                echo(line)
            return
        deadline.instead = f"; now {', '.join(lines)}" if lines else ""


def _task(session: Session, id_: str, deadline: Deadline) -> None:
    while True:
        reply = session.ask("wait_tasks", tasks=[id_], wait=deadline.slice())
        if reply.get("done"):
            (row,) = entries(reply, "tasks")
            end = {**row, "summary": row.get("summary") or _data(session, id_)}
            echo(" ".join(words(end.get(key)) for key in ("task", "status", "summary")))
            return


def _data(session: Session, id_: str) -> object:
    """The data of a result without a summary."""
    row = session.ask("get_task", task=id_).get("task")
    result = row.get("result") if isinstance(row, dict) else None
    return result.get("data") if isinstance(result, dict) else None


def _question(session: Session, id_: str, deadline: Deadline) -> None:
    while True:
        reply = session.ask("get_question", question=id_, wait=deadline.slice())
        row = reply.get("question")
        if isinstance(row, dict) and row.get("state") != "open":
            answers = [words(item.get("answer")) for item in entries(reply, "items")]
            echo(" ".join([words(row.get("id")), words(row.get("state")), *answers]))
            return


def _agent(session: Session, text: str, deadline: Deadline) -> None:
    name, colon, states = text.partition(":")
    if not colon:
        raise click.UsageError("say agent.state=NAME:STATE")
    _agents(session, [name], _states(states), deadline)


def _event(session: Session, kind: str, deadline: Deadline) -> None:
    """The next event of a kind; earlier events do not count."""
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
    """The next page of events of a kind; a restarted daemon has all of them."""
    while True:
        left = deadline.slice()
        try:
            with Client(session.socket, wait=left) as client:
                return next(
                    client.stream(wire_name("list_events"), {"after": after, "kinds": [kind]})
                )
        except TimedOut:
            continue  # this slice is over, not the whole time
        except Unreachable:
            session.ask("status")  # waits until the daemon is back, at most as long as usual


WAITS: Final[Mapping[str, Callable[[Session, str, Deadline], None]]] = {
    "job": _job, "task.done": _task, "question.answered": _question, "agent.state": _agent,
}  # fmt: skip


def _complete_condition(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[str]:  # fmt: skip
    """Complete with states, kinds of conditions, and IDs of what is open."""
    kind, equals, _ = incomplete.partition("=")
    if not equals:
        words_ = (*AGENT_STATES, *(f"{kind}=" for kind in WAITS), "event.")
        return [word for word in words_ if word.startswith(incomplete)]
    listing = _CONDITION_IDS.get(kind)
    ids = session_of(ctx).values(*listing) if listing else []
    return [f"{kind}={id_}" for id_ in ids if f"{kind}={id_}".startswith(incomplete)]


_CONDITION_IDS: Final = {
    "job": ("list_jobs", "jobs", "id"), "task.done": ("list_tasks", "tasks", "id"),
    "question.answered": ("list_questions", "questions", "id"),
    "agent.state": ("list_agents", "agents", "name"),
}  # fmt: skip


@click.command
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_agent)
@click.option(
    "--for",
    "wanted",
    required=True,
    metavar="CONDITION",
    shell_complete=_complete_condition,
    help="STATE[,STATE] of each NAME; or job=ID, task.done=ID, question.answered=ID,"
    " agent.state=NAME:STATE, event.KIND.",
)
@click.option(
    "--timeout", type=DURATION, help="Time after which the command gives up with exit status 124."
)
@click.pass_obj
def wait(session: Session, names: tuple[str, ...], wanted: str, timeout: float | None) -> None:
    """Wait for a state of each NAME, for the end of a job, task or question, or for an event.

    Example: hive wait alice bob --for running --timeout 10. For an event, earlier events do not
    count. The command prints the states, the result of the task or question, or the event as JSON.
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
