"""Runtimes between turns: kept for a while, taken again, and gone."""

from __future__ import annotations

import os
import queue
import select
from pathlib import Path
from typing import Any

from hive_core.agent.forward import ForwardPair
from hive_core.agent.session.runtimes.builtin import Line, RuntimeCommand
from hive_core.agent.session.runtimes.claude import ClaudeDialect
from hive_core.agent.session.runtimes.cli_command import CliCommand
from hive_core.agent.session.runtimes.cli_dialect import CliPlace
from hive_core.agent.session.runtimes.forwarder import ModelForwarder
from hive_core.agent.session.runtimes.pool import RuntimePool

Events = queue.SimpleQueue[tuple[str, object]]


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def command(folder: Path) -> RuntimeCommand:
    return RuntimeCommand(str(folder / "model.sock"), None, None)


def test_a_runtime_is_taken_again_and_ends_after_it_was_idle(tmp_path: Path) -> None:
    pool = RuntimePool(command(tmp_path), idle=600)
    events: Events = queue.SimpleQueue()
    first = pool.take(events)
    kind, line = events.get(timeout=120)
    assert kind == "line"
    assert isinstance(line, dict)
    assert line["type"] == "ready"
    pool.give_back(first)
    assert pool.waiting == 1
    again = pool.take(events)
    assert again is first
    assert pool.waiting == 0
    pool.give_back(again)
    pool.close()
    assert not is_running(first.pid)


def test_an_idle_runtime_ends_by_itself(tmp_path: Path) -> None:
    pool = RuntimePool(command(tmp_path), idle=0.05)
    runtime = pool.take(queue.SimpleQueue())
    handle = os.pidfd_open(runtime.pid)
    pool.give_back(runtime)
    ended = select.poll()
    ended.register(handle, select.POLLIN)
    assert ended.poll(60_000)
    os.close(handle)
    assert pool.waiting == 0
    # While the timer's thread reaps it, no other thread can say that it ended: wait for that too.
    runtime.close()
    assert not runtime.is_alive


def test_a_runtime_that_died_meanwhile_is_not_taken(tmp_path: Path) -> None:
    pool = RuntimePool(command(tmp_path), idle=600)
    first = pool.take(queue.SimpleQueue())
    pool.give_back(first)
    os.kill(first.pid, 9)
    os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
    second = pool.take(queue.SimpleQueue())
    assert second is not first
    second.close()


class IdleRuntime:
    """A runtime whose process waits for its next turn."""

    pid = 1
    is_alive = True
    is_closed = False

    def attach(self, events: Events) -> None:
        self.events = events

    def send(self, line: Line, history: bytes | None = None) -> None:
        """It is not sent anything here."""

    def close(self) -> None:
        self.is_closed = True


def cli_pool(folder: Path) -> RuntimePool:
    place = CliPlace(["hive-agent"], "/broker.sock", folder, folder, None)
    forwarder = ModelForwarder(ForwardPair(1, "/model.sock"), ["hive-agent"])
    return RuntimePool(CliCommand(ClaudeDialect(), place, command(folder), forwarder), idle=600)


def test_the_process_of_a_cli_is_given_to_the_conversation_that_it_remembers_only(
    tmp_path: Path,
) -> None:
    pool, runtime, events = cli_pool(tmp_path), IdleRuntime(), queue.SimpleQueue[Any]()
    pool.give_back(runtime, "task-1")
    for other in ("task-2", ""):
        assert pool.take(events, conversation=other) is not runtime
    assert pool.take(events, conversation="task-1") is runtime
    assert runtime.events is events
    assert pool.take(events, conversation="task-1") is not runtime
    pool.close()


def test_the_runtime_that_waits_longest_makes_room_for_one_that_has_just_ended_its_turn(
    tmp_path: Path,
) -> None:
    pool, runtimes = cli_pool(tmp_path), [IdleRuntime() for _ in range(5)]
    for number, runtime in enumerate(runtimes):
        pool.give_back(runtime, f"task-{number}")
    assert [row.is_closed for row in runtimes] == [True, False, False, False, False]
    pool.close()
    assert all(row.is_closed for row in runtimes)
