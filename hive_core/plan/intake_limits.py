"""How large a proposed commit may be. The daemon passes this to the review jobs as one word.

Standard library only: jobs import this file.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Self

_LONG: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """The values of `[intake]` in the settings; the settings describe each one."""

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
        return ",".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))

    @classmethod
    def of(cls, word: str) -> Self:
        """Parse what `word` gives; ValueError for anything else."""
        pairs = [part.partition("=") for part in word.split(",")]
        if [name for name, _, _ in pairs] != [field.name for field in fields(cls)]:
            raise ValueError(f"{word!r} does not name the limits in their order")
        *counts, seconds = (value for _, _, value in pairs)
        pack, objects, blob, depth, files, tree, diff = map(int, counts)
        limits = cls(pack, objects, blob, depth, files, tree, diff, float(seconds))
        if min(pack, objects, blob, depth, files, tree, diff) < 1 or not 0 < limits.seconds < _LONG:
            raise ValueError(f"{word!r} has a limit that is out of range")
        return limits
