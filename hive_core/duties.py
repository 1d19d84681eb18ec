"""What hived does beside the two roads, put together: what is due, what is told to others.

Whatever a noun needs while the daemon runs (a timer, a listener, a file) is begun here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from hive_core.broker.due import DUES
from hive_core.host.ending import fatal
from hive_core.reconcile.agenda import Agenda
from hive_core.reconcile.given import Broker, Ports
from hive_core.reconcile.look import Look


@dataclass
class Duties:
    """Tasks that are begun here end with the daemon; if one ends otherwise, so does the daemon."""

    ports: Ports
    given: Broker
    look: Look
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.agenda = Agenda(self.ports.clock, self.ports.ledger, self.given.perform, DUES)

    def start(self) -> None:
        """Begin; what was missed while no daemon ran comes first."""
        self.agenda.start()

    def moved(self) -> None:
        """The clock was set."""
        self.agenda.moved()

    def heard(self, topics: frozenset[str]) -> None:
        self.agenda.heard(topics)

    def task(self, work: Coroutine[Any, Any, None]) -> None:
        """Something that goes on until `close`."""
        self.tasks.append(task := asyncio.create_task(work))
        task.add_done_callback(ended)

    async def close(self) -> None:
        for each in self.tasks:
            each.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def ended(task: asyncio.Task[None]) -> None:
    """Whatever went wrong beside the calls ends the daemon, which systemd starts again."""
    if not task.cancelled() and (error := task.exception()) is not None:
        fatal(error)
