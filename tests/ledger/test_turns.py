"""K17: what is less urgent waits ten seconds longer for each step, and no longer."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.messages import bodies, ids, letter
from fixtures.seeds import empty_ledger
from hypothesis import given, settings
from hypothesis import strategies as st
from long import times

from hive_core.ledger.core.ids import Ids
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.config.settings import HostLimits

WIDE = HostLimits(inbox_count=10**6, inbox_bytes=10**9)


def test_a_low_message_overtakes_a_critical_one_after_half_a_minute(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        mail.send(letter("anna", "bob", "low", priority=3), 100.0)
        mail.send(letter("carol", "bob", "critical at 29.9", priority=0), 129.9)
        mail.send(letter("carol", "bob", "critical at 30.1", priority=0), 130.1)
        assert bodies(mail.lease("bob", 10, 60, 131.0)) == [
            "critical at 29.9", "low", "critical at 30.1",
        ]  # fmt: skip


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 90)), min_size=1, max_size=12))
def test_the_turn_is_fixed_whenever_it_is_asked_for(sent: list[tuple[int, float]]) -> None:
    """Aging changes no message's place: time of sending and priority alone make the order."""
    with temporary() as ledger, ledger.transaction():
        result = [
            ledger.messages.send(letter("anna", "bob", priority=priority), 1000.0 + at)
            for priority, at in sorted(sent, key=lambda pair: pair[1])
        ]
        wanted = sorted(
            result, key=lambda message: (int(message.id, 16) + message.priority * 10**7, message.id)
        )
        given_ = [ledger.messages.lease("bob", 1, 60, 2000.0)[0] for _ in result]
        assert ids(given_) == ids(wanted)


def test_what_comes_back_has_the_turn_that_it_had(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        mail.send(letter("anna", "bob", "low", priority=3), 100.0)
        mail.send(letter("anna", "bob", "usual"), 101.0)
        first = mail.lease("bob", 1, 5, 102.0)
        assert bodies(first) == ["usual"]
        mail.send(letter("anna", "bob", "urgent", priority=0), 125.0)
        assert bodies(mail.lease("bob", 10, 60, 126.0)) == ["usual", "urgent", "low"]


def test_equal_mail_of_one_sender_keeps_its_order_among_all_priorities(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        for at in range(60):
            mail.send(letter("anna", "bob", str(at), priority=at % 4), 100.0 + at)
        given_ = bodies(mail.lease("bob", 100, 60, 200.0))
    for rank in range(4):
        mine = [int(body) for body in given_ if int(body) % 4 == rank]
        assert mine == sorted(mine)


def test_a_clock_that_was_set_back_does_not_stop_the_aging(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        mail.send(letter("anna", "bob", "before"), 1_000_000.0)
        mail.send(letter("anna", "bob", "low", priority=3), 1000.0)
        mail.send(letter("carol", "bob", "critical", priority=0), 1031.0)
        assert bodies(mail.lease("bob", 10, 60, 1032.0)) == ["before", "low", "critical"]


@given(st.lists(st.floats(-1e6, 1e6), max_size=30))
def test_ids_go_up_whatever_the_clock_does(steps: list[float]) -> None:
    made, now, ids = Ids(), 2e6, [0]
    for step in steps:
        now += step
        made.shift(step)
        ids.append(made.next(max(now, 0.0)))
    assert ids == sorted(set(ids))


def test_ids_are_at_most_as_far_ahead_as_the_clock_was_set_back() -> None:
    made = Ids()
    made.next(5000.0)
    made.shift(-4000.0)
    ahead = made.next(1000.0)
    assert ahead == pytest.approx(5000e6, abs=1)
    made.shift(4000.0)
    assert made.next(5001.0) == 5001_000_000


def test_a_page_is_by_age_whatever_the_turns_are(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        for at in range(40):
            mail.send(letter("anna", "bob", str(at), priority=3 - at % 4), 100.0 + at)
        mail.lease("bob", 7, 60, 150.0)
    texts: list[str] = []
    after = ""
    while page := mail.inbox("bob", dead=False, limit=6, after=after):
        texts += bodies(page)
        after = page[-1].id
    assert texts == [str(at) for at in range(40)]


def test_many_large_letters_of_all_priorities_come_in_parts_that_fit(ledger: Ledger) -> None:
    """Attack 37."""
    mail = ledger.messages
    with ledger.transaction():
        for priority in range(4):
            for _ in range(3):
                mail.send(letter("anna", "bob", "x" * 65_536, priority=priority), 100.0)
        given_ = [len(mail.lease("bob", 100, 60, 100.0)) for _ in range(6)]
    assert given_ == [2] * 6


def work(ledger: Ledger, number: int) -> int:
    """Steps of the database's machine that one more message takes, from its send to its ack."""
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    raw = ledger.connection._raw
    raw.set_progress_handler(step, 1)
    mail, now = ledger.messages, 2000.0 + number
    with ledger.transaction():
        mail.send(letter("anna", "bob", priority=number % 4), now)
    with ledger.transaction():
        (message,) = mail.lease("bob", 1, 60, now)
    with ledger.transaction():
        mail.ack("bob", [message.id])
    raw.set_progress_handler(None, 0)
    return steps


def fill(ledger: Ledger, count: int) -> None:
    """Send many messages of all priorities, and lease a tenth of them."""
    mail = ledger.messages
    for at in range(0, count, 1000):
        with ledger.transaction():
            for number in range(at, min(count, at + 1000)):
                mail.send(letter(f"s{number % 50}", "bob", priority=number % 4), 100 + at / 1000)
    with ledger.transaction():
        for _ in range(count // 1000):
            mail.lease("bob", 100, 3600, 1000.0)


@pytest.mark.sized
def test_a_message_costs_the_same_with_very_many_in_the_box(folder: Path) -> None:
    """K17: send, recv and ack are flat; counted in steps of the database, which no load changes."""
    spent, many = {}, times(20_000, 100_000)
    for count in (10, many):
        ledger = Ledger.open(folder / f"{count}.db", limits=WIDE, primed=0)
        fill(ledger, count)
        work(ledger, 0)
        spent[count] = sum(work(ledger, number) for number in range(1, 9))
        page = ledger.messages.inbox("bob", dead=False, limit=100)
        assert len(page) == min(count, 100)
        ledger.close()
    assert spent[many] < 1.5 * spent[10]


class temporary:  # noqa: N801 - reads like a function
    """A ledger for one example."""

    def __enter__(self) -> Ledger:
        from tempfile import TemporaryDirectory  # noqa: PLC0415

        self._folder = TemporaryDirectory(dir="/dev/shm")
        empty_ledger().plant(Path(self._folder.name))
        self._ledger = Ledger.open(Path(self._folder.name, "hive.db"), primed=0)
        return self._ledger

    def __exit__(self, *_: object) -> None:
        self._ledger.close()
        self._folder.cleanup()
