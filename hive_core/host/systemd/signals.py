"""Being asked to end: once for a good end, twice for one at once (row K40)."""

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
    """Nothing that was acknowledged is lost by it: replies leave after the commit."""
    logging.shutdown()
    os._exit(1)


def fatal(error: BaseException) -> None:
    """End at once: what is in memory and what is on disk may differ. systemd starts a fresh one."""
    log.critical("Ending: %s", error, exc_info=error)
    logging.shutdown()
    os._exit(70)


@dataclass
class ShutdownSignals:
    """Set by the first SIGTERM or SIGINT; the second does not wait for what is under way.

    SIGHUP asks too: systemd starts the daemon again, as its unit and its settings are by then. But
    with settings that it would refuse it would not come back: then `refusals` names what is wrong
    with them, and the daemon goes on with those that it has.
    """

    impatient: Callable[[], None] = end_now
    broken: Callable[[BaseException], None] = fatal
    refusals: Callable[[], Sequence[str]] = list
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def listen(self) -> None:
        """Take over the signals of this process; needs the running loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ask)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        loop.set_exception_handler(self.on_loop_exception)

    def on_loop_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What a callback raised asyncio logs, and goes on; not when the disk has failed."""
        if isinstance(error := context.get("exception"), LedgerBroken):
            self.broken(error)
        loop.default_exception_handler(context)

    def reload(self) -> None:
        """End, to be started with the settings of now, if they are any good."""
        if refusals := self.refusals():
            for refusal in refusals:
                log.error("Cannot reload: %s", refusal)
            log.error("Cannot reload: the settings of the last start stay in force")
            return
        self.asked.set()

    def ask(self) -> None:
        if self.asked.is_set():
            log.warning("Asked to end a second time: ending at once")
            self.impatient()
        self.asked.set()
