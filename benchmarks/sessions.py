"""What a turn of a session takes beside plain pydantic-ai, and what idle sessions need.

The sessions and their runtimes are real processes. The broker runs in this process, and so does
the model, which answers at once: the figures hold their work too.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.broker_server import BrokerServer, broker_server
from fixtures.fake_model import FakeModel, ModelAnswer, fake_model
from fixtures.world import World, names, world

from benchmarks.report.rows import Row, with_aim

ROOT = Path(__file__).parents[1]
TURNS, WARM = 60, 10
CROWD = 50
_AT_ONCE = 10
ADDED_MS = 10.0
IDLE_MIB = 16.0
CROWD_MIB = 800.0
CROWD_SECONDS = 60.0


class Sessions:
    """Agents with a session each, one broker, and one model for all."""

    def __init__(self, made: World, server: BrokerServer, model: FakeModel, folder: Path) -> None:
        self.world, self.server, self.model, self.folder = made, server, model, folder

    def start(self, name: str) -> None:
        state = self.folder / name
        (state / "work").mkdir(parents=True)
        command = ["hive-agent", "session", "--state", str(state), "--uid", "0"]
        self.server.start(
            name, command, HIVE_MODEL_SOCKET=str(self.model.path), HIVE_RUNTIME=""
        )  # fmt: skip

    def send(self, name: str, text: str) -> None:
        self.world.call("lead", "send", to=name, body=text)

    def take_replies(self, count: int) -> None:
        """Serve until so many replies have come, and acknowledge them."""
        while count > 0:
            received = self.world.ask("lead", "recv", wait=50, max=min(count, _AT_ONCE))
            self.server.serve_until(lambda: not received.pending, 240)  # noqa: B023 - called at once
            ids = names(received.result()["messages"], "id")
            if ids:
                self.world.call("lead", "ack", ids=ids)
            count -= len(ids)

    def wait(self, condition: Callable[[], bool]) -> None:
        self.server.serve_until(condition, 120)

    def memory(self) -> list[float]:
        """MiB of each session, without its runtime."""
        return [_memory(process.pid) for process in self.server.processes]


@contextmanager
def sessions(*names: str) -> Iterator[Sessions]:
    agents = [f"lead/{name}:worker" for name in names]
    with (
        TemporaryDirectory(dir="/tmp") as folder,
        world(None, "root/lead:lead", *agents) as made,
        broker_server(made, Path(folder)) as server,
        fake_model(Path(folder, "model.sock")) as model,
    ):
        model.answer = lambda _number, _body: ModelAnswer("word " * 40)
        yield Sessions(made, server, model, Path(folder))


def run() -> list[Row]:
    with sessions("worker") as one:
        one.start("worker")
        turn, first = _turn_times(one)
        bare = _bare_time(one.model)
    added = 1000 * (turn - bare)
    return [
        {"name": "turn of a warm session, half of them", "value": 1000 * turn, "unit": "ms",
         "peer": "plain pydantic-ai", "peer_value": 1000 * bare},
        with_aim({"name": "a session adds to a turn, half of them", "value": added, "unit": "ms"},
                 f"at most {ADDED_MS:g} ms", at_most=ADDED_MS),
        {"name": "first turn, with the start of session and runtime", "value": first, "unit": "s"},
        *_crowd_rows(),
    ]  # fmt: skip


def _turn_times(one: Sessions) -> tuple[float, float]:
    """Seconds from letter to reply: of half of the warm turns, and of the first turn."""
    times = []
    for number in range(TURNS):
        begun = time.perf_counter()
        one.send("worker", f"Letter {number}")
        one.take_replies(1)
        times.append(time.perf_counter() - begun)
    return statistics.median(times[WARM:]), times[0]


def _bare_time(model: FakeModel) -> float:
    """Seconds of half of the turns of plain pydantic-ai, with the same prompt and tools."""
    script = str(ROOT / "benchmarks/peers/bare_turn.py")
    printed = subprocess.run(
        [sys.executable, script, str(model.path), str(TURNS)], input=model.bodies[0].decode(),
        check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return statistics.median([float(line) for line in printed.stdout.split()][WARM:])


def _crowd_rows() -> list[Row]:
    """Many sessions: all have a turn at the same time, then all are idle."""
    names = [f"w{number}" for number in range(CROWD)]
    with sessions(*names) as crowd:
        for name in names:
            crowd.start(name)
        crowd.wait(lambda: _all_listen(crowd))
        idle = crowd.memory()
        begun = time.perf_counter()
        for name in names:
            crowd.send(name, "Say something.")
        crowd.take_replies(CROWD)
        seconds = time.perf_counter() - begun
        later = crowd.memory()
    return [
        with_aim({"name": "memory of a session before its first turn, half of them",
                  "value": statistics.median(idle), "unit": "MiB"},
                 f"at most {IDLE_MIB:g} MiB", at_most=IDLE_MIB),
        {"name": "memory of a session after its first turn, half of them",
         "value": statistics.median(later), "unit": "MiB"},
        with_aim({"name": f"memory of {CROWD} idle sessions", "value": sum(idle), "unit": "MiB"},
                 f"at most {CROWD_MIB:g} MiB", at_most=CROWD_MIB),
        with_aim({"name": f"{CROWD} turns at once, each with a cold runtime",
                  "value": seconds, "unit": "s"},
                 f"at most {CROWD_SECONDS:g} s", at_most=CROWD_SECONDS),
    ]  # fmt: skip


def _all_listen(crowd: Sessions) -> bool:
    """Whether each session waits for its mail."""
    return crowd.server.waiting >= len(crowd.server.processes)


def _memory(pid: int) -> float:
    """MiB that the process has for itself, and its share of what it shares with others."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"/proc/{pid}/smaps_rollup has no Pss")
