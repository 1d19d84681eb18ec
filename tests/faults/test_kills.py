"""Row R2: a kill at any point where the disk changes leaves exactly the old or the new state."""

from __future__ import annotations

import json
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
from long import figure

ROOT = Path(__file__).parents[2]
Life = dict[str, Any]
POINTS = Kind.SYNC | Kind.NAME
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
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


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


def differences(one: Life, other: Life) -> Life:
    return {name: (one[name], other[name]) for name in one if one[name] != other[name]}


class Course:
    """A verb from its old state to its new one, and the points on the way."""

    def __init__(self, lives: Lives, name: str, kinds: Kind = POINTS) -> None:
        self._lives, self._name, self._kinds = lives, name, kinds
        whole = lives(name, kinds, deep=True)
        self.points = [label(each) for each in whole["names"]]
        self.count = whole["count"]
        self._new, self._end = (each["seen"] for each in whole["found"])
        self._old = lives(name, kinds, Act.KILL_BEFORE, 1)["found"][0]["seen"]

    def kill(self, act: Act, at: int, *, deep: bool = False) -> None:
        """The next daemon finds the old state or the new one; the same call leads to the new."""
        life = self._lives(self._name, self._kinds, act, at, deep=deep)
        where = (self._name, act.name, at, self.points[at - 1])
        assert life["status"] == signal.SIGKILL, where
        first, last = life["found"]
        assert first["faults"] == last["faults"] == [], where
        assert first["seen"] in (self._old, self._new), (
            where, differences(first["seen"], self._old), differences(first["seen"], self._new)
        )  # fmt: skip
        if life["said"]:
            assert first["seen"] == self._new, where
        assert not differences(settled(last["seen"]), settled(self._end)), where


def test_a_kill_at_each_kind_of_point_leaves_exactly_old_or_new(lives: Lives) -> None:
    """Each distinct point once: before it, which is after the one that comes before."""
    known: set[str] = set()
    killed = 0
    for name in VERBS:
        course = Course(lives, name)
        fresh = {each: at for at, each in reversed([*enumerate(course.points, 1)])}
        for each in fresh.keys() - known:
            course.kill(Act.KILL_BEFORE, fresh[each], deep=killed % 10 == 0)
            killed += 1
        known |= fresh.keys()
    assert len(known) >= 40
    figure("kill at a point", points=len(known), kills=killed)


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
