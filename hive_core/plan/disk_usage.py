"""How much of the disk everybody has, beside how much it may have. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from hive_core.plan.placement import Room

_LEAST: Final = (1 << 20, 100)  # growth below which nobody is counted again
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


class Used(NamedTuple):
    """Bytes and number of files; or how much more of them there is than before."""

    disk: int = 0
    inodes: int = 0


def counts(words: Sequence[str]) -> dict[str, Used]:
    """What is in each node, as the counting job says it: `0123abcd 4096 ... files 0123abcd 3 end`.

    Each node comes twice in each half, for `state/` and for `config/`.
    """
    if words[-1:] != ["end"] or "files" not in words:
        raise ValueError("the count is not whole")
    middle = words.index("files")
    disk, inodes = _sums(words[:middle]), _sums(words[middle + 1 : -1])
    return {node: Used(disk[node], inodes[node]) for node in disk.keys() | inodes.keys()}


def _sums(words: Sequence[str]) -> Counter[str]:
    found = Counter[str]()
    for node, count in zip(words[::2], words[1::2], strict=True):
        found[node] += int(count)
    return found


def share(room: Room, used: Used) -> float:
    """How much of its bounds somebody has used up: 1 is all of it."""
    pairs = zip(used, room, strict=True)
    return max((some / most for some, most in pairs if most is not None), default=0.0)


def left(everybody: Iterable[tuple[Room, Used]]) -> Room:
    """What may be written before anybody can be beyond its bounds: the least that somebody has."""
    least: list[int | None] = [None, None]
    for room, used in everybody:
        for which, (some, most) in enumerate(zip(used, room, strict=True)):
            if most is not None:
                more, known = max(most - some, _LEAST[which]), least[which]
                least[which] = more if known is None else min(more, known)
    return Room(*least)


def reached(grown: Used, room: Room) -> bool:
    """Whether there is as much more as there was room for."""
    return any(some >= most for some, most in zip(grown, room, strict=True) if most is not None)


def told(name: str, room: Room, used: Used) -> str:
    """For people: what it has, of what it may have."""
    files = f" of {room.inodes}" if room.inodes is not None else ""
    most = f" of {size(room.disk)}" if room.disk is not None else ""
    return f"the files of {name} take {size(used.disk)}{most} and are {used.inodes}{files}"


def size(count: float) -> str:
    """Bytes for people."""
    for unit in _UNITS[:-1]:
        if count < _STEP:
            return f"{count:.4g} {unit}"
        count /= _STEP
    return f"{count:.4g} {_UNITS[-1]}"
