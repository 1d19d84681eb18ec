"""What has its own time: mail that is due, and sweeping up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from fixtures.reconciler import hive
from fixtures.seeds import empty_ledger

from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.core.idempotency_keys import StoredResult
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.mail.letters import NewMessage
from hive_core.model.agents.machine import FailureHistory
from hive_core.model.config.settings import HostLimits, RetentionSettings, Settings
from hive_core.model.wire.record import Relation
from hive_core.reconcile.deps import BrokerHandle, Ports
from hive_core.reconcile.timers.upkeep import HOUR, Upkeep
from hive_core.testing import ManualClock, MemoryJobs, MemoryJournal, MemoryMachines

ANN, BOB = "ann's uuid", "bob's uuid"


def _nobody(name: str, _handler: object) -> NoReturn:
    raise AssertionError(f"{name} is no affair of the upkeep")


class UpkeepHarness:
    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self.clock, self.topics, self.idle = ManualClock(), list[str](), 0
        empty_ledger().plant(folder)
        settings = settings or Settings()
        self.ledger = Ledger.open(folder / "hive.db", limits=settings.limits, primed=0)
        host = MemoryMachines(self.clock)
        ports = Ports(
            host, MemoryJournal(), MemoryJobs(host), self.clock, self.ledger, settings
        )  # fmt: skip
        handle = BrokerHandle(lambda: hive({}), self.topics.extend, _nobody)
        self.ports, self.given, self.reloads = ports, handle, 0
        self.upkeep = self.again()

    def again(self) -> Upkeep:
        """As a daemon does at its start; the timers of the one before are gone."""
        self.clock = ManualClock(self.clock.time, self.clock.steady)
        self.ports = replace(self.ports, clock=self.clock)
        upkeep = Upkeep(self.ports, self.given, self._count_idle, reload=self._count_reload)
        upkeep.start()
        return upkeep

    def _count_reload(self) -> None:
        self.reloads += 1

    def _count_idle(self) -> None:
        self.idle += 1

    def send(self, ttl: float | None = None) -> None:
        letter = NewMessage(ANN, "ann", BOB, "bob", Relation.SIBLING, "hello", ttl=ttl)
        with self.ledger.transaction():
            self.ledger.messages.send(letter, self.clock.now())
        self.upkeep.on_topics(frozenset({f"inbox:{BOB}"}))

    def event(self) -> int:
        with self.ledger.transaction():
            return self.append()

    def append(self) -> int:
        return self.ledger.events.append(
            AuditEntry("test", "", "", "", None, "", "", "", "", self.clock.now())
        )


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[UpkeepHarness]:
    made = UpkeepHarness(tmp_path)
    yield made
    made.ledger.close()


def test_a_message_whose_time_is_over_dies_on_time_and_its_sender_is_told(
    harness: UpkeepHarness,
) -> None:
    harness.send(ttl=10)
    harness.clock.advance(9.5)
    assert harness.ledger.messages.inbox(BOB, dead=True, limit=10) == []
    harness.clock.advance(1)
    (dead,) = harness.ledger.messages.inbox(BOB, dead=True, limit=10)
    assert dead.sender == ANN
    assert {f"inbox:{ANN}", f"inbox:{BOB}"} <= set(harness.topics)


def test_the_earliest_of_several_is_waited_for(harness: UpkeepHarness) -> None:
    harness.send(ttl=100)
    harness.send(ttl=10)
    harness.clock.advance(11)
    assert len(harness.ledger.messages.inbox(BOB, dead=True, limit=10)) == 1
    harness.clock.advance(90)
    assert len(harness.ledger.messages.inbox(BOB, dead=True, limit=10)) == 2


def test_a_message_without_an_end_stays(harness: UpkeepHarness) -> None:
    harness.send()
    harness.clock.advance(HOUR / 2)
    assert len(harness.ledger.messages.inbox(BOB, dead=False, limit=10)) == 1


def test_every_hour_what_was_kept_long_enough_goes(harness: UpkeepHarness) -> None:
    with harness.ledger.transaction():
        job = harness.ledger.jobs.create("test", "operator", {}, harness.clock.now())
        harness.ledger.jobs.finish(job.id, "", harness.clock.now())
    harness.clock.advance(HOUR + 1)
    assert harness.idle == 1
    assert harness.ledger.jobs.get(job.id) is not None
    harness.clock.advance(Settings().retention.jobs + HOUR)
    assert harness.ledger.jobs.get(job.id) is None


def test_a_sweep_goes_on_until_all_that_is_old_is_gone(harness: UpkeepHarness) -> None:
    """Attack 37: who uses up more keys in an hour than go at once cannot fill the disk."""
    stored, now = StoredResult("digest", "test", "{}"), harness.clock.now()
    with harness.ledger.transaction():
        for number in range(2500):
            harness.ledger.keys.store("operator", str(number), stored, now)
    harness.clock.advance(Settings().retention.keys + HOUR)
    harness.clock.advance(1)
    assert harness.ledger.connection.value("SELECT COUNT(*) FROM keys") == 0


def test_old_events_go_and_the_chain_still_holds(tmp_path: Path) -> None:
    seconds = 48 * HOUR  # there is a sweep each hour
    harness = UpkeepHarness(tmp_path, Settings(retention=RetentionSettings(events=seconds)))
    for _ in range(5):
        harness.event()
    harness.clock.advance(seconds - HOUR)
    newer = harness.event()
    harness.clock.advance(2 * HOUR + 1)
    assert [event.seq for event in harness.ledger.events.page(0, 100)] == [newer]
    assert harness.ledger.events.verify() is None
    harness.clock.advance(seconds)
    assert harness.event() == newer + 1
    harness.ledger.close()


def test_a_flood_of_events_pushes_the_oldest_out(tmp_path: Path) -> None:
    harness = UpkeepHarness(tmp_path, Settings(limits=HostLimits(events=1000)))
    with harness.ledger.transaction():
        last = [harness.append() for _ in range(1003)][-1]
    # A little more than is too much goes at once.
    assert 0 <= harness.ledger.events.page(0, 1)[0].seq - (last - 999) < 10
    assert harness.ledger.events.verify() is None
    harness.ledger.close()


def test_daemons_that_run_for_less_than_an_hour_each_leave_no_time_out(
    harness: UpkeepHarness,
) -> None:
    """Else what is due in a minute waits for an hour: the daemon seemed off all the while."""
    harness.clock.advance(HOUR + 1)
    for _ in range(3):
        harness.clock.advance(HOUR - 60)
        due = FailureHistory((harness.clock.now(),), harness.clock.now() + 10)
        with harness.ledger.transaction():
            harness.ledger.starts.put(ANN, due)
        harness.again()
        assert harness.ledger.starts.get(ANN) == due


@pytest.mark.parametrize("step", [-1000 * HOUR, 1000 * HOUR])
def test_what_moved_at_a_start_is_read_again(harness: UpkeepHarness, step: float) -> None:
    """The wishes were read before: an agent in its pause would come back in ten years."""
    harness.clock.advance(HOUR + 1)
    harness.clock.time += step
    harness.again()
    assert harness.reloads == 1
