"""Starts of containers to ready: by hive, by systemd alone, and by podman.

In one lab and one run, each way in turn. Ready: who asked was told that the container runs, and its
payload runs, which writes down when it began. hive's figures are those of `Start`, from the call to
the reply: the wish on disk, fresh mounts, the unit, and the checks of what runs in it. The others
find everything mounted, and check nothing.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from e2e.hivehost import HiveHost
from e2e.labhost import Lab

from benchmarks.report.rows import Row, beside, with_aim

AT_ONCE = 8  # as many as hive starts at once by default
COMMAND = ["bash", "-c", "echo $EPOCHREALTIME >/tree/state/ready; exec sleep infinity"]
AIM = "within 1.25 times of bare"
BARE, PODMAN = "systemd-run, mounts ready", "podman, no control groups"
CALM = 0.3  # seconds in which what the round before left behind is swept up
# crun refuses a mixture of both versions of control groups, so it is shown only one of them.
_PRIVATE = """
mount -t tmpfs tmpfs /srv
mountpoint -q /sys/fs/cgroup/unified && umount /sys/fs/cgroup/unified
exec "$@"
"""


@dataclass(frozen=True)
class Size:
    count: int
    rounds: int
    boot: bool = False
    first: int = 0  # the number of the first agent

    @property
    def name(self) -> str:
        kind = "booted agent" if self.boot else "agent"
        return f"start of {self.count} {kind}{'s' if self.count > 1 else ''} to ready, p50"

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.count)


SIZES = (
    Size(1, 11), Size(10, 4), Size(50, 2),
    Size(1, 4, boot=True, first=100), Size(10, 2, boot=True, first=100),
)  # fmt: skip
Way = Callable[[Size], float]


def run() -> list[Row]:
    with Lab() as lab, bare(lab, "unit") as unit, bare(lab, "podman") as podman:
        hive = Hive(HiveHost(lab))
        return [row for size in SIZES for row in _rows(size, (hive.start, unit, podman))]


def _rows(size: Size, ways: Sequence[Way]) -> Iterator[Row]:
    """One row beside the bare units and one beside podman; each round tries all three."""
    values: list[list[float | Exception]] = [[] for _ in ways]
    for _ in range(size.rounds + 1):
        for way, figures in zip(ways, values, strict=True):
            time.sleep(CALM)
            figures.append(_try_start(way, size))
    ours, units, pods = (figures[1:] for figures in values)  # the first round warms up
    row: Row = {"name": size.name, "value": _ms(ours), "unit": "ms"}
    yield with_aim({**row, **beside(BARE, lambda: _ms(units))}, AIM, ratio_at_most=1.25)
    yield {**row, **beside(PODMAN, lambda: _ms(pods))}


def _try_start(way: Way, size: Size) -> float | Exception:
    try:
        return way(size)
    except Exception as problem:  # noqa: BLE001 - it is told in the row of who failed
        return problem


def _ms(figures: Sequence[float | Exception]) -> float:
    for figure in figures:
        if isinstance(figure, Exception):
            raise figure
    return median(figure for figure in figures if isinstance(figure, float)) * 1e3


class Hive:
    """The operator's calls, and what the agents wrote down."""

    def __init__(self, host: HiveHost) -> None:
        self._host = host
        self._told: dict[int, Path] = {}
        host.setup()
        host.call("Spawn", name="top", command=["sleep", "infinity"], max_children=500, wait=30)

    def start(self, size: Size) -> float:
        """Seconds until every caller was told and every payload ran."""
        self._make(size)
        wires = [self._host.connect() for _ in size.numbers]
        calls = [_start(f"a{number}") for number in size.numbers]
        began = time.time()
        for wire, call in zip(wires, calls, strict=True):
            wire.write(call)
        replies = [wire.read() for wire in wires]
        seen = time.time()
        assert not any("error" in reply for reply in replies), replies
        for wire in wires:
            wire.close()
        said = max(float(self._time_told(number)) for number in size.numbers)
        self._end(size)
        return max(seen, said) - began

    def _time_told(self, number: int) -> str:
        """When the payload of an agent began; on a busy host it writes that after the reply."""
        path = self._told[number]
        self._host.until(lambda: path.exists() and path.read_text().endswith("\n"), str(path))
        return path.read_text()

    def _make(self, size: Size) -> None:
        """They exist, are stopped, and have said nothing."""
        new = [number for number in size.numbers if number not in self._told]
        for number in new:
            words = {"parent": "top", "command": COMMAND, "boot": size.boot}
            assert not self._host.call("Spawn", name=f"a{number}", **words).error
        if new:
            self._host.wait("running", *(f"a{number}" for number in new), seconds=50)
            self._told |= {number: self._state(f"a{number}") / "ready" for number in new}
            self._end(size)
            time.sleep(CALM)
        for number in size.numbers:
            self._told[number].unlink(missing_ok=True)

    def _state(self, name: str) -> Path:
        shorts = [self._host.uuid(item)[:8] for item in ("root", "top", name)]
        return self._host.lab.path("/var/lib/hive/tree/" + "/kids/".join(shorts) + "/state")

    def _end(self, size: Size) -> None:
        for number in size.numbers:
            self._host.call("Kill", agent=f"a{number}")
        self._host.wait("stopped", *(f"a{number}" for number in size.numbers))


def _start(agent: str) -> bytes:
    call = {"method": "org.hive.Broker.Start", "parameters": {"agent": agent, "wait": 50}}
    return json.dumps(call).encode() + b"\0"


@contextmanager
def bare(lab: Lab, way: str) -> Iterator[Way]:
    """A worker in the lab that starts containers of this kind (inside/bare.py)."""
    program = ["/usr/bin/python3", "/usr/src/hive/benchmarks/inside/bare.py", way]
    private = ["unshare", "--mount", "sh", "-c", _PRIVATE, "sh"] if way == "podman" else []
    worker = lab.popen([*private, *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdin is not None
    assert worker.stdout is not None
    orders, answers = worker.stdin, worker.stdout

    def start(size: Size) -> float:
        order = {"first": size.first, "count": size.count, "boot": size.boot}
        orders.write(json.dumps({**order, "command": COMMAND, "at_once": AT_ONCE}) + "\n")
        orders.flush()
        answer = json.loads(answers.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return float(answer["seconds"])

    try:
        yield start
    finally:
        worker.kill()
        worker.communicate()
