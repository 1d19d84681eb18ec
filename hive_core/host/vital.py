"""Signs of life for systemd: they go the way of every request."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable
from typing import Final

from hive_core import varlink
from hive_core.broker.core import Broker
from hive_core.broker.line import Line
from hive_core.host import notify
from hive_core.model.record import OPERATOR

_QUESTION: Final = {"method": "org.hive.Broker.ListJobs", "parameters": {"limit": 1}}


def settled() -> None:
    """All is there: it stays, so that from now on nobody waits while it is looked through."""
    gc.freeze()
    gc.enable()


async def live(broker: Broker) -> None:
    """Through the broker, the ledger and the loop, as often as systemd wants it, for ever."""
    if (expected := notify.watchdog_seconds()) is None:
        return
    frame = varlink.encode(dict(_QUESTION)).rstrip(b"\0")
    while True:
        answered = asyncio.Event()
        broker.feed(Line(OPERATOR, os.geteuid(), _sets(answered)), [frame])
        await answered.wait()
        notify.alive()
        await asyncio.sleep(expected / 3)


def _sets(event: asyncio.Event) -> Callable[[bytes, bool], None]:
    return lambda _, __: event.set()
