"""The run of a service whose work goes on until a signal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

from hive_core.services.notify import notify


async def run_until_signal(work: Coroutine[Any, Any, None], status: str = "") -> None:
    """Run the work until SIGTERM or SIGINT, and tell the service manager of its start and end.

    Work ends by itself only with an error, which is raised.
    """
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    task, end = asyncio.create_task(work), asyncio.create_task(ended.wait())
    notify(f"READY=1\nSTATUS={status}" if status else "READY=1")
    done, _ = await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
    notify("STOPPING=1")
    task.cancel()
    end.cancel()
    await asyncio.wait([task])
    if task in done:
        task.result()
