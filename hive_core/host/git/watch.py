"""Watches the branch of the meta repository for moves, by hand or by the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from watchfiles import Change, watch

# In milliseconds. Several files change within one commit, and an operator waits at most a second.
_DEBOUNCE: Final = 100
_STEP: Final = 50
_TICK: Final = 900
_NAMES: Final = frozenset({"HEAD", "packed-refs"})


async def watch_branch(
    folder: Path, changed: Callable[[], None], tick: Callable[[], None], stop: asyncio.Event
) -> None:
    """Call `changed` whenever a ref of the git directory `folder` may have moved, until `stop`.

    It is also called after moves of the daemon; the caller compares. If there is no event for a
    second, call `tick`. That covers events that the kernel or the watcher lost (a queue overflow,
    the time before the watch began), and work that could not be done at once.
    """
    heads = folder / "refs" / "heads"

    def matters(_: Change, path: str) -> bool:
        file = Path(path)
        if file.suffix == ".lock":
            return False
        return file.parent == heads or (file.parent == folder and file.name in _NAMES)

    changed()
    # In a thread of its own: `awatch` would import another task library at each start.
    batches = watch(
        folder, heads, watch_filter=matters, debounce=_DEBOUNCE, step=_STEP, stop_event=stop,
        recursive=False, rust_timeout=_TICK, yield_on_timeout=True, raise_interrupt=False,
    )  # fmt: skip
    own, loop = ThreadPoolExecutor(1, "watch"), asyncio.get_running_loop()
    try:
        while (changes := await loop.run_in_executor(own, next, batches, None)) is not None:
            (changed if changes else tick)()
    finally:
        own.shutdown(wait=False)  # a cancelled task does not wait for the next tick
