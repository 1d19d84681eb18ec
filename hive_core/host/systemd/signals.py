"""Termination signals: the first one ends the daemon cleanly, a second one at once (row K40)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hive_core.ledger.core.connection import LedgerBroken

log = logging.getLogger(__name__)


def end_now() -> None:
    """End at once. No acknowledged change is lost, because replies are sent after the commit."""
    logging.shutdown()
    os._exit(1)


def fatal(error: BaseException) -> None:
    """End at once: memory and disk may differ. systemd starts the daemon again."""
    log.critical("Ending: %s", error, exc_info=error)
    logging.shutdown()
    os._exit(70)


@dataclass
class ShutdownSignals:
    """Records the first SIGTERM or SIGINT; a second one does not wait for calls in progress.

    SIGHUP ends the daemon too: systemd starts it again with its current unit and settings. With
    invalid settings it would not come back, so it continues with the settings that it has;
    `refusals` returns the faults.
    """

    impatient: Callable[[], None] = end_now
    broken: Callable[[BaseException], None] = fatal
    refusals: Callable[[], Sequence[str]] = list
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def listen(self) -> None:
        """Handle the signals of this process; needs the running loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ask)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        loop.set_exception_handler(self.on_loop_exception)

    def on_loop_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log what a callback raised and continue, as asyncio does; end if the disk has failed."""
        if isinstance(error := context.get("exception"), LedgerBroken):
            self.broken(error)
        loop.default_exception_handler(context)

    def reload(self) -> None:
        """End in order to be restarted with the current settings, if these are valid."""
        if refusals := self.refusals():
            for refusal in refusals:
                log.error("Cannot reload: %s", refusal)
            log.error("Cannot reload: keeping the settings of the last start")
            return
        self.asked.set()

    def ask(self) -> None:
        if self.asked.is_set():
            log.warning("Second termination signal: ending at once")
            self.impatient()
        self.asked.set()
