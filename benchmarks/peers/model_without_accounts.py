"""hive-model without the accounts of hived: what it adds to a call by itself.

Calls are passed on, read and counted as ever. hived is not asked whether they may be made, and not
told what they used.
"""

import asyncio
import signal
import sys
from collections.abc import Callable
from dataclasses import replace

from typing_extensions import override

from hive_core.proxy.accounts import Accounts, Reservation, Settlement
from hive_core.proxy.main import ProxyOptions, build, parse_options
from hive_core.services.notify import notify
from hive_core.varlink import Message


class NoAccounts(Accounts):
    @override
    async def reserve(self, parameters: Message) -> Reservation:
        return Reservation("none", str(parameters["alias"]))

    @override
    def track(self, reservation: str, tokens_out: Callable[[], int]) -> None:
        """Nobody waits for a note."""

    @override
    def note_use(self, settlement: Settlement) -> None:
        """Nobody settles the call."""

    @override
    def settle(self, settlement: Settlement) -> None:
        """Nobody keeps what was used."""


async def run(options: ProxyOptions) -> None:
    """Serve until SIGTERM, as `hive_core.proxy.main.run` does."""
    program = build(options)
    accounts = NoAccounts(options.control)
    program.app.services = replace(program.app.services, accounts=accounts)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    program.start()
    notify("READY=1")
    await ended.wait()
    await program.stop()


if __name__ == "__main__":
    asyncio.run(run(parse_options(sys.argv[1:])))
