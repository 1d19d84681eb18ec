"""The host goes down: an agent that does not end by itself must not hold it up (row K11).

systemd asks all units at once. The daemon is on its way out then too, and its grace for agents
would go with it; so it stays for as long as that grace, and has the root helper kill who is left.
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
    """Return at once unless the host goes down, and then when no agent is up any more."""
    heard = asyncio.Event()
    bus = Bus(settings.grace.bus, lambda _: heard.set(), (AGENTS,))
    privd = Privd(settings.paths.privd_socket, settings.grace.privd)
    running = asyncio.create_task(bus.run())
    try:
        await bus.ready()
        if await bus.state() == "stopping":
            await _wait(bus, privd, heard, settings.grace.stop)
    except HiveError as error:
        log.warning("Cannot see the agents off: %s", error)
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
                log.warning("%s does not end: killed", name, extra={"HIVE_UUID": label.uuid})
                await privd.apply(KillUnit(label.uuid, name))
        heard.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(left if left > 0 else AGAIN):
                await heard.wait()


async def _up(bus: Bus) -> list[tuple[Unit, Label]]:
    units = await bus.list_units([f"{AGENTS}*.service"])
    known = ((unit, Label.of(unit)) for unit in units if unit.active not in ("inactive", "failed"))
    return [(unit, label) for unit, label in known if label is not None]
