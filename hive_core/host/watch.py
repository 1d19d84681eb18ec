"""Noticing that the meta repo's branch moved: by hand, or by us."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from watchfiles import Change, awatch

# In milliseconds: several files change within one commit, and an operator waits a second.
_DEBOUNCE: Final = 100
_STEP: Final = 20
_LOOK: Final = 5000
_NAMES: Final = frozenset({"HEAD", "packed-refs"})


async def watch_branch(folder: Path, changed: Callable[[], None], stop: asyncio.Event) -> None:
    """Call `changed` whenever a ref of the git directory `folder` may have moved, until `stop`.

    Also after a move of our own, and now and then without one, so that what the kernel did not tell
    (a queue that overran, the moment before the watch began) is found as well: whoever is called
    compares.
    """
    heads = folder / "refs" / "heads"

    def matters(_: Change, path: str) -> bool:
        file = Path(path)
        if file.suffix == ".lock":
            return False
        return file.parent == heads or (file.parent == folder and file.name in _NAMES)

    changed()
    async for _ in awatch(
        folder, heads, watch_filter=matters, debounce=_DEBOUNCE, step=_STEP, stop_event=stop,
        recursive=False, rust_timeout=_LOOK, yield_on_timeout=True,
    ):  # fmt: skip
        changed()
