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


class House:
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
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.ledger.close()


def test_a_message_whose_time_is_over_dies_on_time_and_its_sender_is_told(house: House) -> None:
    house.send(ttl=10)
    house.clock.advance(9.5)
    assert house.ledger.messages.inbox(BOB, dead=True, limit=10) == []
    house.clock.advance(1)
    (dead,) = house.ledger.messages.inbox(BOB, dead=True, limit=10)
    assert dead.sender == ANN
    assert {f"inbox:{ANN}", f"inbox:{BOB}"} <= set(house.topics)


def test_the_earliest_of_several_is_waited_for(house: House) -> None:
    house.send(ttl=100)
    house.send(ttl=10)
    house.clock.advance(11)
    assert len(house.ledger.messages.inbox(BOB, dead=True, limit=10)) == 1
    house.clock.advance(90)
    assert len(house.ledger.messages.inbox(BOB, dead=True, limit=10)) == 2


def test_a_message_without_an_end_stays(house: House) -> None:
    house.send()
    house.clock.advance(HOUR / 2)
    assert len(house.ledger.messages.inbox(BOB, dead=False, limit=10)) == 1


def test_every_hour_what_was_kept_long_enough_goes(house: House) -> None:
    with house.ledger.transaction():
        job = house.ledger.jobs.create("test", "operator", {}, house.clock.now())
        house.ledger.jobs.finish(job.id, "", house.clock.now())
    house.clock.advance(HOUR + 1)
    assert house.idle == 1
    assert house.ledger.jobs.get(job.id) is not None
    house.clock.advance(Settings().retention.jobs + HOUR)
    assert house.ledger.jobs.get(job.id) is None


def test_a_sweep_goes_on_until_all_that_is_old_is_gone(house: House) -> None:
    """Attack 37: who uses up more keys in an hour than go at once cannot fill the disk."""
    stored, now = StoredResult("digest", "test", "{}"), house.clock.now()
    with house.ledger.transaction():
        for number in range(2500):
            house.ledger.keys.store("operator", str(number), stored, now)
    house.clock.advance(Settings().retention.keys + HOUR)
    house.clock.advance(1)
    assert house.ledger.connection.value("SELECT COUNT(*) FROM keys") == 0


def test_old_events_go_and_the_chain_still_holds(tmp_path: Path) -> None:
    seconds = 48 * HOUR  # there is a sweep each hour
    house = House(tmp_path, Settings(retention=RetentionSettings(events=seconds)))
    for _ in range(5):
        house.event()
    house.clock.advance(seconds - HOUR)
    newer = house.event()
    house.clock.advance(2 * HOUR + 1)
    assert [event.seq for event in house.ledger.events.page(0, 100)] == [newer]
    assert house.ledger.events.verify() is None
    house.clock.advance(seconds)
    assert house.event() == newer + 1
    house.ledger.close()


def test_a_flood_of_events_pushes_the_oldest_out(tmp_path: Path) -> None:
    house = House(tmp_path, Settings(limits=HostLimits(events=1000)))
    with house.ledger.transaction():
        last = [house.append() for _ in range(1003)][-1]
    # A little more than is too much goes at once.
    assert 0 <= house.ledger.events.page(0, 1)[0].seq - (last - 999) < 10
    assert house.ledger.events.verify() is None
    house.ledger.close()


def test_daemons_that_run_for_less_than_an_hour_each_leave_no_time_out(house: House) -> None:
    """Else what is due in a minute waits for an hour: the daemon seemed off all the while."""
    house.clock.advance(HOUR + 1)
    for _ in range(3):
        house.clock.advance(HOUR - 60)
        due = FailureHistory((house.clock.now(),), house.clock.now() + 10)
        with house.ledger.transaction():
            house.ledger.starts.put(ANN, due)
        house.again()
        assert house.ledger.starts.get(ANN) == due


@pytest.mark.parametrize("step", [-1000 * HOUR, 1000 * HOUR])
def test_what_moved_at_a_start_is_read_again(house: House, step: float) -> None:
    """The wishes were read before: an agent in its pause would come back in ten years."""
    house.clock.advance(HOUR + 1)
    house.clock.time += step
    house.again()
    assert house.reloads == 1
