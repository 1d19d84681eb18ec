"""Noticing commits by hand: well within a second."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from time import monotonic

from fixtures.meta_repo import Meta, family

from hive_core.host.git.watch import watch_branch

Seen = asyncio.Queue[float]


@asynccontextmanager
async def watching(meta: Meta, ticks: Seen | None = None) -> AsyncIterator[Seen]:
    seen: Seen = asyncio.Queue()
    ticked = asyncio.Queue() if ticks is None else ticks
    stop = asyncio.Event()
    tell: Callable[[], None] = lambda: seen.put_nowait(monotonic())  # noqa: E731
    tick: Callable[[], None] = lambda: ticked.put_nowait(monotonic())  # noqa: E731
    task = asyncio.create_task(watch_branch(meta.repo.folder, tell, tick, stop))
    await asyncio.wait_for(seen.get(), 5)  # once at the beginning
    try:
        yield seen
    finally:
        stop.set()
        await asyncio.wait_for(task, 10)


async def first_after(seen: Seen, start: float) -> float:
    while (at := await asyncio.wait_for(seen.get(), 10)) < start:
        pass
    return at - start


def test_a_commit_by_hand_is_noticed_within_a_second(meta: Meta) -> None:
    hive = meta.change(family("anna"))

    async def look() -> None:
        async with watching(meta) as seen:
            # The watch begins a moment after the first call; a change tells that it has begun.
            meta.git("branch", "begun")
            await first_after(seen, monotonic())
            start = monotonic()
            await asyncio.to_thread(meta.by_hand, "notes.md", "by hand\n")
            assert await first_after(seen, start) < 1.0

    asyncio.run(look())
    assert meta.repo.head() != hive.commit


def test_it_ticks_by_itself_when_nothing_is_told(meta: Meta) -> None:
    """The kernel's queue may overrun, and a change may come before the watch has begun."""

    async def look() -> None:
        ticks: Seen = asyncio.Queue()
        async with watching(meta, ticks):
            await asyncio.wait_for(ticks.get(), 10)
            await asyncio.wait_for(ticks.get(), 10)

    asyncio.run(look())


def test_it_waits_for_no_thread_of_another_caller(meta: Meta) -> None:
    """Copies and artifacts may hold all threads that there are for everybody."""
    meta.change(family("anna"))

    async def look() -> None:
        loop, held, free = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
        loop.set_default_executor(ThreadPoolExecutor(1))

        def hold() -> None:
            loop.call_soon_threadsafe(held.set)
            free.wait(20)

        async with watching(meta) as seen:
            meta.git("branch", "begun")
            await first_after(seen, monotonic())
            copying = asyncio.create_task(asyncio.to_thread(hold))
            await asyncio.wait_for(held.wait(), 10)
            start = monotonic()
            try:
                meta.git("branch", "held")
                await first_after(seen, start)
                meta.git("branch", "still")
                await first_after(seen, monotonic())
            finally:
                free.set()
                await copying

    asyncio.run(look())
