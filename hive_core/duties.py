"""What hived does beside the two roads, put together: what is due, what is told to others.

Whatever a noun needs while the daemon runs (a timer, a listener, a file) is begun here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from hive_core.broker.timers import DUES
from hive_core.errors import HiveError
from hive_core.host.storage.artifacts import Contents
from hive_core.host.storage.event_files import Lines
from hive_core.host.storage.event_log import EventLog
from hive_core.host.storage.stores import Stores
from hive_core.host.systemd.cpu_time import of
from hive_core.host.systemd.signals import fatal
from hive_core.ledger.core.ledger import Ledger
from hive_core.reconcile.deps import BrokerHandle, Ports
from hive_core.reconcile.observed import ObservedState
from hive_core.reconcile.timers.agenda import Agenda
from hive_core.reconcile.timers.cpu_meter import CpuMeter

log = logging.getLogger(__name__)


@dataclass
class Duties:
    """Tasks that are begun here end with the daemon; if one ends otherwise, so does the daemon."""

    ports: Ports
    broker: BrokerHandle
    observed: ObservedState
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    closers: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings, ledger = self.ports.settings, self.ports.ledger
        self.agenda = Agenda(self.ports.clock, ledger, self.broker.perform, DUES)
        lines = Lines(settings.paths.events, settings.log, settings.operator_group)
        kept = self.observed.troubles, settings.log.journal
        self.eventlog = EventLog(ledger.events, lines, self.broker.hive, *kept)

    def start(self) -> None:
        """Begin; what was missed while no daemon ran comes first."""
        self.agenda.start()
        self.closers.append(self.eventlog.close)
        self.run_until_close(self.eventlog.run())
        self.run_until_close(CpuMeter(self.ports, self.broker, self.observed, of).run())

    def on_clock_set(self) -> None:
        """The clock was set."""
        self.agenda.on_clock_set()

    def on_topics(self, topics: frozenset[str]) -> None:
        self.agenda.on_topics(topics)
        self.eventlog.heard(topics)

    async def open(self, stores: Stores) -> None:
        """Clear up beside the ledger, and take webhooks where the settings say so."""
        stores.contents.alarm = lambda text: self.observed.troubles.__setitem__("artifacts", text)
        self.run_until_close(_clear(stores.contents, stores.ledger))
        self._clear_vault(stores)
        if not self.ports.settings.triggers.webhooks:
            return
        # The server is not even loaded elsewhere.
        from hive_core.host.sockets.webhooks import Hooks  # noqa: PLC0415

        settings = self.ports.settings
        hooks = Hooks(
            stores.ledger, self.broker.perform, stores.vault, self.broker.hive, self.ports.clock.now
        )
        try:
            await hooks.listen(settings.paths.hooks_socket, settings.triggers.webhook_group)
        except HiveError as error:
            log.warning("Cannot take webhooks: %s", error)
            self.observed.troubles["webhooks"] = f"cannot take webhooks: {error}"
        else:
            self.closers.append(hooks.close)

    def _clear_vault(self, stores: Stores) -> None:
        """Secrets of webhooks that an earlier daemon never set; of agents all are kept."""
        archived = {each.uuid for each in stores.ledger.archives.all()}
        hooks = stores.ledger.triggers.hook_secrets()
        try:
            stores.vault.clear(hooks, archived | self.broker.hive().names.keys())
        except HiveError as error:
            log.warning("Cannot clear up: %s", error)

    def run_until_close(self, work: Coroutine[Any, Any, None]) -> None:
        """Something that goes on until `close`."""
        self.tasks.append(task := asyncio.create_task(work))
        task.add_done_callback(stop_daemon_on_failure)

    async def close(self) -> None:
        for close in self.closers:
            close()
        for each in self.tasks:
            each.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def stop_daemon_on_failure(task: asyncio.Task[None]) -> None:
    """Whatever went wrong beside the calls ends the daemon, which systemd starts again."""
    if not task.cancelled() and (error := task.exception()) is not None:
        fatal(error)


async def _clear(contents: Contents, ledger: Ledger) -> None:
    """Remove files that an earlier daemon made and never wrote into the ledger."""
    try:
        for each in contents.left():
            if not ledger.artifacts.has_content(each):
                contents.remove(each)
            await asyncio.sleep(0)  # calls come first
    except (HiveError, OSError) as error:
        log.warning("Cannot remove orphaned files: %s", error)
