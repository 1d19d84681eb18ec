"""Background work beside the request path and the change path: timers, event files, webhooks.

A package that needs something while the daemon runs (a timer, a listener, a file) gets it here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from hive_core.broker.core import Broker
from hive_core.broker.timers import DUES
from hive_core.errors import HiveError
from hive_core.host.sockets.listener import remove_socket
from hive_core.host.storage.artifacts import ArtifactContents
from hive_core.host.storage.event_files import EventFiles
from hive_core.host.storage.event_log import EventLog
from hive_core.host.storage.stores import Stores
from hive_core.host.systemd.cpu_time import machine_cpu
from hive_core.host.systemd.signals import fatal
from hive_core.host.systemd.unit_figures import CgroupFigures
from hive_core.ledger.core.ledger import Ledger
from hive_core.reconcile.deps import BrokerHandle, Ports
from hive_core.reconcile.observed import ObservedState
from hive_core.reconcile.timers.agenda import Agenda
from hive_core.reconcile.timers.cpu_meter import CpuMeter
from hive_core.reconcile.timers.figure_meter import FigureMeter

log = logging.getLogger(__name__)


@dataclass
class Duties:
    """Background tasks. They end with the daemon; if one fails, the daemon ends too."""

    ports: Ports
    broker: BrokerHandle
    observed: ObservedState
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    closers: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings, ledger = self.ports.settings, self.ports.ledger
        self.agenda = Agenda(self.ports.clock, ledger, self.broker.perform, DUES)
        lines = EventFiles(settings.paths.events, settings.log, settings.operator_group)
        alarms = self.observed.troubles, settings.log.journal
        self.eventlog = EventLog(ledger.events, lines, self.broker.hive, *alarms)

    def start(self, broker: Broker) -> None:
        """Start; what became due while no daemon ran comes first."""
        self.agenda.start()
        self.closers.append(self.eventlog.close)
        self.run_until_close(self.eventlog.run())
        self.run_until_close(CpuMeter(self.ports, self.broker, self.observed, machine_cpu).run())
        figures, show = broker.services.rows.figures, broker.show_figures
        meter = FigureMeter(
            self.observed.machines, self.ports.clock, CgroupFigures(), figures, show
        )
        self.run_until_close(meter.run())

    def on_clock_set(self) -> None:
        """Recompute all timers: the clock was set."""
        self.agenda.on_clock_set()

    def on_topics(self, topics: frozenset[str]) -> None:
        self.agenda.on_topics(topics)
        self.eventlog.on_topics(topics)

    async def open(self, stores: Stores) -> None:
        """Remove orphaned files, and accept webhooks if the settings say so."""
        stores.contents.alarm = lambda text: self.observed.troubles.__setitem__("artifacts", text)
        self.run_until_close(_clear(stores.contents, stores.ledger))
        self._clear_vault(stores)
        if not self.ports.settings.triggers.webhooks:
            # That of an earlier daemon, which accepted webhooks.
            remove_socket(self.ports.settings.paths.hooks_socket)
            return
        # Other hosts do not even import the server.
        from hive_core.host.sockets.webhooks import WebhookServer  # noqa: PLC0415

        settings = self.ports.settings
        hooks = WebhookServer(
            stores.ledger, self.broker.perform, stores.vault, self.broker.hive, self.ports.clock.now
        )
        try:
            await hooks.listen(settings.paths.hooks_socket, settings.triggers.webhook_group)
        except HiveError as error:
            log.warning("Cannot accept webhooks: %s", error)
            self.observed.troubles["webhooks"] = f"cannot accept webhooks: {error}"
        else:
            self.closers.append(hooks.close)

    def _clear_vault(self, stores: Stores) -> None:
        """Remove webhook secrets that no webhook uses; agents' secrets stay."""
        archived = {archive.uuid for archive in stores.ledger.archives.all()}
        hooks = stores.ledger.triggers.hook_secrets()
        try:
            stores.vault.clear(hooks, archived | self.broker.hive().names.keys())
        except HiveError as error:
            log.warning("Cannot remove orphaned secrets: %s", error)

    def run_until_close(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background until `close`."""
        self.tasks.append(task := asyncio.create_task(work))
        task.add_done_callback(stop_daemon_on_failure)

    async def close(self) -> None:
        for close in self.closers:
            close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def stop_daemon_on_failure(task: asyncio.Task[None]) -> None:
    """End the daemon after a failure of a background task; systemd starts it again."""
    if not task.cancelled() and (error := task.exception()) is not None:
        fatal(error)


async def _clear(contents: ArtifactContents, ledger: Ledger) -> None:
    """Remove artifact files that an earlier daemon made and did not record in the ledger."""
    try:
        for digest in contents.remaining_digests():
            if not ledger.artifacts.has_content(digest):
                contents.remove(digest)
            await asyncio.sleep(0)  # calls come first
    except (HiveError, OSError) as error:
        log.warning("Cannot remove orphaned files: %s", error)
