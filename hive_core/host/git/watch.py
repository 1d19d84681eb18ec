"""Noticing that the meta repo's branch moved: by hand, or by us."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from watchfiles import Change, watch

# In milliseconds: several files change within one commit, and an operator waits a second.
_DEBOUNCE: Final = 100
_STEP: Final = 50
_TICK: Final = 900
_NAMES: Final = frozenset({"HEAD", "packed-refs"})


async def watch_branch(
    folder: Path, changed: Callable[[], None], tick: Callable[[], None], stop: asyncio.Event
) -> None:
    """Call `changed` whenever a ref of the git directory `folder` may have moved, until `stop`.

    Also after a move of our own: whoever is called compares. When nothing is told for a second,
    call `tick`, so that what the kernel or the watcher lost (a queue that overran, the moment
    before the watch began), and what could not be done at once, is found as well.
    """
    heads = folder / "refs" / "heads"

    def matters(_: Change, path: str) -> bool:
        file = Path(path)
        if file.suffix == ".lock":
            return False
        return file.parent == heads or (file.parent == folder and file.name in _NAMES)

    changed()
    # In a thread of our own: `awatch` would load another library for tasks at each start.
    batches = watch(
        folder, heads, watch_filter=matters, debounce=_DEBOUNCE, step=_STEP, stop_event=stop,
        recursive=False, rust_timeout=_TICK, yield_on_timeout=True, raise_interrupt=False,
    )  # fmt: skip
    own, loop = ThreadPoolExecutor(1, "watch"), asyncio.get_running_loop()
    try:
        while (changes := await loop.run_in_executor(own, next, batches, None)) is not None:
            (changed if changes else tick)()
    finally:
        own.shutdown(wait=False)  # who is cancelled waits for no tick
