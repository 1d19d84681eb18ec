"""Row R16, attack 46: the clock of the host is set; no mail is lost or delivered in a burst."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from chaos.offline_daemon import OfflineDaemon
from chaos.shim import Faults, build
from each import for_each
from long import figure, seed, times

from hive_core.reconcile.timers.clock_jumps import LOOK
from hive_core.reconcile.timers.upkeep import HOUR

ROOT = Path(__file__).parents[2]
DAY, YEAR = 86_400.0, 365.25 * 86_400
STEPS = (-10 * YEAR, -DAY, -HOUR, HOUR, DAY, 10 * YEAR)


@contextmanager
def running() -> Iterator[OfflineDaemon]:
    """A small hive whose upkeep runs; `lead` is below root."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hive-clock-") as folder:
        daemon = OfflineDaemon(Path(folder))
        daemon.call("spawn", name="root", parent="")
        daemon.call("spawn", name="lead", parent="root")
        upkeep = daemon.upkeep
        daemon.broker.listeners.append(upkeep.on_topics)
        upkeep.start()
        yield daemon
        daemon.close()


def bodies(daemon: OfflineDaemon, lease: float = 60) -> list[str]:
    messages = daemon.call("recv", "lead", max=100, lease=lease)["messages"]
    return [message["body"] for message in messages]


@for_each("step", STEPS)
def test_a_lease_keeps_its_length_across_clock_jumps(step: float) -> None:
    with running() as daemon:
        daemon.call("send", to="lead", body="hello")
        assert bodies(daemon) == ["hello"]
        daemon.clock.set(step)
        daemon.clock.advance(30)
        assert abs(daemon.clock.now() - 1_700_000_030 - step) < 1
        assert bodies(daemon) == []
        daemon.clock.advance(31)
        assert bodies(daemon) == ["hello"]
        assert bodies(daemon) == []


@for_each("step", STEPS)
def test_mail_keeps_its_lifetime_across_clock_jumps(step: float) -> None:
    with running() as daemon:
        daemon.call("send", to="lead", body="short", ttl=100)
        daemon.clock.set(step)
        daemon.clock.advance(50)
        assert daemon.call("list_messages", agent="lead")["messages"]
        daemon.clock.advance(60)
        assert not daemon.call("list_messages", agent="lead")["messages"]
        (dead,) = daemon.call("list_messages", agent="lead", dead=True)["messages"]
        assert dead["body"] == "short"


@for_each("step", STEPS)
def test_nothing_is_deleted_before_its_time(step: float) -> None:
    """Archives, results kept for a repeated call, dead letters, jobs, the audit log."""
    with running() as daemon:
        daemon.call("spawn", name="old", parent="root")
        uuid = daemon.uuid("old")
        daemon.call("send", to="lead", body="dead", ttl=10)
        first = daemon.call("send", to="lead", body="keyed", idempotency_key="k")
        daemon.clock.advance(20)
        daemon.call("destroy", agent="old")
        events = daemon.call("list_events", limit=100)["events"]
        daemon.clock.set(step)
        daemon.clock.advance(2 * HOUR + LOOK)
        assert daemon.call("list_events", limit=100)["events"][: len(events)] == events
        assert daemon.call("send", to="lead", body="keyed", idempotency_key="k") == first
        assert daemon.call("list_messages", agent="lead", dead=True)["messages"]
        assert [archive["id"] for archive in daemon.call("list_archives")["archives"]] == [uuid]
        assert not daemon.stores.ledger.archives.past_retention(daemon.clock.now())
        daemon.call("restore", id=uuid)


def test_old_records_are_deleted_in_time_also_after_a_jump() -> None:
    with running() as daemon:
        daemon.call("send", to="lead", body="keyed", idempotency_key="k")
        daemon.clock.set(10 * YEAR)
        daemon.clock.advance(6 * DAY)
        count = "SELECT COUNT(*) FROM keys"
        assert daemon.stores.ledger.connection.value(count) == 1
        daemon.clock.advance(DAY + 3 * HOUR)
        assert daemon.stores.ledger.connection.value(count) == 0


@pytest.mark.parametrize("step", [-10 * YEAR, 10 * YEAR])
def test_a_wrong_clock_after_a_start_deletes_nothing(step: float) -> None:
    """It was set, or its battery is empty, while the daemon was off."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hive-clock-") as folder:
        daemon = OfflineDaemon(Path(folder))
        daemon.call("spawn", name="root", parent="")
        daemon.call("spawn", name="old", parent="root")
        daemon.call("destroy", agent="old")
        daemon.call("send", to="root", body="keyed", idempotency_key="k")
        daemon.upkeep.start()
        daemon.upkeep.sweep()
        daemon.close()
        again = OfflineDaemon(Path(folder))
        again.clock.time += step
        again.upkeep.start()
        again.clock.advance(2 * HOUR)
        assert len(again.call("list_archives")["archives"]) == 1
        assert again.stores.ledger.connection.value("SELECT COUNT(*) FROM keys") == 1
        assert again.stores.ledger.events.verify() is None
        again.close()


@pytest.mark.sized
def test_no_sequence_of_jumps_loses_mail_or_delivers_it_in_a_burst() -> None:
    """Each message is delivered at most once a lease until it is acknowledged; none expires."""
    number, cases = seed(), times(15, 1000)
    chance = random.Random(number)  # noqa: S311 - no secret
    with running() as daemon:
        for case in range(cases):
            daemon.call("send", to="lead", body=str(case))
            assert bodies(daemon, lease=100) == [str(case)], (number, case)
            for _ in range(chance.randint(1, 4)):
                daemon.clock.set(chance.choice(STEPS) * chance.random())
                daemon.clock.advance(LOOK + 1)
                assert bodies(daemon) == [], (number, case)
            daemon.clock.advance(100)
            again = daemon.call("recv", "lead", max=100)["messages"]
            assert [(message["body"], message["attempt"]) for message in again] == [(str(case), 2)]
            daemon.call("ack", "lead", ids=[again[0]["id"]])
    figure("clock jumps", cases=cases, seed=number)


_WATCH = """
import asyncio, sys
from hive_core.host.systemd.clock import SystemClock
async def watch():
    clock = SystemClock()
    first = clock.now()
    print("ready", flush=True)
    sys.stdin.readline()
    still, by = clock.now() - first, clock.pending_jump()
    clock.follow()
    print(still, by, clock.now() - first, clock.pending_jump(), flush=True)
asyncio.run(watch())
"""


@pytest.mark.parametrize("step", [-10 * YEAR, 10 * YEAR])
def test_a_process_uses_its_own_time_until_it_has_shifted_due_times(
    tmp_path: Path, step: float
) -> None:
    control = Faults(tmp_path / "control")
    environment = {**control.environment(build(tmp_path)), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", _WATCH], env={**os.environ, **environment}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with control.shift_clock(step):
            said, _ = process.communicate("\n", timeout=60)
    still, by, then, left = map(float, said.split())
    assert 0 <= still < 30
    assert abs(by - step) < 30
    assert abs(then - step) < 60
    assert left == 0
    control.close()
