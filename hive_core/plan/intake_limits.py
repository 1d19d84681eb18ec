"""How much a proposed commit may bring: handed to the jobs that judge it, as one plain word.

Standard library only: jobs import this file.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Self

_LONG: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Caps:
    """The figures of `[intake]` in the settings, which say what each one means."""

    pack: int
    objects: int
    blob: int
    depth: int
    files: int
    tree: int
    diff: int
    seconds: float

    @property
    def word(self) -> str:
        """As `pack=67108864,objects=20000,...`."""
        return ",".join(f"{each.name}={getattr(self, each.name)}" for each in fields(self))

    @classmethod
    def of(cls, word: str) -> Self:
        """Read what `word` wrote; ValueError for anything else."""
        pairs = [part.partition("=") for part in word.split(",")]
        if [name for name, _, _ in pairs] != [each.name for each in fields(cls)]:
            raise ValueError(f"{word!r} does not name the caps in their order")
        *counts, seconds = (value for _, _, value in pairs)
        pack, objects, blob, depth, files, tree, diff = map(int, counts)
        found = cls(pack, objects, blob, depth, files, tree, diff, float(seconds))
        if min(pack, objects, blob, depth, files, tree, diff) < 1 or not 0 < found.seconds < _LONG:
            raise ValueError(f"{word!r} allows nothing, or too much")
        return found
