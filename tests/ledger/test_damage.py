"""Row R9 (a file whose pages are flipped or cut off) and attack 52 (a log that grows)."""

from __future__ import annotations

import random
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.messages import ids, letter
from long import seed, times

from hive_core.errors import Busy, StorageFull
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.core.connection import Damaged
from hive_core.ledger.core.ledger import Ledger

PAGE = 4096
ENTRY = AuditEntry("record", "anna", "send", "bob", allowed=True, rule="a", reason="b", commit="c",
              request="d", now=1.0)  # fmt: skip
Flip = Callable[[random.Random, bytearray], None]


def fill_ledger(path: Path) -> None:
    """Some of everything that grows."""
    ledger = Ledger.open(path)
    for batch in range(8):
        with ledger.transaction():
            for number in range(25):
                body = f"{batch} {number} " * (1 + 40 * (number % 7))
                ledger.messages.send(letter("anna", f"bob{number}", body), 1.0)
                ledger.events.append(ENTRY)
            lease = ledger.messages.lease(f"bob{batch}", 5, 60, 1.0)
            ledger.messages.ack(f"bob{batch}", ids(lease[::2]))
    ledger.close()
    with sqlite3.connect(path) as raw:  # no page is left that nobody needs
        raw.execute("DROP TABLE primer")
        raw.execute("VACUUM")
    raw.close()


def read_ledger(path: Path) -> list[object]:
    """Everything that a ledger says. Damaged when it says that it is."""
    ledger = Ledger.open(path)
    try:
        broken = ledger.events.verify()
        if broken is not None:
            raise Damaged(f"the audit log is broken at event {broken}")
        boxes = [
            ledger.messages.inbox(f"bob{number}", dead=False, limit=100) for number in range(25)
        ]
        return [boxes, ledger.events.page(0, 1000), ledger.head]
    finally:
        ledger.connection.close()


def garbage(chance: random.Random, page: bytearray) -> None:
    page[:] = chance.randbytes(PAGE)


def zeros(_: random.Random, page: bytearray) -> None:
    page[:] = bytes(PAGE)


def tear(chance: random.Random, page: bytearray) -> None:
    """A half of it never got to the disk."""
    at = chance.choice((512, 1024, 2048))
    page[at:] = chance.randbytes(PAGE - at)


@pytest.mark.sized
def test_r9_damage_is_found_or_nothing_is_missing(folder: Path) -> None:
    """At the start, or when the audit log is followed, or at the first read; never wrong mail."""
    sound = folder / "sound.db"
    fill_ledger(sound)
    before, whole = read_ledger(sound), sound.read_bytes()
    chance = random.Random(seed())  # noqa: S311 - no secret
    damaged = 0
    for _ in range(times(10, 200)):
        pages = bytearray(whole)
        flip: Flip = chance.choice((garbage, zeros, tear))
        at = chance.randrange(len(pages) // PAGE) * PAGE
        page = bytearray(pages[at : at + PAGE])
        flip(chance, page)
        pages[at : at + PAGE] = page
        damaged += damaged_or_same(folder / "hive.db", bytes(pages), before)
    for _ in range(times(3, 20)):
        cut = chance.randrange(1, len(whole) // PAGE) * PAGE
        damaged += damaged_or_same(folder / "hive.db", whole[:cut], before)
    assert damaged


def damaged_or_same(path: Path, pages: bytes, before: list[object]) -> bool:
    path.write_bytes(pages)
    try:
        now = read_ledger(path)
    except Damaged:
        return True
    finally:
        for file in path.parent.glob("hive.db-*"):
            file.unlink()
    # A page that is in no use.
    assert now == before
    return False


def test_r9_a_ledger_that_turns_out_damaged_is_only_read(folder: Path) -> None:
    path = folder / "hive.db"
    fill_ledger(path)
    ledger = Ledger.open(path)
    assert ledger.alarms() == []
    wreck(ledger)
    with pytest.raises(Damaged):
        ledger.events.page(0, 1000)
    with pytest.raises(Damaged, match="the ledger is damaged"), ledger.transaction():
        ledger.head = "new"
    assert ledger.messages.size("bob24")[0] > 0
    (alarm,) = ledger.alarms()
    assert "damaged" in alarm
    ledger.close()


def wreck(ledger: Ledger) -> None:
    """Every page of the events turns to zeros on the disk, and nothing is remembered of them."""
    ledger.connection.control("PRAGMA wal_checkpoint(TRUNCATE)")
    ledger.connection.control("PRAGMA shrink_memory")
    with ledger.connection.path.open("r+b") as file:
        for (page,) in ledger.connection.rows(
            "SELECT pageno FROM dbstat WHERE name = 'events' AND pagetype = 'leaf'"
        ):
            file.seek((page - 1) * PAGE)
            file.write(bytes(PAGE))
    ledger.connection.control("PRAGMA shrink_memory")


def test_r9_a_copy_made_under_load_is_whole_and_can_take_the_place(folder: Path) -> None:
    path, copy = folder / "hive.db", folder / "copy"
    fill_ledger(path)
    ledger = Ledger.open(path)
    copying = threading.Thread(target=ledger.back_up, args=(copy,))
    copying.start()
    try:
        # A load of so many and not of so long: which of the two ends first is the machine's affair.
        for number in range(900):
            with ledger.transaction():
                ledger.messages.send(letter("anna", "zoe", str(number)), 2.0)
                ledger.events.append(ENTRY)
    finally:
        copying.join()
        ledger.close()
    shutil.copy(copy, path)
    assert read_ledger(path)
    again = Ledger.open(path)
    inbox = again.messages.inbox("zoe", dead=False, limit=10_000)
    assert [message.body for message in inbox] == [str(number) for number in range(len(inbox))]
    assert len(again.messages.inbox("bob24", dead=False, limit=100)) == 8
    again.close()


def test_a_copy_of_a_damaged_ledger_does_not_take_the_place_of_a_sound_one(folder: Path) -> None:
    path, copy = folder / "hive.db", folder / "copy"
    fill_ledger(path)
    ledger = Ledger.open(path)
    ledger.back_up(copy)
    sound = copy.read_bytes()
    wreck(ledger)
    with pytest.raises(Damaged):
        ledger.back_up(copy)
    assert copy.read_bytes() == sound
    assert sorted(file.name for file in folder.glob("copy*")) == ["copy"]
    assert ledger.alarms()
    ledger.close()


def test_a_copy_needs_room_for_both(folder: Path) -> None:
    path = folder / "hive.db"
    fill_ledger(path)
    ledger = Ledger.open(path)
    with path.open("r+b") as file:
        file.truncate(1 << 50)
    with pytest.raises(StorageFull, match="cannot copy the ledger"):
        ledger.back_up(folder / "copy")
    ledger.connection.close()


def test_a_ledger_that_is_closed_is_not_copied(folder: Path) -> None:
    path = folder / "hive.db"
    fill_ledger(path)
    ledger = Ledger.open(path)
    ledger.close()
    with pytest.raises(Busy, match="the daemon is stopping"):
        ledger.back_up(folder / "copy")
    assert not list(folder.glob("copy*"))


def test_attack_52_no_caller_can_hold_the_log_open(folder: Path) -> None:
    """Another process gets no reader's lock, so that nothing keeps the log from being reused."""
    path = folder / "hive.db"
    ledger = Ledger.open(path)
    log = path.with_name("hive.db-wal")
    before = log.stat().st_size
    reader = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=0)
    for batch in range(60):
        with ledger.transaction():
            for number in range(100):
                ledger.messages.send(letter("anna", f"bob{batch}", f"{number} " * 800), 1.0)
        if batch % 20 == 0:
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                reader.execute("SELECT COUNT(*) FROM messages").fetchall()
    reader.close()
    assert ledger.connection.value("SELECT SUM(LENGTH(body)) FROM messages") > before
    assert log.stat().st_size == before
    ledger.close()


def test_attack_52_a_log_that_has_grown_is_told(ledger: Ledger, folder: Path) -> None:
    with (folder / "hive.db-wal").open("r+b") as file:
        file.truncate(65 << 20)
    (alarm,) = ledger.alarms()
    assert alarm == "the write-ahead log of the ledger has grown to 65 MiB"
