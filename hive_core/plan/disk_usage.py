"""How much of the disk each agent uses, compared with its limits. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from hive_core.plan.placement import DiskBounds

_LEAST: Final = (1 << 20, 100)  # growth below which no files are counted again
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


class DiskUse(NamedTuple):
    """Bytes and number of files, or the growth of both."""

    disk: int = 0
    inodes: int = 0


def parse_counts(words: Sequence[str]) -> dict[str, DiskUse]:
    """Parse the output of the measure job, `0123abcd 4096 ... files 0123abcd 3 end`, by node.

    Each half names each node twice, for `state/` and for `config/`.
    """
    if words[-1:] != ["end"] or "files" not in words:
        raise ValueError("the count is incomplete")
    middle = words.index("files")
    disk, inodes = _sums(words[:middle]), _sums(words[middle + 1 : -1])
    return {node: DiskUse(disk[node], inodes[node]) for node in disk.keys() | inodes.keys()}


def _sums(words: Sequence[str]) -> Counter[str]:
    sums = Counter[str]()
    for node, count in zip(words[::2], words[1::2], strict=True):
        sums[node] += int(count)
    return sums


def used_share(room: DiskBounds, used: DiskUse) -> float:
    """The used share of the tighter limit: 1 means all of it."""
    pairs = zip(used, room, strict=True)
    return max((some / most for some, most in pairs if most is not None), default=0.0)


def least_headroom(everybody: Iterable[tuple[DiskBounds, DiskUse]]) -> DiskBounds:
    """How much may be written before any agent can exceed its limits: the least headroom of all."""
    least: list[int | None] = [None, None]
    for room, used in everybody:
        for which, (some, most) in enumerate(zip(used, room, strict=True)):
            if most is not None:
                more, known = max(most - some, _LEAST[which]), least[which]
                least[which] = more if known is None else min(more, known)
    return DiskBounds(*least)


def exceeds(grown: DiskUse, room: DiskBounds) -> bool:
    """Whether the growth has used up the headroom."""
    return any(some >= most for some, most in zip(grown, room, strict=True) if most is not None)


def describe_use(name: str, room: DiskBounds, used: DiskUse) -> str:
    """One line for people: what the agent uses, of what it may use."""
    files = f" of {room.inodes}" if room.inodes is not None else ""
    most = f" of {size(room.disk)}" if room.disk is not None else ""
    return f"the files of {name} take {size(used.disk)}{most} and are {used.inodes}{files}"


def size(count: float) -> str:
    """Bytes with a unit, for people."""
    for unit in _UNITS[:-1]:
        if count < _STEP:
            return f"{count:.4g} {unit}"
        count /= _STEP
    return f"{count:.4g} {_UNITS[-1]}"
