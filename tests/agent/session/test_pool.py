"""Runtimes between turns: kept for a while, taken again, and gone."""

from __future__ import annotations

import os
import queue
import select
from pathlib import Path

from hive_core.agent.session.runtimes.builtin import RuntimeCommand
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
