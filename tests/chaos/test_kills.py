"""Row R2: a kill at any point where the disk changes leaves exactly the old or the new state."""

from __future__ import annotations

import random

import pytest
from chaos.offline_daemon import DURABLE_CHANGES
from chaos.shim import Act, Kind
from chaos.sweep_process import POINTS, SweepProcess, SweptChange
from long import figure, seed

# Where the disk changes for good, and not only in a file that nobody knows yet.
DECISIVE = ("fsync", "fdatasync", "rename", "link", "unlink")
# Between them they come by every such place.
SHORT = ("setup", "open", "spawn", "destroy", "restore", "hand commit", "refused commit", "pack",
         "fire", "store")  # fmt: skip


def test_a_kill_at_any_disk_change_leaves_exactly_old_or_new(sweep_process: SweepProcess) -> None:
    """Before a point, which is after the one that comes before; another choice each time."""
    chance = seed()
    points: dict[str, tuple[SweptChange, int]] = {}
    for name in SHORT:
        course = SweptChange(sweep_process, name)
        for at, point in enumerate(course.points, 1):
            if point.startswith(DECISIVE):
                points.setdefault(point, (course, at))
    assert len(points) >= 40
    chosen = random.Random(chance).sample(sorted(points), 6)  # noqa: S311 - no secret
    for number, point in enumerate(chosen):
        course, at = points[point]
        course.kill(Act.KILL_BEFORE, at, deep=number % 10 == 0)
    figure("kill at a point", points=len(points), kills=len(chosen), seed=chance)


@pytest.mark.long
@pytest.mark.parametrize("name", DURABLE_CHANGES)
def test_a_kill_before_and_after_every_call_leaves_exactly_old_or_new(
    sweep_process: SweepProcess, name: str
) -> None:
    """Every write too, but where they are the thousands that give the log its size."""
    change = DURABLE_CHANGES[name]
    course = SweptChange(sweep_process, name, POINTS if change.opens else Kind.DISK)
    for at in range(1, course.count + 1):
        for act in (Act.KILL_BEFORE, Act.KILL_AFTER):
            course.kill(act, at, deep=at % 10 == 0)
    figure("kill before and after every call", verb=name, points=course.count)
