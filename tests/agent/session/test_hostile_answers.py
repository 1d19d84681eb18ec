"""Answers of a provider that no honest one gives: the turn goes on, and its task ends once."""

from __future__ import annotations

import queue
import subprocess
import sys
from dataclasses import dataclass

from each import for_each
from fixtures.fake_model import ModelAnswer
from fixtures.session_host import SessionHost
from typing_extensions import override

from hive_core.agent.session.guard import CALLS_MOST, TOO_MANY
from hive_core.agent.session.runtimes.builtin import RuntimeCommand

DEEP = 10_000
REPORT = {"status": "success", "summary": "ok"}


def test_hostile_calls_are_answered_with_errors_and_the_task_goes_on(host: SessionHost) -> None:
    """JSON 10,000 deep, lone surrogates, a number that is infinite, a long one."""
    deep = f'{{"path": {"[" * DEEP}{"]" * DEEP}}}'
    host.model.script = [
        ModelAnswer(calls=[("a", "read", deep)]),
        ModelAnswer("\ud800\udc00\x00", calls=[("b", "send", {"to": "lead", "body": "x\ud800"})]),
        ModelAnswer(calls=[("c", "send", '{"to": "lead", "body": "x", "priority": 1e999}')]),
        ModelAnswer(calls=[("e", "read", {"path": "\x00" * 10})]),
        ModelAnswer(calls=[("f", "bash", {"command": "true " + "x" * 300_000})]),
        ModelAnswer(calls=[("g", "finish_task", REPORT)]),
    ]  # fmt: skip
    task = host.assign("Do it.")
    name = f"task-{task}"
    host.start()
    host.until(lambda: host.task(task)["state"] == "done")
    host.until(lambda: "closed" in host.kinds(name))
    results = {row["call"]: row for row in host.of_kind("result", name)}
    assert [results[call]["is_error"] for call in "abcefg"] == [True] * 5 + [False]
    for call in "abc":
        assert results[call]["content"] == "the arguments are not a JSON object"
    assert host.replies() == []


def many_calls(count: int) -> ModelAnswer:
    return ModelAnswer(calls=[(f"c{n}", "get_task", {"task": f"{n}"}) for n in range(count)])


def test_an_answer_with_many_calls_has_the_first_ones_run_and_the_others_refused(
    host: SessionHost,
) -> None:
    count = 400
    host.model.script = [many_calls(count), ModelAnswer(calls=[("g", "finish_task", REPORT)])]
    task = host.assign("Do it.")
    name = f"task-{task}"
    host.start()
    host.until(lambda: host.task(task)["state"] == "done")
    host.until(lambda: "closed" in host.kinds(name))
    assert len(host.of_kind("call", name)) == CALLS_MOST + 1  # and the report
    results = [row for row in host.of_kind("result", name) if row["call"] != "g"]
    assert [row["call"] for row in results] == [f"c{n}" for n in range(count)]
    assert {row["content"] for row in results[CALLS_MOST:]} == {TOO_MANY}
    assert TOO_MANY not in {row["content"] for row in results[:CALLS_MOST]}
    assert host.model.bodies[1].count(TOO_MANY.encode()) == count - CALLS_MOST
    host.kill()


def test_an_answer_with_thousands_of_calls_is_a_fault_of_the_model(host: SessionHost) -> None:
    host.model.script = [many_calls(5000), ModelAnswer(calls=[("g", "finish_task", REPORT)])]
    task = host.assign("Do it.")
    host.start()
    host.until(lambda: host.task(task)["state"] == "done")
    assert [row["call"] for row in host.of_kind("call", f"task-{task}")] == ["g"]
    host.kill()


@for_each("number", ["1e999", "-1e999", "NaN", "Infinity"])
def test_a_runtime_that_sends_a_number_that_the_log_cannot_hold_is_gone(number: str) -> None:
    events: queue.SimpleQueue[tuple[str, object]] = queue.SimpleQueue()
    runtime = HostileRuntime(cost=number).open(events)
    assert events.get(timeout=60) == ("gone", "the runtime sent what is not its protocol")
    runtime.close()


@dataclass(frozen=True)
class HostileRuntime(RuntimeCommand):
    """A program that writes one line with this cost in place of the runtime."""

    cost: str = ""

    @override
    def start(self, end: int, module: str) -> subprocess.Popen[bytes]:
        """Start it, whatever the module is."""
        line = f'{{"type": "end", "cost": {self.cost}}}'
        program = (
            f"import os, time; os.write({end}, {line!r}.encode() + bytes([10])); time.sleep(60)"
        )
        return subprocess.Popen(
            [sys.executable, "-c", program], pass_fds=[end], start_new_session=True
        )
