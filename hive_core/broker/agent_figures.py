"""Processor and memory of machines: the newest reading, and a ring of readings of the last hour."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from hive_core.model.agents.machine import Reading

EVERY: Final = 10.0
"""Seconds between two points of the ring."""
POINTS: Final = 360
WATCHED_EVERY: Final = 2.0
"""Seconds between two readings while somebody watches the figures."""
# A watcher is asked again at each change, so one that is silent for so long has left.
_WATCHED_FOR: Final = 30.0
# Steps below which a reading is not shown as a change.
_CPU_STEP: Final = 0.001
_MEMORY_STEP: Final = 1 << 18
_KIB: Final = 1024
_MICRO: Final = 1e6
_KIB_MOST: Final = (1 << 32) - 1


class Figures(NamedTuple):
    """Share of one core since the reading before, and bytes of memory; None: not counted."""

    cpu: float | None
    memory: int | None


class Point(NamedTuple):
    """A point of the ring. `time`: seconds since 1970."""

    time: float
    cpu: float
    memory: int


class _Ring:
    """Points by the number of their ten seconds, in 12 bytes each."""

    __slots__ = ("_cpu", "_memory", "_slots")

    def __init__(self) -> None:
        self._slots = array("I", [0]) * POINTS
        self._cpu = array("f", [0.0]) * POINTS
        self._memory = array("I", [0]) * POINTS

    def put(self, slot: int, figures: Figures) -> None:
        at = slot % POINTS
        self._slots[at] = slot
        self._cpu[at] = figures.cpu or 0.0
        self._memory[at] = min(_KIB_MOST, (figures.memory or 0) // _KIB)

    def points(self, first: int, last: int) -> list[Point]:
        wanted = range(max(first, last - POINTS + 1), last + 1)
        return [
            Point(slot * EVERY, self._cpu[slot % POINTS], self._memory[slot % POINTS] * _KIB)
            for slot in wanted if self._slots[slot % POINTS] == slot
        ]  # fmt: skip


class AgentFigures:
    """The figures of all machines; lost with the daemon."""

    def __init__(self) -> None:
        self._readings: dict[str, tuple[float, Reading]] = {}
        self._newest: dict[str, Figures] = {}
        self._shown: dict[str, Figures] = {}
        self._rings: dict[str, _Ring] = {}
        self._changed: set[str] = set()
        self._watched_until = 0.0

    def note_watcher(self, now: float) -> None:
        """Somebody looks at the figures now."""
        self._watched_until = now + _WATCHED_FOR

    def is_watched(self, now: float) -> bool:
        """Whether figures are read every two seconds."""
        return now < self._watched_until <= now + _WATCHED_FOR

    def newest(self, uuid: str) -> Figures:
        """The newest figures of a machine."""
        return self._newest.get(uuid, _NONE)

    def take_changed(self) -> Iterable[str]:
        """The agents whose figures differ from those that were shown."""
        changed, self._changed = self._changed, set()
        return sorted(changed)

    def add(self, readings: Mapping[str, Reading], now: float, monotonic: float) -> bool:
        """Take a reading of all running machines; whether one of them changed."""
        for uuid in self._newest.keys() - readings.keys():
            self._newest.pop(uuid)
            self._readings.pop(uuid, None)
            self._changed.add(uuid)
        slot = int(now // EVERY)
        for uuid, reading in readings.items():
            figures = Figures(self._share(uuid, reading, monotonic), reading.memory)
            self._newest[uuid] = figures
            self._readings[uuid] = (monotonic, reading)
            self._rings.setdefault(uuid, _Ring()).put(slot, figures)
            if _differ(self._shown.get(uuid, _NONE), figures):
                self._shown[uuid] = figures
                self._changed.add(uuid)
        return bool(self._changed)

    def points(self, uuid: str, since: float, now: float) -> list[Point]:
        """The points of a machine since then, the oldest first."""
        ring = self._rings.get(uuid)
        return [] if ring is None else ring.points(int(since // EVERY) + 1, int(now // EVERY))

    def forget(self, uuid: str) -> None:
        """Forget a destroyed agent."""
        for table in (self._readings, self._newest, self._shown, self._rings):
            table.pop(uuid, None)
        self._changed.discard(uuid)

    def _share(self, uuid: str, reading: Reading, monotonic: float) -> float | None:
        at, before = self._readings.get(uuid, (monotonic, reading))
        used = reading.cpu.used - before.cpu.used
        if monotonic <= at or used < 0 or reading.cpu.group != before.cpu.group:
            return None  # the first reading of this machine
        return used / _MICRO / (monotonic - at)


_NONE: Final = Figures(None, None)


def _differ(before: Figures, after: Figures) -> bool:
    if None in (*before, *after):
        return before != after
    cpu = abs((after.cpu or 0.0) - (before.cpu or 0.0))
    return cpu >= _CPU_STEP or abs((after.memory or 0) - (before.memory or 0)) >= _MEMORY_STEP
