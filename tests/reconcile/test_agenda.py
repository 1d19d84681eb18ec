"""What is due is done at its time, once, also when the daemon was away or the clock was set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from fixtures.observed import Seen
from fixtures.seeds import empty_ledger

from hive_core.broker.call import Call, Change, Record
from hive_core.broker.operation import Result
from hive_core.broker.timers import Due, due
from hive_core.errors import StorageFull
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import Settings
from hive_core.reconcile.timers.agenda import RETRY_AFTER, Agenda
from hive_core.testing import ManualClock

R = TypeVar("R", bound=Result)


class AgendaHarness:
    """Moments at which something is due stand in a list, as they would in a table."""

    def __init__(self, ledger: Ledger) -> None:
        self.clock, self.ledger = ManualClock(), ledger
        self.moments: list[float] = []
        self.done: list[tuple[float, float]] = []
        self.full = False
        self.dues: dict[str, Due] = {}
        due(at=self._next, topics=frozenset({"bell"}), into=self.dues)(self._ring)
        self.agenda = Agenda(self.clock, ledger, self._perform, self.dues)

    def _next(self, _: Ledger) -> float | None:
        return min(self.moments, default=None)

    def _ring(self, call: Call) -> Record[Result]:
        moment = min(self.moments)
        self.moments.remove(moment)
        self.done.append((moment, call.now))
        return Record(Result())

    def _perform(self, name: str, handler: Callable[[Call], Change[R] | Record[R]]) -> R:
        assert name == "_ring"
        if self.full:
            raise StorageFull("the disk is full")
        call = Call("", "", "", self.now, Hive(), self.ledger, Settings(), Seen(self.ledger), [])
        return handler(call).result

    @property
    def now(self) -> float:
        return self.clock.now()

    def add(self, *after: float) -> None:
        self.moments += [self.now + delay for delay in after]
        self.agenda.on_topics(frozenset({"bell:anna"}))


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[AgendaHarness]:
    empty_ledger().plant(tmp_path)
    ledger = Ledger.open(tmp_path / "hive.db", primed=0)
    yield AgendaHarness(ledger)
    ledger.close()


def test_each_thing_is_done_at_its_own_time(harness: AgendaHarness) -> None:
    harness.agenda.start()
    harness.add(30, 10, 20)
    harness.clock.advance(60)
    assert [at == on for at, on in harness.done] == [True, True, True]


def test_something_earlier_comes_earlier(harness: AgendaHarness) -> None:
    harness.agenda.start()
    harness.add(100)
    harness.add(1)
    harness.clock.advance(2)
    assert len(harness.done) == 1


def test_other_topics_look_at_nothing(harness: AgendaHarness) -> None:
    harness.agenda.start()
    harness.moments.append(harness.now + 1)
    harness.agenda.on_topics(frozenset({"inbox:anna", "events"}))
    harness.clock.advance(2)
    assert not harness.done


def test_what_became_due_while_no_daemon_ran_is_done_at_its_start(harness: AgendaHarness) -> None:
    harness.moments += [harness.now - 1000, harness.now - 10]
    harness.agenda.start()
    harness.clock.advance(0)
    assert len(harness.done) == 2


def test_many_at_once_are_all_done_in_turns(harness: AgendaHarness) -> None:
    harness.moments += [harness.now - 1] * 50
    harness.agenda.start()
    harness.clock.advance(0)
    assert len(harness.done) == 50


def test_what_fails_is_tried_again_and_not_in_a_rush(harness: AgendaHarness) -> None:
    harness.agenda.start()
    harness.add(5)
    harness.full = True
    harness.clock.advance(5)
    assert not harness.done
    harness.full = False
    harness.clock.advance(RETRY_AFTER / 2)
    assert not harness.done
    harness.clock.advance(RETRY_AFTER)
    assert len(harness.done) == 1


def test_a_clock_that_was_set_is_looked_at_anew(harness: AgendaHarness) -> None:
    harness.agenda.start()
    harness.add(3600)
    harness.clock.set(7200)
    harness.clock.follow()
    harness.agenda.on_clock_set()
    harness.clock.advance(0)
    assert len(harness.done) == 1


def test_two_of_one_name_are_refused() -> None:
    def ring(_: Call) -> Record[Result]:
        return Record(Result())

    into: dict[str, Due] = {}
    due(at=lambda _: None, topics=frozenset(), into=into)(ring)
    with pytest.raises(TypeError, match="declared twice"):
        due(at=lambda _: None, topics=frozenset(), into=into)(ring)
