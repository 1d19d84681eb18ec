"""Row R2: a kill at any point where the disk changes leaves exactly the old or the new state."""

from __future__ import annotations

import itertools
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.shim import Act, Faults, Kind, build
from faults.stage import VERBS
from long import figure, seed

ROOT = Path(__file__).parents[2]
Life = dict[str, Any]
POINTS = Kind.SYNC | Kind.NAME | Kind.GONE
_VOLATILE = re.compile(r"[0-9a-f]{12,}|(?<=objects/)[0-9a-f]{2}\b")


class Lives:
    """The process that lives them."""

    def __init__(self, folder: Path) -> None:
        shim = build(folder)
        (folder / "lives").mkdir()
        self._faults = Faults(folder / "control")
        path = f"{ROOT}:{ROOT / 'tests'}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "faults.sweep", folder / "lives"],
            env={**self._faults.environment(shim), "PYTHONPATH": path}, cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def __call__(self, name: str, *how: int, deep: bool = False) -> Life:
        """`how`: kinds, act, at, number."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"name": name, "deep": deep, "how": [*how, 0, 0, 0][:4]}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        life: Life = json.loads(self._process.stdout.readline())
        for each in (*life["said"], *life["found"]):
            assert "raised" not in each, (name, how, each["raised"])
        return life

    def close(self) -> None:
        self._process.communicate()
        self._faults.close()


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hive-lives-") as folder:
        made = Lives(Path(folder))
        yield made
        made.close()


def label(name: str) -> str:
    """A point without what differs from run to run: `link /meta/.git/objects/*/*`."""
    call, _, path = name.partition(" ")
    return f"{call} {_VOLATILE.sub('*', path.partition('/work')[2])}"


def settled(seen: Life) -> Life:
    """What a call asked again must lead to; how often it was asked stands in the audit log."""
    return {name: value for name, value in seen.items() if name != "events"}


def once(seen: Life) -> Life:
    """The audit log may tell twice of a commit that was refused, when that was cut short."""
    events = [each for each, _ in itertools.groupby(seen["events"])]
    return {**seen, "events": events}


def differences(one: Life, other: Life) -> Life:
    return {name: (one[name], other[name]) for name in one if one[name] != other[name]}


class Course:
    """A verb from its old state to its new one, and the points on the way."""

    def __init__(self, lives: Lives, name: str, kinds: Kind = POINTS) -> None:
        self._lives, self._name, self._kinds = lives, name, kinds
        whole = lives(name, kinds)
        self.points = [label(each) for each in whole["names"]]
        self.count = whole["count"]
        self._new, self._end = (once(each["seen"]) for each in whole["found"])
        self._old = once(whole["old"])

    def kill(self, act: Act, at: int, *, deep: bool = False) -> None:
        """The next daemon finds the old state or the new one; the same call leads to the new."""
        life = self._lives(self._name, self._kinds, act, at, deep=deep)
        where = (self._name, act.name, at, self.points[at - 1])
        assert life["status"] == signal.SIGKILL, where
        first, last = life["found"]
        assert first["faults"] == last["faults"] == [], (where, first["faults"], last["faults"])
        found = once(first["seen"])
        assert found in (self._old, self._new), (
            where, differences(found, self._old), differences(found, self._new)
        )  # fmt: skip
        if life["said"]:
            assert found == self._new, where
        left = differences(settled(last["seen"]), settled(self._end))
        assert not left, (where, left)


# Where the disk changes for good, and not only in a file that nobody knows yet.
DECISIVE = ("fsync", "fdatasync", "rename", "link", "unlink")
# Between them they come by every such place.
SHORT = ("setup", "open", "spawn", "destroy", "restore", "hand commit", "refused commit", "pack")


def test_a_kill_at_any_point_leaves_exactly_old_or_new(lives: Lives) -> None:
    """Before a point, which is after the one that comes before; another choice each time."""
    chance = seed()
    points: dict[str, tuple[Course, int]] = {}
    for name in SHORT:
        course = Course(lives, name)
        for at, each in enumerate(course.points, 1):
            if each.startswith(DECISIVE):
                points.setdefault(each, (course, at))
    assert len(points) >= 40
    chosen = random.Random(chance).sample(sorted(points), 40)  # noqa: S311 - no secret
    for number, each in enumerate(chosen):
        course, at = points[each]
        course.kill(Act.KILL_BEFORE, at, deep=number % 10 == 0)
    figure("kill at a point", points=len(points), kills=len(chosen), seed=chance)


@pytest.mark.long
@pytest.mark.parametrize("name", VERBS)
def test_a_kill_before_and_after_every_call_leaves_exactly_old_or_new(
    lives: Lives, name: str
) -> None:
    """Every write too, but where they are the thousands that give the log its size."""
    verb = VERBS[name]
    course = Course(lives, name, POINTS if verb.opens else Kind.DISK)
    for at in range(1, course.count + 1):
        for act in (Act.KILL_BEFORE, Act.KILL_AFTER):
            course.kill(act, at, deep=at % 10 == 0)
    figure("kill before and after every call", verb=name, points=course.count)
