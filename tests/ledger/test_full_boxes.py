"""Boxes that hold very much: what ends at once does not hold up everybody else."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.messages import ids, letter

from hive_core.errors import NotFound
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.config.settings import HostLimits
from hive_core.model.wire.record import DAEMON

MANY = 2500
WIDE = HostLimits(inbox_count=10_000, inbox_bytes=10**9)


def full(folder: Path) -> Ledger:
    ledger = Ledger.open(folder / "hive.db", limits=WIDE, primed=0)
    with ledger.transaction():
        for number in range(MANY):
            ledger.messages.send(letter(f"s{number % 2}", "bob", str(number)), 10.0)
        ledger.messages.lease("bob", 100, 60, 11.0)
    return ledger


def dead_letter_rest(ledger: Ledger) -> int:
    """Bury what is left as the daemon does, a transaction a part; how many of them died."""
    dead = 0
    for _ in range(10):
        if ledger.messages.next_due() != 0.0:
            break
        with ledger.transaction():
            expire = ledger.messages.expire(12.0)
        assert len(expire) <= 1000
        dead += len(expire)
    return dead


def test_a_very_full_box_is_buried_a_part_at_a_time(folder: Path) -> None:
    ledger = full(folder)
    with ledger.transaction():
        first = ledger.messages.dead_letter("bob", "bob was destroyed", 12.0)
    assert len(first) == 1000
    with ledger.transaction(), pytest.raises(NotFound):
        ledger.messages.send(letter("anna", "bob"), 12.0)
    assert dead_letter_rest(ledger) == MANY - 1000
    assert ledger.messages.size("bob") == (0, 0)
    assert ledger.messages.next_due() is None
    dead = ledger.messages.inbox("bob", dead=True, limit=9999)
    assert [message.body for message in dead] == [str(number) for number in range(MANY)]
    assert {message.dead_why for message in dead} == {"bob was destroyed"}
    for sender in ("s0", "s1"):
        inbox = ledger.messages.inbox(sender, dead=False, limit=9)
        assert [message.sender for message in inbox] == [DAEMON] * 3
    ledger.close()


def test_a_daemon_that_ends_in_between_goes_on_with_it(folder: Path) -> None:
    ledger = full(folder)
    with ledger.transaction():
        ledger.messages.dead_letter("bob", "bob was destroyed", 12.0)
    ledger.close()
    ledger = Ledger.open(folder / "hive.db", limits=WIDE, primed=0)
    assert dead_letter_rest(ledger) == MANY - 1000
    ledger.close()


def test_an_agent_restored_in_between_has_the_rest(folder: Path) -> None:
    ledger = full(folder)
    with ledger.transaction():
        ledger.messages.dead_letter("bob", "bob was destroyed", 12.0)
        ledger.messages.reopen("bob")
    assert dead_letter_rest(ledger) == 0
    assert ledger.messages.size("bob")[0] == MANY - 1000
    ledger.close()


def test_one_dead_letter_too_many_lets_go_of_one(folder: Path) -> None:
    """The purge reads one row, however many dead letters are kept."""
    ledger = Ledger.open(
        folder / "hive.db", limits=HostLimits(inbox_count=1000, inbox_bytes=10**9), primed=0
    )
    mail, steps = ledger.messages, [0]

    def step() -> int:
        steps[0] += 1
        return 0

    def die() -> int:
        """Steps of the database's machine that one more takes."""
        steps[0] = 0
        with ledger.transaction():
            mail.send(letter(DAEMON, "bob"), 10.0)
            mail.nack("bob", ids(mail.lease("bob", 1, 60, 10.0)), "", 10.0, dead=True)
        return steps[0]

    ledger.connection._raw.set_progress_handler(step, 1)
    few = [die() for _ in range(10)]
    for _ in range(1000):
        die()
    many = [die() for _ in range(10)]
    ledger.connection._raw.set_progress_handler(None, 0)
    assert len(mail.inbox("bob", dead=True, limit=9999)) == 1000
    assert sum(many) < 6 * sum(few)
    ledger.close()
