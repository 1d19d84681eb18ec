"""What hived does beside the two roads, put together: what is due, what is told to others.

Whatever a noun needs while the daemon runs (a timer, a listener, a file) is begun here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from hive_core.broker.due import DUES
from hive_core.errors import HiveError
from hive_core.host.ending import fatal
from hive_core.host.eventlog import EventLog
from hive_core.host.lines import Lines
from hive_core.host.vault import Vault
from hive_core.reconcile.agenda import Agenda
from hive_core.reconcile.given import Broker, Ports
from hive_core.reconcile.look import Look

log = logging.getLogger(__name__)


@dataclass
class Duties:
    """Tasks that are begun here end with the daemon; if one ends otherwise, so does the daemon."""

    ports: Ports
    given: Broker
    look: Look
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    closers: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings, ledger = self.ports.settings, self.ports.ledger
        self.agenda = Agenda(self.ports.clock, ledger, self.given.perform, DUES)
        lines = Lines(settings.paths.events, settings.log, settings.operator_group)
        kept = self.look.troubles, settings.log.journal
        self.eventlog = EventLog(ledger.events, lines, self.given.hive, *kept)

    def start(self) -> None:
        """Begin; what was missed while no daemon ran comes first."""
        self.agenda.start()
        self.closers.append(self.eventlog.close)
        self.task(self.eventlog.run())

    def moved(self) -> None:
        """The clock was set."""
        self.agenda.moved()

    def heard(self, topics: frozenset[str]) -> None:
        self.agenda.heard(topics)
        self.eventlog.heard(topics)

    async def listen(self, vault: Vault) -> None:
        """Take webhooks, where the settings say so: the server is not even loaded elsewhere."""
        if not self.ports.settings.triggers.webhooks:
            return
        from hive_core.host.hooks import Hooks  # noqa: PLC0415

        paths, hooks = self.ports.settings.paths, Hooks(
            self.ports.ledger, self.given.perform, vault
        )  # fmt: skip
        try:
            await hooks.listen(paths.hooks_socket, self.ports.settings.triggers.webhook_group)
        except HiveError as error:
            log.warning("Cannot take webhooks: %s", error)
            self.look.troubles["webhooks"] = f"cannot take webhooks: {error}"
        else:
            self.closers.append(hooks.close)

    def task(self, work: Coroutine[Any, Any, None]) -> None:
        """Something that goes on until `close`."""
        self.tasks.append(task := asyncio.create_task(work))
        task.add_done_callback(ended)

    async def close(self) -> None:
        for close in self.closers:
            close()
        for each in self.tasks:
            each.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def ended(task: asyncio.Task[None]) -> None:
    """Whatever went wrong beside the calls ends the daemon, which systemd starts again."""
    if not task.cancelled() and (error := task.exception()) is not None:
        fatal(error)
