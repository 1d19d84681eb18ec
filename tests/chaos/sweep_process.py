"""Controls the process that makes every durable change under the shim (chaos/sweep.py)."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from chaos.shim import Act, Faults, Kind, build

ROOT = Path(__file__).parents[2]
Life = dict[str, Any]
POINTS = Kind.SYNC | Kind.NAME | Kind.GONE
_VOLATILE = re.compile(r"[0-9a-f]{12,}|(?<=objects/)[0-9a-f]{2}\b")


class SweepProcess:
    """The process, started, and asked for one life after another."""

    def __init__(self, folder: Path) -> None:
        shim = build(folder)
        (folder / "lives").mkdir()
        self._faults = Faults(folder / "control")
        path = f"{ROOT}:{ROOT / 'tests'}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "chaos.sweep", folder / "lives"],
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
        for outcome in (*life["said"], *life["found"]):
            assert "raised" not in outcome, (name, how, outcome["raised"])
        return life

    def close(self) -> None:
        self._process.communicate()
        self._faults.close()


def label(name: str) -> str:
    """A point without what differs from run to run: `link /meta/.git/objects/*/*`."""
    call, _, path = name.partition(" ")
    return f"{call} {_VOLATILE.sub('*', path.partition('/work')[2])}"


def without_events(seen: Life) -> Life:
    """What a call asked again must lead to; how often it was asked stands in the audit log."""
    return {name: value for name, value in seen.items() if name != "events"}


def once(seen: Life) -> Life:
    """The audit log may tell twice of a commit that was refused, when that was cut short."""
    events = [event for event, _ in itertools.groupby(seen["events"])]
    return {**seen, "events": events}


def differences(one: Life, other: Life) -> Life:
    return {name: (one[name], other[name]) for name in one if one[name] != other[name]}


class SweptChange:
    """A durable change from its old state to its new one, and the fault points between them."""

    def __init__(self, process: SweepProcess, name: str, kinds: Kind = POINTS) -> None:
        self._process, self._name, self._kinds = process, name, kinds
        whole = process(name, kinds)
        self.points = [label(name_) for name_ in whole["names"]]
        self.count = whole["count"]
        self._new, self._end = (once(life["seen"]) for life in whole["found"])
        self._old = once(whole["old"])

    def kill(self, act: Act, at: int, *, deep: bool = False) -> None:
        """The next daemon finds the old state or the new one; what was acked is the new one."""
        life = self._process(self._name, self._kinds, act, at, deep=deep)
        where = (self._name, act.name, at, self.points[at - 1])
        assert life["status"] == signal.SIGKILL, where
        self.check(life, where)
        if life["said"]:
            assert once(life["found"][0]["seen"]) == self._new, where

    def check(self, life: Life, where: object) -> None:
        """A life leaves the old or the new state; the same call again leads to the new one."""
        first, last = life["found"]
        assert first["faults"] == last["faults"] == [], (where, first["faults"], last["faults"])
        result = once(first["seen"])
        assert result in (self._old, self._new), (
            where, differences(result, self._old), differences(result, self._new)
        )  # fmt: skip
        left = differences(without_events(last["seen"]), without_events(self._end))
        assert not left, (where, left)
