"""Messages without a place in the queue are still delivered, also after a kill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from fixtures.forked import fork_program
from fixtures.ledger_processes import send_until_killed
from fixtures.messages import UndoRequested, bodies, ids, letter, request_undo

from hive_core.errors import StorageFull
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.mail.mailboxes import UNPLACED
from hive_core.model.config.settings import HostLimits

ROOT = Path(__file__).parents[2]
ENTRY = AuditEntry("record", "anna", "send", "bob", allowed=True, rule="a sibling of the agent",
              reason="a sibling", commit="0" * 40, request="0123456789ab-1", now=1.0)  # fmt: skip
WIDE = HostLimits(inbox_count=10**6, inbox_bytes=10**9)


@pytest.fixture
def wide(folder: Path) -> Iterator[Ledger]:
    ledger = Ledger.open(folder / "wide.db", limits=WIDE)
    yield ledger
    ledger.close()


def places(ledger: Ledger) -> int:
    return int(ledger.connection.value("SELECT COUNT(*) FROM queue"))


def test_a_send_touches_no_page_of_the_queue(ledger: Ledger) -> None:
    with ledger.transaction():
        sent = ledger.messages.send(letter("anna", "bob"), 1.0)
    assert places(ledger) == 0
    assert ledger.messages.size("bob") == (1, 5)
    assert ledger.messages.get(sent.id) == sent
    assert ledger.messages.inbox("bob", dead=False, limit=5) == [sent]
    with ledger.transaction():
        assert ids(ledger.messages.lease("bob", 5, 60, 2.0)) == [sent.id]
    assert places(ledger) == 1


def test_a_place_that_is_refused_outside_of_a_transaction_loses_no_message(ledger: Ledger) -> None:
    with ledger.transaction():
        sent = ledger.messages.send(letter("anna", "bob"), 1.0)
    with pytest.raises(StorageFull):
        ledger.messages.untaken("bob", sent.id)
    with ledger.transaction():
        assert ids(ledger.messages.lease("bob", 5, 60, 2.0)) == [sent.id]


def test_a_send_writes_few_pages(wide: Ledger) -> None:
    """What a send costs on the disk: counted, because a clock would count the neighbours too."""

    def pages(batch: int) -> float:
        frames(wide)
        for _ in range(20):
            with wide.transaction():
                for number in range(batch):
                    wide.messages.send(letter("anna", f"bob{number}", "How is the build?"), 1.0)
                    wide.events.append(ENTRY)
        return frames(wide) / 20

    wide.connection.control("PRAGMA wal_autocheckpoint = 0")
    # Its row, its event, the end of the chain; now and then a new page of one of them.
    assert pages(1) < 4
    # And not one for each box.
    assert pages(100) < 30


def frames(ledger: Ledger) -> int:
    """Pages in the log, which begins afresh with the next one."""
    ((_, pages, _),) = ledger.connection.control("PRAGMA wal_checkpoint(PASSIVE)")
    return int(pages)


def test_a_listing_joins_those_with_a_place_and_those_without(ledger: Ledger) -> None:
    with ledger.transaction():
        for number in range(6):
            ledger.messages.send(letter("anna", "bob", str(number), priority=number % 4), 1.0)
            if number in (1, 3):
                ledger.messages.lease("bob", 1, 60, 2.0)
    assert places(ledger) == 4
    listed = ledger.messages.inbox("bob", dead=False, limit=5)
    assert bodies(listed) == ["0", "1", "2", "3", "4"]
    assert bodies(ledger.messages.inbox("bob", dead=False, limit=5, after=listed[3].id)) == [
        "4", "5",
    ]  # fmt: skip


def test_only_so_many_are_without_a_place(wide: Ledger) -> None:
    """What is left for a start to look at is bounded, however mail comes in."""
    with wide.transaction():
        wide.messages.send(letter("anna", "quiet"), 1.0)
    for batch in range(3 * UNPLACED // 100):
        with wide.transaction():
            for number in range(100):
                wide.messages.send(letter("anna", f"bob{number}", str(batch)), 2.0)
    total = wide.connection.value("SELECT COUNT(*) FROM messages")
    assert total - places(wide) <= UNPLACED
    later = wide.connection.value(
        "SELECT COUNT(*) FROM messages"
        " WHERE id > (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'placed')"
    )
    assert later <= 2 * UNPLACED + 200
    with wide.transaction():
        lease = wide.messages.lease("bob7", 1000, 60, 3.0)
    assert bodies(lease) == [str(batch) for batch in range(3 * UNPLACED // 100)]


def test_one_box_gets_its_places_in_parts_and_in_order(wide: Ledger) -> None:
    for batch in range(0, 2 * UNPLACED, 64):
        with wide.transaction():
            for number in range(batch, batch + 64):
                wide.messages.send(letter("anna", "bob", str(number)), 1.0)
    assert UNPLACED <= places(wide) < 2 * UNPLACED
    with wide.transaction():
        result = bodies(wide.messages.lease("bob", 3 * UNPLACED, 60, 3.0))
    assert result == [str(number) for number in range(2 * UNPLACED)]


def test_what_had_no_place_at_a_kill_gets_it_at_the_start(folder: Path) -> None:
    acked = batches_before_kill(folder, 60)
    ledger = Ledger.open(folder / "hive.db", primed=0)
    assert places(ledger) == ledger.connection.value("SELECT COUNT(*) FROM messages")
    for number in range(50):
        waiting = ledger.messages.inbox(f"bob{number}", dead=False, limit=1000)
        assert ledger.messages.size(f"bob{number}") == (
            len(waiting), sum(len(message.body) for message in waiting),
        )  # fmt: skip
        wanted = [f"{batch} {place}" for batch in range(1, acked + 1) for place in range(5)
                  if batch % 50 == number]  # fmt: skip
        assert bodies(waiting)[: len(wanted)] == wanted
    ledger.close()


def batches_before_kill(folder: Path, least: int) -> int:
    """Batches that a process acknowledged before it was killed."""
    last = 0
    with fork_program(lambda: send_until_killed(folder)) as process:
        while last < least:
            last = int(process.stdout.readline())
        process.kill()
        process.stdout.read()
        process.wait()
    return last


def test_a_rollback_takes_back_what_is_remembered(ledger: Ledger) -> None:
    mail = ledger.messages
    with ledger.transaction():
        first = mail.send(letter("anna", "bob", "1"), 1.0)
        with suppress(UndoRequested), ledger.savepoint():
            mail.send(letter("anna", "bob", "2", ttl=5.0), 1.0)
            mail.send(letter("anna", "new", "3"), 1.0)
            mail.ack("bob", [first.id])
            mail.dead_letter("new", "gone", 1.0)
            request_undo()
        assert mail.size("bob") == (1, 1)
        assert mail.size("new") == (0, 0)
        assert mail.next_due("bob") is None
        assert bodies(mail.lease("bob", 5, 60, 100.0)) == ["1"]
    with suppress(UndoRequested), ledger.transaction():
        mail.send(letter("anna", "bob", "4"), 1.0)
        with ledger.savepoint():
            mail.ack("bob", [first.id])
        request_undo()
    assert mail.size("bob") == (1, 1)
    with ledger.transaction():
        mail.send(letter("anna", "new", "5"), 1.0)
    assert ledger.connection.value("PRAGMA integrity_check") == "ok"
    assert mail.size("new") == (1, 1)


def test_the_counters_are_those_of_the_queue_after_a_restart(folder: Path) -> None:
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        for number in range(9):
            ledger.messages.send(letter("anna", "bob", "x" * number), 1.0)
        lease = ledger.messages.lease("bob", 4, 60, 1.0)
        ledger.messages.ack("bob", ids(lease[:2]))
        ledger.messages.nack("bob", ids(lease[2:3]), "no", 1.0, dead=True)
    before = ledger.messages.size("bob")
    ledger.close()
    ledger = Ledger.open(folder / "hive.db", primed=0)
    assert ledger.messages.size("bob") == before == (6, 3 + 4 + 5 + 6 + 7 + 8)
    ledger.close()


@pytest.mark.parametrize("same", [False, True])
def test_a_full_disk_while_they_get_their_places_loses_none(folder: Path, *, same: bool) -> None:
    """`same`: a message of the transaction that fails is not there, as no send was answered."""
    count = 2000
    with closing(Ledger.open(folder / "full.db", limits=WIDE, primed=0)) as ledger:
        with ledger.transaction():
            for number in range(count):
                ledger.messages.send(letter("anna", "bob", str(number)), 1.0)
        ((pages,),) = ledger.connection.control("PRAGMA page_count")
        ledger.connection.control(f"PRAGMA max_page_count = {pages}")

        def lease_on_full_disk() -> None:
            with ledger.transaction():
                if same:
                    ledger.messages.send(letter("anna", "bob", "too late"), 2.0)
                ledger.messages.lease("bob", count, 60, 2.0)

        with pytest.raises(StorageFull):
            lease_on_full_disk()
        ledger.connection.control("PRAGMA max_page_count = 1000000")
        assert ledger.messages.size("bob")[0] == count
        with ledger.transaction():
            leased = bodies(ledger.messages.lease("bob", count, 60, 2.0))
        assert leased == [str(number) for number in range(count)]
