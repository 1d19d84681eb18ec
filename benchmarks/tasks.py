"""Tasks through the sockets, with 1, 50 and 1,000 agents, and in containers.

A task is three calls: a lead assigns it, its agent receives it, and reports. Beside it, by the same
daemon: a message that is sent, received and acked, three calls too. All of it is on disk (/var/tmp)
before its caller hears of it. In containers: three tasks of one second for three agents, from the
first assignment to the last result, beside the one second that each of them sleeps.
"""

import json
import os
import resource
import selectors
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from e2e.hivehost import HiveHost
from e2e.labhost import Lab
from typing_extensions import override

from benchmarks.report.rows import Row, with_aim

ROOT = Path(__file__).resolve().parents[1]
AGENTS = (1, 50, 1_000)
SECONDS, ROUNDS = 2.0, 2
FLOOR = 1.0  # seconds that each of the three tasks sleeps
Answer = dict[str, Any]


def run() -> list[Row]:
    return [*_sockets(), *_containers()]


def _sockets() -> Iterator[Row]:
    for agents in AGENTS:
        with serving(agents) as folder:
            # In turn, so that a slow moment of the machine meets both.
            pairs = [
                [_rate(folder, agents, kind) for kind in (Task, Letter)] for _ in range(ROUNDS)
            ]
            tasks, letters = (max(item) for item in zip(*pairs, strict=True))
        yield {
            "name": f"tasks given, taken and reported by {agents:,} agents", "value": tasks,
            "unit": "tasks/s", "peer": "a message, the same run", "peer_value": letters,
            "plot": "tasks", "line": "tasks", "x": agents, "x_unit": "agents",
        }  # fmt: skip


@contextmanager
def serving(agents: int) -> Iterator[Path]:
    """A daemon with so many agents, on disk."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with TemporaryDirectory(dir="/var/tmp") as folder:
        argv = [sys.executable, "-m", "benchmarks.services.tasked", folder, str(agents)]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment)
        try:
            if process.stdout is None or process.stdout.readline() != b"ready\n":
                raise RuntimeError("the service does not start")
            yield Path(folder)
        finally:
            process.kill()
            process.communicate()


@dataclass
class Cycle(ABC):
    """One thing after the other between the lead and one agent; each step is a call."""

    folder: Path
    number: int
    done: int = 0
    _step: int = 0
    _lines: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("root", f"a{self.number}"):
            line = socket.socket(socket.AF_UNIX)
            line.connect(str(self.folder / f"{name}.sock"))
            self._lines.append(line)
        self._held = b""

    @property
    def lines(self) -> list[socket.socket]:
        return self._lines

    @abstractmethod
    def steps(self) -> list[Callable[[Answer], tuple[int, str, Answer]]]:
        """By the answer before: which line, which method, with what."""

    def ask(self, before: Answer) -> None:
        line, method, parameters = self.steps()[self._step](before)
        said = {"method": f"org.hive.Broker.{method}", "parameters": parameters}
        self._lines[line].sendall(json.dumps(said).encode() + b"\0")

    def take(self, line: socket.socket) -> None:
        self._held += line.recv(1 << 20)
        if not self._held.endswith(b"\0"):
            return
        answer, self._held = json.loads(self._held[:-1]), b""
        if "error" in answer:
            raise RuntimeError(str(answer))
        self._step = (self._step + 1) % len(self.steps())
        self.done += self._step == 0
        self.ask(answer["parameters"])


class Task(Cycle):
    @override
    def steps(self) -> list[Callable[[Answer], tuple[int, str, Answer]]]:
        agent = f"a{self.number}"
        return [
            lambda _: (0, "AssignTask", {"agent": agent, "description": "Build it"}),
            lambda _: (1, "Recv", {"wait": 10, "max": 1}),
            lambda answer: (1, "FinishTask", {
                "task": str(answer["messages"][0]["body"])[6:18], "status": "success",
                "summary": "it is built",
            }),
        ]  # fmt: skip


class Letter(Cycle):
    @override
    def steps(self) -> list[Callable[[Answer], tuple[int, str, Answer]]]:
        return [
            lambda _: (0, "Send", {"to": f"a{self.number}", "body": "Build it"}),
            lambda _: (1, "Recv", {"wait": 10, "max": 1}),
            lambda answer: (1, "Ack", {"ids": [answer["messages"][0]["id"]]}),
        ]


def _rate(folder: Path, agents: int, kind: type[Cycle]) -> float:
    """Whole cycles a second of all agents together. What is half done at the end is finished."""
    cycles = [kind(folder, number) for number in range(agents)]
    start = time.perf_counter()
    with selectors.DefaultSelector() as ready:
        for cycle in cycles:
            for line in cycle.lines:
                ready.register(line, selectors.EVENT_READ, cycle)
            cycle.ask({})
        while time.perf_counter() - start < SECONDS:
            _turn(ready)
        spent, done = time.perf_counter() - start, sum(cycle.done for cycle in cycles)
        _drain(ready, cycles)
    return done / spent


def _turn(ready: selectors.DefaultSelector) -> None:
    for key, _ in ready.select(1):
        line, cycle = key.fileobj, key.data
        assert isinstance(line, socket.socket)
        assert isinstance(cycle, Cycle)
        cycle.take(line)


def _drain(ready: selectors.DefaultSelector, cycles: list[Cycle]) -> None:
    """Let each come to an end, so that nothing of it is met by the next round."""
    before = [cycle.done for cycle in cycles]
    for cycle in cycles:
        cycle.ask = lambda answer, self=cycle, ask=cycle.ask: (  # type: ignore[method-assign,misc]
            None if self._step == 0 else ask(answer)
        )
    while any(item.done == old for item, old in zip(cycles, before, strict=True)):
        _turn(ready)
    for cycle in cycles:
        for line in cycle.lines:
            line.close()


def _containers() -> Iterator[Row]:
    with Lab() as lab:
        host = HiveHost(lab)
        host.setup()
        host.grow(lead={"role": "lead"})
        worker: dict[str, object] = {
            "parent": "lead", "role": "worker", "command": ["hive-agent", "serve", "--", "sh"],
        }  # fmt: skip
        host.grow(one=worker, two=worker, three=worker)
        value = min(three(host) for _ in range(4))
        host.close_connections()
    row: Row = {
        "name": "three tasks of one second in parallel, in containers", "value": value, "unit": "s",
        "peer": "one second", "peer_value": FLOOR,
    }  # fmt: skip
    yield with_aim(row, "below 1.2 s", at_most=1.2)


def three(host: HiveHost) -> float:
    """Seconds from the first assignment to the last result."""
    names = ("one", "two", "three")
    values = {"description": f"sleep {FLOOR:g}"}
    tasks = [host.ask("lead", "AssignTask", agent=name, **values)["task"] for name in names]
    host.ask("lead", "WaitTasks", tasks=tasks, wait=30)
    rows = [host.call("GetTask", task=task)["task"] for task in tasks]
    assert all(row["result"]["status"] == "success" for row in rows)
    return float(max(row["ended"] for row in rows) - min(row["created"] for row in rows))
