"""The program `hive-egress`: connects to hived, serves agents until a signal."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.egress.network import HostNetwork, Network
from hive_core.egress.permits import REPORT_EVERY, EgressPermits
from hive_core.egress.route import TIMEOUTS, EgressRouter, RouteTimeouts
from hive_core.egress.tunnel import egress_connections
from hive_core.services.command_line import ServiceOption, ServiceProgram, parse_arguments
from hive_core.services.listeners import HandoverClient, Listeners
from hive_core.services.notify import notify

_SWEEP: Final = 60.0
_PROGRAM: Final = ServiceProgram("hive-egress", "Connect agents to the internet.", (
    ServiceOption("control", "SOCKET", "where hived decides on connections"),
    ServiceOption("hand", "SOCKET", "where hived hands over the sockets of agents"),
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class EgressOptions:
    control: Path = Path("/run/hive/egress-control.sock")
    hand: Path = Path("/run/hive/hand-egress.sock")


@dataclass(slots=True)
class HiveEgress:
    """All parts of the program."""

    options: EgressOptions
    router: EgressRouter
    listeners: Listeners
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> None:
        permits, hand = self.router.permits, HandoverClient(self.options.hand, self.listeners)
        loops = (permits.run(), permits.repeat_reports(), hand.run(), self._sweep())
        self._tasks = [asyncio.create_task(loop) for loop in loops]

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP)
            self.router.forget(self.listeners.agents)

    async def stop(self) -> None:
        """End all connections; hived is told about each."""
        self.listeners.close(abort=True)
        await asyncio.sleep(0)  # the connections end in the next turn of the loop
        await self.router.permits.reports.drain(REPORT_EVERY)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def build(
    options: EgressOptions, network: Network, timeouts: RouteTimeouts = TIMEOUTS
) -> HiveEgress:
    """The program, not started."""
    router = EgressRouter(EgressPermits(options.control), network, timeouts)
    return HiveEgress(options, router, Listeners(egress_connections(router)))


async def run(options: EgressOptions) -> None:
    """Serve until SIGTERM or SIGINT."""
    network = HostNetwork()
    program = build(options, network)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    program.start()
    notify("READY=1\nSTATUS=serving")
    await ended.wait()
    notify("STOPPING=1\nSTATUS=stopping")
    await program.stop()
    network.close()


def parse_options(arguments: Sequence[str]) -> EgressOptions:
    return EgressOptions(**parse_arguments(_PROGRAM, EgressOptions(), arguments))


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    options = parse_options(sys.argv[1:])
    try:
        asyncio.run(run(options))
    except OSError as error:
        sys.stderr.write(f"hive-egress: cannot start: {error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
