"""Who may start now: slots that branches share, so that starts which never end hold up nobody else.

A branch is a child of a root with everything below it, and a root by itself. It has at most half of
the slots. A start that takes longer than starts take gives its slot to others, not to its own
branch; so at most twice as many starts are under way as there are slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from hive_core.plan.placement import Places

SLOW_AFTER: Final = 2.0  # seconds; a container without an init takes 0.3


def branch_of(places: Places, uuid: str) -> str:
    """Name the branch of an agent; one that is in the tree no more is its own."""
    place = places.by_uuid.get(uuid)
    return place.lineage[:2][-1] if place else uuid


class StartSlots:
    """The slots while a plan is thought through. `starting`: who starts, and since when."""

    def __init__(
        self, places: Places, limit: int, starting: Mapping[str, float], now: float
    ) -> None:
        self._places, self._limit = places, limit
        self._share = max(1, limit // 2)
        self._by_branch = Counter(branch_of(places, uuid) for uuid in starting)
        self._young = sorted(since for since in starting.values() if now - since < SLOW_AFTER)
        self._used = len(starting) - min(limit, len(starting) - len(self._young))

    def take(self, uuid: str) -> bool:
        """Take a slot for an agent, if there is one for its branch."""
        branch = branch_of(self._places, uuid)
        if self._used >= self._limit or self._by_branch[branch] >= self._share:
            return False
        self._used += 1
        self._by_branch[branch] += 1
        return True

    @property
    def next_slow(self) -> float | None:
        """When the oldest start will have taken so long that its slot is another's."""
        return self._young[0] + SLOW_AFTER if self._young else None

    def share_out(self, queue: Iterable[str]) -> list[str]:
        """Choose who in the queue can get a slot now, without taking any."""
        used, by_branch, chosen = self._used, self._by_branch.copy(), list[str]()
        for uuid in queue:
            if used >= self._limit:
                break
            branch = branch_of(self._places, uuid)
            if by_branch[branch] < self._share:
                used, by_branch[branch] = used + 1, by_branch[branch] + 1
                chosen.append(uuid)
        return chosen
