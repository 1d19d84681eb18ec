"""The session of a command: the connection to the daemon, calls, jobs, and completion of names."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import click

from hive_core.agent.reconnect import Link, wire_name
from hive_core.cli.core import row_words
from hive_core.cli.core.output import say
from hive_core.cli.core.progress import working
from hive_core.errors import HIVE, HiveError, Internal, from_wire
from hive_core.varlink import Client, Message

entries = row_words.entries
WAIT: Final = 50  # seconds; the daemon allows no more
SILENT: Final = "no answer from hived yet; `hive doctor` checks it"
_QUICK: Final = 2.0  # for completion and suggestions
_SILENCE: Final = 1.0  # seconds after which a terminal shows that the command waits


class Session:
    """One run of `hive`."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self.link = Link(socket)

    def close(self) -> None:
        self.link.close()

    def ask(self, operation: str, /, **params: object) -> Message:
        with self._while_silent(params):
            return self.link.ask(operation, **params)

    def change(self, operation: str, /, **params: object) -> Message:
        with self._while_silent(params):
            return self.link.change(operation, **params)

    @staticmethod
    def _while_silent(params: Mapping[str, object]) -> contextlib.AbstractContextManager[None]:
        """Show that hived does not answer; a command that waits on purpose shows its own text."""
        return contextlib.nullcontext() if "wait" in params else working(SILENT, after=_SILENCE)

    def rows(self, operation: str, field: str, /, **params: object) -> Iterator[Message]:
        """All pages of a listing."""
        after: object = params.pop("after", None)
        while True:
            reply = self.ask(operation, after=after, **params)
            yield from entries(reply, field)
            after = reply.get("next")
            if not after:
                return

    def follow(self, operation: str, field: str, /, **params: object) -> Iterator[Message]:
        """A stream: the existing entries, then new ones."""
        wanted = {key: value for key, value in params.items() if value is not None}
        for reply in self.link.stream(wire_name(operation), wanted):
            yield from entries(reply, field)

    def finish(self, reply: Message, doing: str, *, wait: bool = True) -> Message:
        """Wait for the job of a reply, and show that on a terminal; raise its failure."""
        job = reply.get("job")
        if not wait or not job:
            return reply
        try:
            with working(doing):
                self._await_job(str(job))
        except KeyboardInterrupt:
            say(f"the job continues; wait for it with `hive wait --for job={job}`")
            raise
        return reply

    def _await_job(self, job: str) -> None:
        while True:
            if has_ended(self.ask("wait_job", id=job, wait=WAIT)):
                return

    def names(self) -> list[str]:
        """Agent names for suggestions and completion; empty when the daemon is slow."""
        return self.values("list_agents", "agents", "name")

    def values(self, operation: str, field: str, key: str, /, **params: object) -> list[str]:
        """One field of the first page of a listing; empty when the daemon is slow."""
        with contextlib.suppress(HiveError), Client(self.socket, wait=_QUICK) as client:
            reply = client.call(wire_name(operation), params)
            return [str(row[key]) for row in entries(reply, field)]
        return []


def has_ended(job: Message) -> bool:
    """Whether a job is done; raise its failure as the error that it names."""
    if job.get("state") == "failed":
        kind, colon, reason = str(job.get("error")).partition(": ")
        raise from_wire(HIVE + kind, {"reason": reason}) if colon else Internal(kind)
    return job.get("state") != "running"


Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def session_of(ctx: click.Context) -> Session:
    """A session for the completion of a shell, which does not run a command."""
    return Session(str(ctx.find_root().params.get("socket")))


def complete(operation: str, field: str, key: str, /, **params: object) -> Completer:
    """Complete with one field of what an operation lists."""

    def completer(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        values = session_of(ctx).values(operation, field, key, **params)
        return [value for value in dict.fromkeys(values) if value.startswith(incomplete)]

    return completer


complete_agent: Final = complete("list_agents", "agents", "name")
complete_task: Final = complete("list_tasks", "tasks", "id", open=True)
complete_question: Final = complete("list_questions", "questions", "id", open=True)
complete_approval: Final = complete("list_approvals", "approvals", "id")
complete_trigger: Final = complete("list_triggers", "triggers", "id")
complete_artifact: Final = complete("list_artifacts", "artifacts", "id")
complete_queue: Final = complete("list_queues", "queues", "queue")
complete_reminder: Final = complete("list_reminders", "reminders", "id")
complete_archive: Final = complete("list_archives", "archives", "name")
complete_definition: Final = complete("list_definitions", "definitions", "name")
complete_message: Final = complete("list_messages", "messages", "id")


def complete_plan(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete with the plans that wait for a decision."""
    session, state = session_of(ctx), "awaiting_plan_approval"
    tasks = session.values("list_tasks", "tasks", "id", state=state, open=True)
    newest = (session.values("list_plans", "plans", "plan", task=task)[:1] for task in tasks[:20])
    return [plan for plans in newest for plan in plans if plan.startswith(incomplete)]


def complete_words(*words: str) -> Completer:
    """Complete with fixed words."""

    def completer(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return completer
