"""Row R20: a ledger of an older schema, with data in it, is the same ledger in the newer one."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from pathlib import Path
from random import Random

import pytest
from each import for_each
from fixtures.ledger_processes import end_at
from fixtures.messages import bodies, letter
from fixtures.seeds import empty_ledger
from long import seed, times

from hive_core.errors import InvalidArgument
from hive_core.ledger.core.connection import TooNew
from hive_core.ledger.core.ledger import MIGRATIONS, Ledger
from hive_core.ledger.core.opening import migration_scripts, statements

pytestmark = pytest.mark.slow

OLD = """
INSERT INTO parties VALUES (1, 'anna', 'anna', 0, 0, 0, 0, 0, 0, 0);
INSERT INTO parties VALUES (2, 'bob', 'bob', 0, 3, 9, 1, 4, 1, 4);
INSERT INTO messages VALUES (11, 1, 2, 'child', 'message', NULL, NULL, 2, 1.0, NULL, 'one');
INSERT INTO messages VALUES (12, 1, 2, 'child', 'message', 'talk', NULL, 2, 1.0, NULL, 'two');
INSERT INTO messages VALUES (13, 1, 2, 'child', 'message', NULL, NULL, 1, 1.0, 99.0, 'now');
INSERT INTO messages VALUES (14, 1, 2, 'child', 'message', NULL, NULL, 2, 1.0, NULL, 'dead');
INSERT INTO messages VALUES (15, 1, 2, 'child', 'message', NULL, NULL, 2, 1.0, NULL, 'done');
INSERT INTO queue VALUES (2, 0, 2, 11, 3, 0, NULL, NULL);
INSERT INTO queue VALUES (2, 1, 2, 12, 3, 1, 60.0, NULL);
INSERT INTO queue VALUES (2, 0, 1, 13, 3, 0, 99.0, NULL);
INSERT INTO queue VALUES (2, 3, 0, 14, 4, 5, NULL, 'given up');
INSERT INTO queue VALUES (2, 4, 0, 15, 4, 1, NULL, NULL);
INSERT INTO meta VALUES ('head', 'abc'), ('mail', '15');
"""


@pytest.fixture
def old(folder: Path) -> Path:
    """A ledger as the first schema had it."""
    path = folder / "hive.db"
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        for script in ((MIGRATIONS / "0001_first_tables.sql").read_text(), OLD):
            for statement in statements(script):
                raw.execute(statement)
        raw.execute("PRAGMA user_version = 1")
    raw.close()
    return path


def test_mail_of_the_first_schema_is_all_there(old: Path) -> None:
    ledger = Ledger.open(old)
    mail = ledger.messages
    assert ledger.head == "abc"
    assert mail.size("bob") == (3, 9)
    assert bodies(mail.inbox("bob", dead=False, limit=9)) == ["one", "two", "now"]
    assert bodies(mail.inbox("bob", dead=True, limit=9)) == ["dead"]
    assert mail.next_due("bob") == 60.0
    with ledger.transaction():
        assert bodies(mail.lease("bob", 9, 60, 2.0)) == ["now", "one"]
        assert mail.send(letter("anna", "bob", "new"), 0.0).id == f"{16:013x}"
        assert bodies(mail.lease("bob", 9, 60, 61.0)) == ["two", "new"]
    ledger.close()


def test_talks_of_the_first_schema_stay_closed_to_others(old: Path) -> None:
    ledger = Ledger.open(old)
    assert ledger.messages.belongs("talk", "anna") is True
    with ledger.transaction(), pytest.raises(InvalidArgument):
        ledger.messages.send(letter("carol", "bob", thread="talk"), 2.0)
    ledger.close()


def test_all_migrations_run_on_an_empty_ledger_too(folder: Path) -> None:
    ledger = Ledger.open(folder / "new.db")
    files = len(list(MIGRATIONS.glob("*.sql")))
    assert ledger.connection.value("PRAGMA user_version") == files
    ledger.close()
    shutil.copy(folder / "new.db", folder / "copy.db")
    Ledger.open(folder / "copy.db").close()


def create_golden(path: Path, number: int) -> None:
    """A golden ledger of the version that knew the first migrations only, with data in it."""
    files = migration_scripts(MIGRATIONS)[:number]
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        for at, file in enumerate(files, 1):
            for statement in statements(file.read_text()):
                raw.execute(statement)
            if at == 1:
                for statement in statements(OLD):
                    raw.execute(statement)
        raw.execute(f"PRAGMA user_version = {number}")
    raw.close()


def content(path: Path) -> list[str]:
    """Schema, version and every row."""
    raw = sqlite3.connect(path)
    result = [*raw.iterdump(), *map(str, raw.execute("PRAGMA user_version"))]
    raw.close()
    return result


STEPS = [
    (number, at)
    for number, file in enumerate(migration_scripts(MIGRATIONS), 1)
    for at, _ in enumerate(statements(file.read_text()), 1)
    if number > 1
]


NUMBERS = sorted({number for number, _ in STEPS})
NEWEST, OLDER = NUMBERS[-4:], NUMBERS[:-4]  # the older ones were killed often enough
DRAWN = Random(seed()).sample(OLDER, times(4, len(OLDER)))  # noqa: S311 - no secret


@pytest.mark.sized
@for_each("number", [*DRAWN, *NEWEST])
def test_a_kill_at_any_statement_of_a_migration_loses_nothing(folder: Path, number: int) -> None:
    """Each time as the older one left it, killed; then opened by one that is not."""
    folder /= str(number)
    folder.mkdir()
    create_golden(folder / "golden.db", number - 1)
    shutil.copy(folder / "golden.db", folder / "whole.db")
    Ledger.open(folder / "whole.db", primed=0).close()
    golden, wanted, ends = content(folder / "golden.db"), content(folder / "whole.db"), 0
    steps = [f"migration {number} statement {at}" for migration, at in STEPS if migration == number]
    drawn = Random(seed())  # noqa: S311 - a schedule, no secret
    short = 3 if number in NEWEST else 1
    for step in drawn.sample(steps, min(len(steps), times(short, len(steps)))):
        for left in folder.glob("killed.db*"):
            left.unlink()
        shutil.copy(folder / "golden.db", folder / "killed.db")
        child = os.fork()
        if not child:
            Ledger.open(folder / "killed.db", step=end_at(step), primed=0)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert content(folder / "killed.db") == golden, step
        Ledger.open(folder / "killed.db", primed=0).close()
        assert content(folder / "killed.db") == wanted, step
        ends += 1
    assert ends


def test_an_older_hived_refuses_a_newer_ledger_and_leaves_it_as_it_is(folder: Path) -> None:
    empty_ledger().plant(folder)
    older, before = folder / "older", content(folder / "hive.db")
    older.mkdir()
    for number, file in enumerate(migration_scripts(MIGRATIONS)[:-1], 1):
        shutil.copy(file, older)
        with pytest.raises(TooNew, match=f"this hived knows only {number}:"):
            Ledger.open(folder / "hive.db", older, primed=0)
    assert content(folder / "hive.db") == before
