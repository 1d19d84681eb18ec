"""A copy that fails says nothing about the ledger, unless the ledger itself is what is damaged."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fixtures.messages import letter

from hive_core.errors import Internal
from hive_core.ledger.core.ledger import Ledger

PAGE = 4096


@pytest.fixture
def ledger(folder: Path) -> Iterator[Ledger]:
    opened = Ledger.open(folder / "hive.db", primed=0)
    send(opened, 3_000)
    yield opened
    opened.close()


def send(ledger: Ledger, count: int) -> None:
    with ledger.transaction():
        for number in range(count):
            ledger.messages.send(letter("anna", f"bob{number % 50}", "hello " * 100), 1.0)


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """write(2) says EFBIG, which SQLite tells as an I/O error."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def corrupt_writes(path: Path) -> Iterator[None]:
    """A disk that does not hold what was written to it."""
    done = threading.Event()

    def scribble() -> None:
        while not path.exists():
            if done.wait(0.0005):
                return
        handle = os.open(path, os.O_WRONLY)
        while not done.is_set():
            for page in range(40):
                os.pwrite(handle, b"\xa5" * PAGE, page * PAGE)
        os.close(handle)

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def sound(ledger: Ledger, folder: Path) -> None:
    """It serves on, and the next copy is made."""
    assert (ledger.connection.damage, ledger.alarms()) == ("", [])
    send(ledger, 5)
    assert not list(folder.glob("copy*"))
    ledger.back_up(folder / "copy")
    again = Ledger.open(folder / "copy")
    assert len(again.messages.inbox("bob0", dead=False, limit=100)) == 61
    again.close()


def test_a_disk_that_fails_under_the_copy_leaves_the_ledger_in_use(
    ledger: Ledger, folder: Path
) -> None:
    with no_file_larger_than(200_000), pytest.raises(Internal, match="disk I/O error"):
        ledger.back_up(folder / "copy")
    sound(ledger, folder)


def copy_on_bad_disk(ledger: Ledger, folder: Path) -> Internal:
    """The error of a copy that was damaged; on a busy machine some copies end before the damage."""
    for _ in range(100):
        with corrupt_writes(folder / "copy.new"):
            try:
                ledger.back_up(folder / "copy")
            except Internal as error:
                return error
        (folder / "copy").unlink()
    pytest.fail("no copy was damaged in time")


def test_a_copy_that_is_damaged_where_it_lies_is_no_damage_of_the_ledger(
    ledger: Ledger, folder: Path
) -> None:
    assert "the ledger itself is sound" in str(copy_on_bad_disk(ledger, folder))
    sound(ledger, folder)
