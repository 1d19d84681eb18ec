"""A move, from its commit until it shows in a running container.

Two agents take a subtree from each other. A process in the container of the one that gains it looks
at `/agents/NAME/state`, through the symlink that hive keeps there, every 0.1 ms. The commit counts
from the moment the caller has the reply, which leaves when the commit is on disk; beside it the
whole time from the call on, and the time until the agent that loses it holds nothing of it.
All agents run, and each move is whole (the loser is up again, views shown) before the next.
"""

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles

from e2e.hivehost import HiveHost
from e2e.labhost import Lab

from benchmarks.inside import look
from benchmarks.report.rows import Row, with_aim

SIZES = {1: 100, 50: 50}  # agents in the subtree -> moves
HOLD = ["sleep", "infinity"]
AIM = "p99 below 20 ms"
_PROGRAM = ("/usr/bin/python3", "-Ic", Path(look.__file__).read_text())


def run() -> list[Row]:
    with Lab() as lab:
        host = HiveHost(lab)
        host.setup()
        for side in ("left", "right"):
            host.call("Spawn", name=side, command=HOLD, max_children=5, wait=40)
        return [row for size, moves in SIZES.items() for row in _rows(host, size, moves)]


def _rows(host: HiveHost, size: int, moves: int) -> Iterator[Row]:
    name = f"team-{size}"
    _grow(host, name, size)
    spent = [_move_times(host, name, ("right", "left")[turn % 2]) for turn in range(moves)]
    shown, called, revoked = zip(*spent, strict=True)
    rows = {
        "commit to visible in a container": shown,
        "call to visible in a container": called,
        "call to access gone": revoked,
    }
    for label, times in rows.items():
        middle, most = _percentiles(times)
        about = f"{label}, subtree of {size}"
        yield {"name": f"{about}, p50", "value": middle, "unit": "ms"}
        row: Row = {"name": f"{about}, p99", "value": most, "unit": "ms"}
        yield with_aim(row, AIM, at_most=20) if times is shown else row


def _grow(host: HiveHost, name: str, size: int) -> None:
    """A team below left: its lead, and the others in two levels."""
    host.call("Spawn", name=name, parent="left", command=HOLD, max_children=100, wait=40)
    others = [f"{name}-{number}" for number in range(1, size)]
    for number, other in enumerate(others):
        parent = name if number < 10 else others[number % 10]
        made = host.call("Spawn", name=other, parent=parent, command=HOLD, max_children=10)
        assert not made.error, made
    host.wait("running", name, *others, seconds=50)


def _move_times(host: HiveHost, name: str, to: str) -> tuple[float, float, float]:
    """Milliseconds from the reply, and from the call, until it shows; never less than none.

    And from the call until access is gone.
    """
    wire = host.connect()
    with looking(host, to) as eye:  # anew each time: it was restarted when it lost the last one
        eye.begin(f"/agents/{name}/state")
        called = time.time()
        reply = wire.ask("Move", {"agent": name, "parent": to})
        now = time.time()
        seen = eye.end()
    job = wire.ask("WaitJob", {"id": reply["parameters"]["job"], "wait": 50})
    assert job["parameters"]["state"] == "done", job
    wire.close()
    revoked = float(job["parameters"]["progress"]["revoked"])
    return max(0.0, seen - now) * 1e3, (seen - called) * 1e3, (revoked - called) * 1e3


class Eye:
    """A process in a container that waits for a path."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders, self._answers = process.stdin, process.stdout

    def begin(self, path: str) -> None:
        self._orders.write(path + "\n")
        self._orders.flush()
        assert self._answers.readline() == "looking\n"

    def end(self) -> float:
        return float(json.loads(self._answers.readline()))


@contextmanager
def looking(host: HiveHost, agent: str) -> Iterator[Eye]:
    pipe = subprocess.PIPE
    process = host.lab.popen(["hive", "shell", agent, "--", *_PROGRAM], stdin=pipe, stdout=pipe)
    try:
        yield Eye(process)
    finally:
        process.kill()
        process.communicate()


def _percentiles(times: Sequence[float]) -> tuple[float, float]:
    cuts = quantiles(times, n=100, method="inclusive")
    return cuts[49], cuts[98]
