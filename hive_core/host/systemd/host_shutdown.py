"""Shutdown of the host: agents that do not end are killed after their grace period (row K11).

systemd stops all units at the same time. The daemon is stopped then too, and the grace period of
agents would end with it. So this service stays for that period, and then has the root helper kill
the remaining agents.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from hive_core.errors import HiveError
from hive_core.host.systemd.bus import Bus, Unit
from hive_core.host.systemd.machines import AGENTS, Label
from hive_core.host.systemd.root_helper import Privd
from hive_core.model.config.settings import Settings
from hive_core.plan.actions import KillUnit

log = logging.getLogger(__name__)
AGAIN: Final = 1.0


async def wait_for_agents(settings: Settings) -> None:
    """Wait until no agent is running, if the host is shutting down; else return at once."""
    heard = asyncio.Event()
    bus = Bus(settings.grace.bus, lambda _: heard.set(), (AGENTS,))
    privd = Privd(settings.paths.privd_socket, settings.grace.privd)
    running = asyncio.create_task(bus.run())
    try:
        await bus.ready()
        if await bus.state() == "stopping":
            await _wait(bus, privd, heard, settings.grace.stop)
    except HiveError as error:
        log.warning("Cannot wait for the agents to stop: %s", error)
    finally:
        privd.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _wait(bus: Bus, privd: Privd, heard: asyncio.Event, grace: float) -> None:
    loop = asyncio.get_running_loop()
    ends = loop.time() + grace
    while up := await _up(bus):
        left = ends - loop.time()
        if left <= 0:
            for unit, label in up:
                name = unit.name.removeprefix(AGENTS).removesuffix(".service")
                log.warning(
                    "%s did not stop in time: killing it", name, extra={"HIVE_UUID": label.uuid}
                )
                await privd.apply(KillUnit(label.uuid, name))
        heard.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(left if left > 0 else AGAIN):
                await heard.wait()


async def _up(bus: Bus) -> list[tuple[Unit, Label]]:
    units = await bus.list_units([f"{AGENTS}*.service"])
    known = ((unit, Label.of(unit)) for unit in units if unit.active not in ("inactive", "failed"))
    return [(unit, label) for unit, label in known if label is not None]
