"""The ledger as a file: what survives, what is refused, and what stops everything."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest
from fixtures.forked import fork_program
from fixtures.ledger_processes import migrate, send_once, send_until_killed
from fixtures.messages import UndoRequested, bodies, letter, request_undo
from long import times

from hive_core.errors import Busy, Internal, StorageFull
from hive_core.ledger.core.ballast import Ballast
from hive_core.ledger.core.connection import Damaged, LedgerBroken, TooNew
from hive_core.ledger.core.ledger import MIGRATIONS, Ledger

ROOT = Path(__file__).parents[2]


def run_with_shim(shim: Path, fault: Path, *words: object) -> str:
    """What `meet_a_fault` says, in a new interpreter: a library is preloaded at its start."""
    done = subprocess.run(
        [sys.executable, "-m", "fixtures.ledger_processes", *map(str, words)],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, timeout=60, check=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "LD_PRELOAD": str(shim),
             "HIVE_FAULT": str(fault)},
    )  # fmt: skip
    return done.stdout


def test_the_head_is_empty_at_first_and_kept_then(folder: Path) -> None:
    for expected, after in (("", "a" * 40), ("a" * 40, "b" * 40)):
        ledger = Ledger.open(folder / "hive.db")
        assert ledger.head == expected
        with ledger.transaction():
            ledger.head = after
        ledger.close()


def test_a_transaction_that_fails_leaves_nothing(ledger: Ledger) -> None:
    with suppress(UndoRequested), ledger.transaction():
        ledger.head = "new"
        request_undo()
    assert ledger.head == ""


def test_savepoints_nest_and_undo_only_themselves(ledger: Ledger) -> None:
    with ledger.transaction(), ledger.savepoint():
        ledger.head = "outer"
        with suppress(UndoRequested), ledger.savepoint():
            ledger.head = "inner"
            request_undo()
        assert ledger.head == "outer"
    assert ledger.head == "outer"


def test_a_savepoint_whose_held_back_rows_do_not_fit_leaves_nothing(ledger: Ledger) -> None:
    """A damaged page may be detected this late; a refused call must leave no rows."""
    twice = "INSERT INTO tombstones (uuid, at) VALUES (?, ?)"
    with ledger.transaction():
        with suppress(Internal), ledger.savepoint():
            ledger.head = "new"
            ledger.connection.later(twice, ("one", 1.0))
            ledger.connection.later(twice, ("one", 2.0))
        assert ledger.head == ""
    assert ledger.head == ""


def test_counted_reads_outlive_a_transaction_that_fails(ledger: Ledger) -> None:
    ledger.events.reads.count("anna", "whoami")
    with suppress(UndoRequested), ledger.transaction():
        ledger.events.reads.keep_counts()
        request_undo()
    assert ledger.events.reads.reads_of("anna") == {"whoami": 1}


def test_nothing_can_be_changed_outside_of_a_transaction(ledger: Ledger) -> None:
    with pytest.raises(StorageFull):
        ledger.head = "new"


def test_a_second_daemon_is_refused(ledger: Ledger, folder: Path) -> None:
    with pytest.raises(Busy, match="another hived"):
        Ledger.open(folder / "hive.db")
    assert ledger.head == ""


def test_a_newer_schema_is_refused_and_left_alone(folder: Path) -> None:
    Ledger.open(folder / "hive.db").close()
    raw = sqlite3.connect(folder / "hive.db")
    raw.execute("PRAGMA user_version = 999")
    raw.close()
    with pytest.raises(TooNew, match="schema 999"):
        Ledger.open(folder / "hive.db")


@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_damaged_file_is_found_when_it_is_opened(folder: Path, where: int) -> None:
    ledger = Ledger.open(folder / "hive.db")
    with ledger.transaction():
        for number in range(300):
            ledger.messages.send(letter("anna", f"bob{number}", "x" * 1000), 1.0)
    ledger.close()
    file = folder / "hive.db"
    pages = bytearray(file.read_bytes())
    if where == 0:
        pages[:16] = b"not a database!!"
    elif where == 1:
        # Page 2 is the root of a table: an impossible cell count.
        pages[4096 + 3 : 4096 + 5] = b"\xff\xff"
    else:
        del pages[40_960:]
    file.write_bytes(pages)
    with pytest.raises(Damaged):
        Ledger.open(file)


def test_a_full_file_is_storage_full_and_the_whole_transaction_is_gone(ledger: Ledger) -> None:
    pages = ledger.connection.value("PRAGMA page_count")
    ledger.connection.control(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageFull):
        _send_much(ledger)
    assert ledger.messages.size("bob0") == (0, 0)
    with ledger.transaction():
        ledger.messages.send(letter("anna", "bob0"), 1.0)
    assert ledger.messages.size("bob0") == (1, 5)


def test_a_full_file_that_a_caller_hides_is_storage_full_at_the_end(ledger: Ledger) -> None:
    """A handler may catch what it likes: the rest of the batch is not committed statement-wise."""
    with pytest.raises(StorageFull):
        _hide_a_full_disk(ledger)
    assert ledger.head == ""


def _send_much(ledger: Ledger) -> None:
    with ledger.transaction():
        for number in range(10_000):
            with ledger.savepoint():
                ledger.messages.send(letter("anna", f"bob{number}", "x" * 60_000), 1.0)


def _hide_a_full_disk(ledger: Ledger) -> None:
    with ledger.transaction():
        ledger.connection.control("ROLLBACK")  # as SQLite does by itself
        with suppress(StorageFull):
            ledger.head = "new"


def test_a_disk_that_is_full_or_fails(folder: Path) -> None:
    """attack 52. Full: nothing was recorded, life goes on. fsync failed: nothing is acked after."""
    shim = folder / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    for kind, said, expected in (
        ("w", ["acked", "StorageFull", "acked"], ["fine", "fine"]),
        ("s", ["acked", "LedgerBroken", "LedgerBroken"], ["fine"]),
    ):
        home = folder / kind
        home.mkdir()
        assert run_with_shim(shim, home / "fault", home, kind).split() == said
        ledger = Ledger.open(home / "hive.db")
        result = bodies(ledger.messages.inbox("bob", dead=False, limit=10))
        # What was not acked after a failed fsync may be there or not.
        assert [word for word in result if word != kind] == expected
        assert kind != "w" or result == expected
        ledger.close()


@pytest.mark.parametrize(("step", "there"), [("commit", False), ("committed", True)])
def test_a_kill_around_commit_leaves_exactly_old_or_new(
    folder: Path,
    step: str,
    there: bool,  # noqa: FBT001
) -> None:
    with fork_program(lambda: send_once(folder, step)) as process:
        assert process.stdout.read() == ""
        assert process.wait() == -signal.SIGKILL
    ledger = Ledger.open(folder / "hive.db")
    assert ledger.head == ("new" if there else "")
    assert ledger.messages.size("bob") == ((1, 5) if there else (0, 0))
    ledger.close()


@pytest.mark.sized
def test_kill_9_under_load_loses_nothing_acked(folder: Path) -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    for _ in range(times(2, 10)):
        with fork_program(lambda: send_until_killed(folder)) as process:
            acked = [process.stdout.readline() for _ in range(chance.randrange(1, 400))]
            process.kill()
            acked += process.stdout.readlines()
            process.wait()
        last = int(acked[-1] if acked[-1].endswith("\n") else acked[-2])
        _check(folder, last)


def _check(folder: Path, last: int) -> None:
    """All batches up to `last` are there, each whole and once; then start anew."""
    ledger = Ledger.open(folder / "hive.db")
    rows = ledger.connection.rows("SELECT body FROM messages ORDER BY id")
    result = [row[0] for row in rows]
    expected = [f"{batch} {number}" for batch in range(1, last + 2) for number in range(5)]
    assert result in (expected, expected[:-5])
    assert ledger.connection.value("PRAGMA integrity_check") == "ok"
    with ledger.transaction():
        for table in ("queue", "messages", "parties"):
            ledger.connection.run(f"DELETE FROM {table}")  # noqa: S608
    ledger.close()


def test_a_kill_in_a_migration_leaves_the_older_schema(folder: Path) -> None:
    migrations = folder / "migrations"
    migrations.mkdir()
    for file in MIGRATIONS.glob("*.sql"):
        (migrations / file.name).write_text(file.read_text())
    Ledger.open(folder / "hive.db", migrations).close()
    number = len(list(migrations.iterdir())) + 1
    (migrations / f"{number:04d}_more.sql").write_text(
        "CREATE TABLE more (a);\nINSERT INTO more VALUES (1);\n"
    )
    with fork_program(lambda: migrate(folder, migrations, f"migration {number}")) as process:
        assert process.stdout.read() == ""
        assert process.wait() == -signal.SIGKILL
    raw = sqlite3.connect(folder / "hive.db")
    assert raw.execute("PRAGMA user_version").fetchone() == (number - 1,)
    assert not raw.execute("SELECT 1 FROM sqlite_schema WHERE name = 'more'").fetchall()
    raw.close()
    ledger = Ledger.open(folder / "hive.db", migrations)
    assert ledger.connection.rows("SELECT a FROM more") == [(1,)]
    ledger.close()


def test_migrations_are_numbered_without_a_gap(folder: Path) -> None:
    migrations = folder / "migrations"
    migrations.mkdir()
    (migrations / "0002_more.sql").write_text("CREATE TABLE more (a);\n")
    with pytest.raises(Damaged, match="not numbered"):
        Ledger.open(folder / "hive.db", migrations)


def test_the_log_has_its_size_before_the_first_call(folder: Path) -> None:
    with closing(Ledger.open(folder / "hive.db")) as ledger:
        wal = folder / "hive.db-wal"
        before = wal.stat().st_size
        assert before >= 8 << 20
        with ledger.transaction():
            ledger.messages.send(letter("anna", "bob"), 1.0)
        assert wal.stat().st_size == before
        ledger.checkpoint()


def test_commits_reach_the_disk(ledger: Ledger) -> None:
    assert ledger.connection.value("PRAGMA synchronous") == 2
    assert ledger.connection.value("PRAGMA journal_mode") == "wal"


def test_a_broken_ledger_stays_broken() -> None:
    assert not issubclass(LedgerBroken, Exception)


def test_ballast_is_real_room_that_can_be_given_up_and_taken_back(folder: Path) -> None:
    ballast = Ballast(folder / "ballast", 1 << 20)
    assert not ballast.release()
    assert ballast.short
    assert ballast.restore()
    assert not ballast.short
    stat = (folder / "ballast").stat()
    assert stat.st_blocks * 512 >= 1 << 20
    assert ballast.restore()
    assert ballast.release()
    assert not ballast.held


def test_ballast_is_not_taken_from_a_disk_that_is_nearly_full(folder: Path) -> None:
    assert not Ballast(folder / "ballast", 1 << 60).restore()
    assert not Ballast(folder / "none", 0).restore()
    assert list(folder.iterdir()) == []
