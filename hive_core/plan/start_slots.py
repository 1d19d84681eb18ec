"""Bounds the starts that run at once. Branches share the slots, so no branch can block the others.

A branch is a child of a root with everything below it, or a root by itself. It gets at most half of
the slots. A start that takes unusually long gives its slot to other branches, not to its own; so at
most twice as many starts run at once as there are slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from hive_core.plan.placement import Placements

SLOW_AFTER: Final = 2.0  # seconds; a container without an init takes 0.3


def branch_of(places: Placements, uuid: str) -> str:
    """The branch of an agent; a destroyed agent is a branch of its own."""
    place = places.by_uuid.get(uuid)
    return place.lineage[:2][-1] if place else uuid


class StartSlots:
    """The free slots during one plan. `starting`: agents that start now, and since when."""

    def __init__(
        self, places: Placements, limit: int, starting: Mapping[str, float], now: float
    ) -> None:
        self._places, self._limit = places, limit
        self._share = max(1, limit // 2)
        self._by_branch = Counter(branch_of(places, uuid) for uuid in starting)
        self._young = sorted(since for since in starting.values() if now - since < SLOW_AFTER)
        self._used = len(starting) - min(limit, len(starting) - len(self._young))

    def take(self, uuid: str) -> bool:
        """Take a slot for an agent, if its branch may have one."""
        branch = branch_of(self._places, uuid)
        if self._used >= self._limit or self._by_branch[branch] >= self._share:
            return False
        self._used += 1
        self._by_branch[branch] += 1
        return True

    @property
    def next_slow(self) -> float | None:
        """When the oldest recent start becomes slow and gives up its slot."""
        return self._young[0] + SLOW_AFTER if self._young else None

    def share_out(self, queue: Iterable[str]) -> list[str]:
        """The agents of the queue that can get a slot now; takes none."""
        used, by_branch, chosen = self._used, self._by_branch.copy(), list[str]()
        for uuid in queue:
            if used >= self._limit:
                break
            branch = branch_of(self._places, uuid)
            if by_branch[branch] < self._share:
                used, by_branch[branch] = used + 1, by_branch[branch] + 1
                chosen.append(uuid)
        return chosen
