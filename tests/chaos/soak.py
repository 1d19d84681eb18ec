"""Faults without end on a host at work, and whether anything grows meanwhile."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from chaos.campaign import OPERATOR, Row
from e2e.hivehost import HiveHost
from e2e.wire import Wire

DUMMIES = ("max", "moe", "pip")  # whose first process is killed now and then
_GAUGE = (
    "import sys; sys.path.insert(0, '/usr/src/hive/tests'); sys.dont_write_bytecode = True;"
    " from chaos.gauge import main; main()"
)
JUNK = (
    b"\0", b"{\0", b"[" * 100_000 + b"\0", b'{"method": 5}\0', b"\xff\xfe\0", b"x" * 2_000_000,
    b'{"method": "org.hive.Broker.Whoami", "parameters": {"a": NaN}}\0',
)  # fmt: skip


@contextmanager
def gauge(host: HiveHost, file: Path, every: float) -> Iterator[list[Row]]:
    """A sample each so many seconds: into the list, and as a line of the file at once."""
    samples: list[Row] = []
    command = ["/usr/bin/python3", "-Ic", _GAUGE, str(every)]
    process = host.lab.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None

    def collect(lines: Any) -> None:  # noqa: ANN401 - a text stream
        with file.open("a", encoding="utf-8") as opened:
            for line in lines:
                samples.append(json.loads(line))
                opened.write(line)
                opened.flush()

    thread = threading.Thread(target=collect, args=(process.stdout,))
    thread.start()
    try:
        yield samples
    finally:
        process.stdin.close()
        thread.join(30)
        process.kill()
        process.wait()
        process.stdout.close()


@dataclass
class FaultSequence:
    """One after the other, as the seed has them."""

    host: HiveHost
    seed: int
    every: float  # seconds between two, on the average
    killing: bool = True  # hived too; not while its memory is watched
    done: Counter[str] = field(default_factory=Counter)
    told: list[Row] = field(default_factory=list)
    _wires: list[Wire] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(f"{self.seed} faults")  # noqa: S311 - a schedule, no secret

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            threading.Event().wait(min(left, self._random.expovariate(1 / self.every)))
            fault = self._random.choice(self._kinds())
            self.done[fault.__name__] += 1
            fault()

    def _kinds(self) -> list[Callable[[], None]]:
        kinds = [
            self.kill_privd, self.crash_agent, self.crash_agent, self.restart_dbus,
            self.restart_journald, self.reexec_systemd, self.fill_disk, self.pester, self.intrude,
        ]  # fmt: skip
        return [*kinds, self.kill_hived, self.restart_hived] if self.killing else kinds

    def _systemctl(self, *words: str) -> None:
        self.host.run("systemctl", *words, check=False)

    def kill_hived(self) -> None:
        self._systemctl("kill", "--kill-whom=main", "--signal=KILL", "hived.service")

    def restart_hived(self) -> None:
        self._systemctl("restart", "hived.service")

    def kill_privd(self) -> None:
        self._systemctl("kill", "--kill-whom=main", "--signal=KILL", "hive-privd.service")

    def restart_dbus(self) -> None:
        self._systemctl("restart", "dbus.service")

    def restart_journald(self) -> None:
        self._systemctl("restart", "systemd-journald.service")

    def reexec_systemd(self) -> None:
        self._systemctl("daemon-reexec")

    def crash_agent(self) -> None:
        """Its first process dies; what was parked by that gets a new chance."""
        name = self._random.choice(DUMMIES)
        self.start(name)
        with suppress(OSError):
            leader = self.host.call("Locate", agent=name).parameters.get("leader", 0)
            if leader:
                self.host.run("kill", "-KILL", str(leader), check=False)

    def start(self, name: str) -> None:
        """Call as the operator, and keep the reply like the notes of the clients."""
        row: Row = {"who": f"{OPERATOR}/faults", "what": "unknown", "method": "start", "times": 1}
        with suppress(OSError):
            reply = self.host.call("Start", agent=name)
            row["what"] = "refused" if reply.error else "told"
        self.told.append(row)

    def fill_disk(self) -> None:
        """Nothing more fits for a moment."""
        folder = "/var/lib/hive"
        used = self.host.run("df", "--output=used", "-B4096", folder).stdout.split()[1]
        self._resize(str((int(used) + 16) * 4096))
        threading.Event().wait(self._random.uniform(0.5, 2))
        self._resize("80%")

    def _resize(self, size: str) -> None:
        self.host.run("mount", "-o", f"remount,size={size}", "/var/lib/hive", check=False)

    def pester(self) -> None:
        """Idle ones, half frames, junk, and some who ask and never read; until the next time."""
        self.leave()
        greedy = b'{"method": "org.hive.Broker.ListEvents", "parameters": {"limit": 1000}}\0' * 50
        for words in (b"", b'{"method":', greedy, *JUNK) * 4:
            with suppress(OSError):
                wire = self.host.connect(wait=0.5)
                self._wires.append(wire)
                wire.write(words)

    def intrude(self) -> None:
        """Somebody of a foreign uid range opens an agent's socket."""
        with suppress(OSError):
            path = f"/run/hive/agents/{self.host.uuid('ann')}/run/broker.sock"
            wire = Wire(str(self.host.lab.path(path)), 5)
            with suppress(OSError):
                wire.ask("Whoami", {})
            wire.close()

    def leave(self) -> None:
        for wire in self._wires:
            wire.close()
        self._wires.clear()


@dataclass(frozen=True)
class Slope:
    """Of a straight line through samples, an hour; the error is one standard error of it.

    Samples that follow each other are alike, so the true error is larger than this one says.
    """

    an_hour: float
    error: float

    @classmethod
    def of(cls, points: list[tuple[float, float]]) -> Slope:
        """Ordinary least squares over (seconds, value)."""
        number = len(points)
        middle = sum(x for x, _ in points) / number
        mean = sum(y for _, y in points) / number
        spread = sum((x - middle) ** 2 for x, _ in points)
        slope = sum((x - middle) * (y - mean) for x, y in points) / spread
        rest = sum((y - mean - slope * (x - middle)) ** 2 for x, y in points)
        return cls(slope * 3600, (rest / (number - 2) / spread) ** 0.5 * 3600)

    @property
    def rounded(self) -> list[float]:
        return [round(self.an_hour, 2), round(self.error, 2)]


def one_life(samples: list[Row], unit: str = "hived") -> list[Row]:
    """Those of the last process of the unit."""
    seen = [row for row in samples if row[unit]]
    return [row for row in seen if row[unit]["pid"] == seen[-1][unit]["pid"]]
