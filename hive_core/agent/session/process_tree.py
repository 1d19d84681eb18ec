"""Processes as proc(5) shows them, and the end of one with all that is below it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def kill_tree(pid: int) -> None:
    """Kill a process that was not yet waited for, its group, and what is below it in others."""
    below = list(_descendants(pid))
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for other in below:
        kill_process(other)


def kill_process(pid: int) -> None:
    """Kill one process, where it is still there."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def processes() -> list[int]:
    """All that run now."""
    return [int(place.name) for place in Path("/proc").iterdir() if place.name.isdigit()]


def owner_of(pid: int) -> int:
    """The user of a process that lives; a dead one may wait for its parent for ever."""
    fields = _stat(pid)
    try:
        return Path(f"/proc/{pid}").stat().st_uid if fields and fields[0] not in "ZX" else 0
    except OSError:
        return 0


def _descendants(parent: int) -> Iterator[int]:
    below: dict[int, list[int]] = {}
    for pid in processes():
        if fields := _stat(pid):
            below.setdefault(int(fields[1]), []).append(pid)
    rest = [parent]
    while rest:
        children = below.pop(rest.pop(), [])
        rest += children
        yield from children


def _stat(pid: int) -> list[str]:
    """State, parent and so on, as in proc(5); empty for a process that is gone.

    A process chooses its own name, which need be no text and may hold parentheses.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
