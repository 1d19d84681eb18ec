"""What every command has: the connection to the daemon, and how a call is made and waited for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

import click

from hive_core.agent.reconnect import Link, camel
from hive_core.cli.core.output import say
from hive_core.cli.core.progress import working
from hive_core.errors import HIVE, HiveError, Internal, from_wire
from hive_core.varlink import Client, Message

WAIT: Final = 50  # seconds; the daemon allows no more
SILENT: Final = "no answer from hived yet; `hive doctor` tells how it is"
_QUICK: Final = 2.0  # for what only makes the command line nicer
_SILENCE: Final = 1.0  # seconds after which somebody at a terminal is told that they wait


class Session:
    """One run of `hive`."""

    def __init__(self, socket: str) -> None:
        self.socket = socket

        self.link = Link(socket)

    def close(self) -> None:
        self.link.close()

    def ask(self, operation: str, /, **params: object) -> Message:
        with self._patient(params):
            return self.link.ask(operation, **params)

    def change(self, operation: str, /, **params: object) -> Message:
        with self._patient(params):
            return self.link.change(operation, **params)

    @staticmethod
    def _patient(params: Mapping[str, object]) -> contextlib.AbstractContextManager[None]:
        """Says that hived is silent; whoever asks it to wait has words of its own for that."""
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
        """A stream: what there is, then what comes."""
        given = {key: value for key, value in params.items() if value is not None}
        for reply in self.link.stream(camel(operation), given):
            yield from entries(reply, field)

    def finish(self, reply: Message, doing: str, *, wait: bool = True) -> Message:
        """Wait for the job in a reply, telling on a terminal that we do; its failure is raised."""
        job = reply.get("job")
        if not wait or not job:
            return reply
        try:
            with working(doing):
                self._await_job(str(job))
        except KeyboardInterrupt:
            say(f"this goes on: `hive wait --for job={job}`")
            raise
        return reply

    def _await_job(self, job: str) -> None:
        while True:
            found = self.ask("wait_job", id=job, wait=WAIT)
            if ended(found):
                return

    def names(self) -> list[str]:
        """Agent names for suggestions and completion: quickly or not at all."""
        with contextlib.suppress(HiveError), Client(self.socket, wait=_QUICK) as client:
            found = client.call(camel("list_agents"))
            return [str(row["name"]) for row in entries(found, "agents")]
        return []


def ended(job: Message) -> bool:
    """Whether a job is done; its failure is raised as the error that it names."""
    if job.get("state") == "failed":
        kind, colon, reason = str(job.get("error")).partition(": ")
        raise from_wire(HIVE + kind, {"reason": reason}) if colon else Internal(kind)
    return job.get("state") != "running"


def entries(reply: Message, field: str) -> list[Message]:
    """The list of objects under `field`."""
    found = reply.get(field)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def complete_agent(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names for the shell's completion."""
    socket = ctx.find_root().params.get("socket")
    return [name for name in Session(str(socket)).names() if name.startswith(incomplete)]
