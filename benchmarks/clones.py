"""From the call of a fork to the first request of the clone, and what of it a provider has seen.

Session, clone and runtimes are real processes, and hive-model is between them and the model. The
broker, hive-model and the model run in this process: the time has their work too. It begins when
the model answers with the call, and ends when the request of the clone arrives.
"""

import json
import statistics
import time
from typing import Any

from fixtures.fake_model import Json, ModelAnswer
from fixtures.fork_host import ForkHost, fork_host, is_of_subagent

from benchmarks.report.rows import Row, with_aim

WIRES = ("chat", "responses", "messages")
FORKS = 5
SECONDS = 1.2
# The parts of a request in the order in which a provider reads them.
PARTS = {
    "chat": ("tools", "messages"), "responses": ("tools", "instructions", "input"),
    "messages": ("tools", "system", "messages"),
}  # fmt: skip


class TimedForks:
    """Notes when the model was asked, by whom, and answers as before."""

    def __init__(self, host: ForkHost) -> None:
        self.asked: list[tuple[float, bool]] = []
        self._answer = host.model.answer
        host.model.answer = self.answer

    def answer(self, number: int, body: Json) -> ModelAnswer:
        self.asked.append((time.perf_counter(), is_of_subagent(body)))
        return self._answer(number, body)

    def seconds(self) -> list[float]:
        """From the request before each first request of a clone to that request."""
        return [
            self.asked[at][0] - self.asked[at - 1][0]
            for at, (_, is_clone) in enumerate(self.asked) if is_clone
        ]  # fmt: skip


def run() -> list[Row]:
    return [row for wire in WIRES for row in _rows(wire)]


def _rows(wire: str) -> list[Row]:
    with fork_host(wire) as host:
        forks = TimedForks(host)
        shares = [_share(host, wire) for _ in range(FORKS)]
    seconds = statistics.median(forks.seconds())
    return [
        with_aim({"name": f"clone on {wire}: from call to first request, half of them",
                  "value": seconds, "unit": "s"},
                 f"at most {SECONDS:g} s", at_most=SECONDS),
        with_aim({"name": f"clone on {wire}: share of its parent's request that is equal",
                  "value": min(shares), "unit": ""}, "1", at_least=1.0),
    ]  # fmt: skip


def _share(host: ForkHost, wire: str) -> float:
    """How much of what the parent sends next, up to the answer, begins the clone's request."""
    host.start_over()
    host.configure('clone_disable_tools = ["bash"]')
    host.run()
    clone = _beginning(host.sub_bodies()[0], wire)
    parent = _beginning(host.parent_bodies()[-1], wire)
    pairs = enumerate(zip(clone, parent, strict=False))
    equal = next((at for at, (one, other) in pairs if one != other), len(parent))
    return equal / len(parent)


def _beginning(body: bytes, wire: str) -> str:
    """All parts but the last message, which is the answer of the call."""
    parts: dict[str, Any] = json.loads(body)
    *above, turns = PARTS[wire]
    return json.dumps([*(parts.get(part) for part in above), parts[turns][:-1]])[:-1]
