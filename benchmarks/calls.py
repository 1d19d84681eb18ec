"""Calls over real sockets: the whole request road against bare Varlink services.

The service is a process of its own and the load comes from this one, so both cores work. Sends are
durable: each is on disk (in /var/tmp) before its reply leaves. The services are in `services/`: the
echo decodes, looks the method up and encodes an answer of the same size, with our framing and
codec; a canned reply is what it says; asyncvarlink is the library from PyPI.
"""

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.report.rows import Row, with_aim
from benchmarks.services import AGENTS, serving

SECONDS: Final = 1.5
# Ours and theirs in turn, so that a slow moment of the machine meets both.
ROUNDS: Final = 2
WHOAMI: Final = b'{"method":"org.hive.Broker.Whoami","parameters":{}}\0'
SEND: Final = (
    b'{"method":"org.hive.Broker.Send","parameters":{"to":"a%d","body":"How is the build?"}}\0'
)


@dataclass(frozen=True)
class Load:
    """So many connections, each with `depth` calls under way; agent number -> its call."""

    connections: int
    depth: int
    call: Callable[[int], bytes]


def whoami(_: int) -> bytes:
    return WHOAMI


def send(number: int) -> bytes:
    return SEND % ((number + 1) % AGENTS)


PIPELINED, ABREAST, ALONE = Load(50, 50, whoami), Load(50, 1, whoami), Load(1, 1, whoami)
SENDERS, DEEP, SENDER = Load(100, 1, send), Load(100, 10, send), Load(1, 1, send)


def run() -> list[Row]:
    with ExitStack() as stack:
        services = {
            kind: stack.enter_context(serving(kind))
            for kind in ("hive", "echo", "canned", "asyncvarlink")
        }
        return [*_reads(services), *_lone(services), *_sends(services["hive"])]


def _reads(services: dict[str, Path]) -> list[Row]:
    rows = []
    for name, load in (
        ("whoami, 50 connections, 50 under way on each", PIPELINED),
        ("whoami, 50 connections, one at a time", ABREAST),
    ):
        rates = _rates(services, load)
        mine: Row = {"name": name, "value": rates["hive"], "unit": "calls/s"}
        first: Row = {**mine, "peer": "bare Varlink echo", "peer_value": rates["echo"]}
        if load is PIPELINED:
            aim = "at least 40,000/s, and 40 % of the echo"
            first = with_aim(first, aim, at_least=40_000, ratio_at_least=0.4)
        rows += [
            first,
            {**mine, "peer": "asyncvarlink", "peer_value": rates["asyncvarlink"]},
            {**mine, "peer": "a canned reply", "peer_value": rates["canned"]},
        ]
    return rows


def _lone(services: dict[str, Path]) -> list[Row]:
    name = "whoami, one connection, one at a time"
    mine, echo, theirs = (
        _percentiles(services[kind], [ALONE]) for kind in ("hive", "echo", "asyncvarlink")
    )
    rows: list[Row] = []
    for at, label in enumerate(("p50", "p99")):
        row: Row = {"name": f"{name}, {label}", "value": mine[at], "unit": "us"}
        first: Row = {**row, "peer": "bare Varlink echo", "peer_value": echo[at]}
        if label == "p50":
            first = with_aim(first, "at most 3 times the echo", ratio_at_most=3)
        rows += [first, {**row, "peer": "asyncvarlink", "peer_value": theirs[at]}]
    return rows


def _sends(hive: Path) -> list[Row]:
    beside_senders = _percentiles(hive, [ALONE, Load(20, 1, send)])
    return [
        with_aim(
            {"name": "durable send, 100 senders, one at a time", "unit": "calls/s",
             "value": best(hive, SENDERS)},
            "at least 20,000/s", at_least=20_000,
        ),
        {"name": "durable send, 100 senders, 10 under way on each", "unit": "calls/s",
         "value": best(hive, DEEP)},
        {"name": "durable send, one sender, one at a time", "unit": "calls/s",
         "value": best(hive, SENDER)},
        with_aim(
            {"name": "whoami beside 20 senders, p99", "unit": "us", "value": beside_senders[1]},
            "below 5 ms", at_most=5000,
        ),
    ]  # fmt: skip


def _rates(services: dict[str, Path], load: Load) -> dict[str, float]:
    values = dict.fromkeys(services, 0.0)
    for _ in range(ROUNDS):
        for kind, folder in services.items():
            values[kind] = max(values[kind], rate(folder, load))
    return values


def best(folder: Path, load: Load) -> float:
    return max(rate(folder, load) for _ in range(ROUNDS))


def rate(folder: Path, load: Load) -> float:
    """Replies a second."""
    start = time.perf_counter()
    lines = drive(folder, [load])
    return sum(line.done for line in lines) / (time.perf_counter() - start)


def _percentiles(folder: Path, loads: list[Load]) -> tuple[float, float]:
    """p50 and p99 in microseconds of what the first of the loads waits for its answers."""
    lines = drive(folder, loads)[: loads[0].connections]
    waits = sorted(wait for line in lines for wait in line.waits)
    return waits[len(waits) // 2] * 1e6, waits[len(waits) * 99 // 100] * 1e6


def drive(folder: Path, loads: list[Load]) -> list["Line"]:
    """Put all the loads on a service for a while."""
    load_by_line = (load for load in loads for _ in range(load.connections))
    lines = [Line(folder, number % AGENTS, load) for number, load in enumerate(load_by_line)]
    start = time.perf_counter()
    with selectors.DefaultSelector() as ready:
        for line in lines:
            ready.register(line.socket, selectors.EVENT_READ, line)
            line.ask()
        while time.perf_counter() - start < SECONDS:
            for key, _ in ready.select(1):
                key.data.take()
    for line in lines:
        line.socket.close()
    return lines


class Line:
    """One connection of one agent. An error among the answers is a fault of the benchmark."""

    def __init__(self, folder: Path, number: int, load: Load) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(folder / f"a{number}.sock"))
        self.done = self.left = 0
        self.waits: list[float] = []
        self._batch, self._depth = load.call(number) * load.depth, load.depth
        self._asked = 0.0

    def ask(self) -> None:
        self._asked = time.perf_counter()
        self.socket.sendall(self._batch)
        self.left = self._depth

    def take(self) -> None:
        data = self.socket.recv(1 << 20)
        if not data or b'"error"' in data:
            raise RuntimeError(f"no answer but {data[:200]!r}")
        replies = data.count(b"\0")
        self.done += replies
        self.left -= replies
        if self.left == 0:
            self.waits.append(time.perf_counter() - self._asked)
            self.ask()
