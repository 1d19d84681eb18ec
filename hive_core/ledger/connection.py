"""The SQLite connection: how it is opened, what its failures mean, and nothing about tables."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from hive_core.errors import Busy, HiveError, Internal, StorageFull
from hive_core.ledger.undo import Undo

Row = tuple[Any, ...]

CHECKPOINT_PAGES = 4096
_FIRST_BYTE = 0xFF  # the low byte of an extended code is the primary one
_PRIME_BYTES = 8 << 20
_WAL_LIMIT = 64 << 20
_CHECK_WHOLE = 256 << 20
_GROWING = frozenset({"messages", "queue", "events", "keys"})


class Broken(BaseException):
    """The disk failed under the ledger: what was acknowledged may be lost if we carried on.

    No Exception, so that nothing on the way catches it: the daemon stops and a new one reads from
    disk what is really there (https://lwn.net/Articles/752063/: a failed fsync is not retried).
    """


class Damaged(Internal):
    """The file is no sound ledger; nothing was changed in it."""


class TooNew(Internal):
    """A newer hived wrote this ledger; this one must not touch it."""


def meaning(error: sqlite3.Error) -> BaseException:
    """What a failure of SQLite means for us."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & _FIRST_BYTE if isinstance(code, int) else None
    found: BaseException
    if primary == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:
        found = StorageFull("the disk of the host is full")
    elif primary in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        found = Broken(f"the ledger cannot be written: {error}")
    elif primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        found = Damaged(f"the ledger is damaged: {error}")
    elif primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        found = Busy("another hived has the ledger open")
    else:
        found = Internal(f"the ledger refused: {error}")
    return found


class Connection:
    """Statements in, rows out; every failure is a HiveError or Broken.

    Statements are prepared once each and reused (the cache of the sqlite3 module). Rows that many
    calls of a batch insert are held back and go in together (`later`): one statement for all costs
    half of one for each. Every other statement finds them in the tables.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.undo = Undo()
        self._broken: Broken | None = None
        self._later: defaultdict[str, list[Row]] = defaultdict(list)
        self._held = 0
        try:
            self._raw = sqlite3.connect(
                path, isolation_level=None, cached_statements=256, timeout=1
            )
        except sqlite3.Error as error:
            raise self._failure(error) from error
        self._execute = self._raw.execute

    @property
    def inside(self) -> bool:
        """Whether a transaction is open."""
        return self._raw.in_transaction

    @property
    def changes(self) -> int:
        """Rows changed so far, those rolled back included: equal means that nothing happened."""
        return self._raw.total_changes + self._held

    def later(self, sql: str, row: Row) -> None:
        """Insert a row of this transaction, in which nothing but a full disk can be in the way."""
        if not self._raw.in_transaction:
            raise StorageFull("the transaction is gone: the disk of the host is full")
        self._later[sql].append(row)
        self._held += 1

    def flush(self) -> None:
        """Put what was held back into the tables."""
        held = list(self._later.items())
        self.drop()
        for sql, rows in held:
            self.run_each(sql, rows)

    def drop(self) -> None:
        """Forget what was held back: it is rolled back."""
        self._later.clear()
        self._held = 0

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        """Change something inside the open transaction; the number of rows changed."""
        if self._held:
            self.flush()
        # SQLite may end a transaction by itself (a full disk does); outside of one each statement
        # would commit alone.
        if not self._raw.in_transaction:
            raise StorageFull("the transaction is gone: the disk of the host is full")
        try:
            return self._execute(sql, values).rowcount
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def run_each(self, sql: str, many: Iterable[Sequence[object]]) -> None:
        """Run one statement for each of `many`."""
        if self._held:
            self.flush()
        if not self._raw.in_transaction:
            raise StorageFull("the transaction is gone: the disk of the host is full")
        try:
            self._raw.executemany(sql, many)
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """All rows of a query, or of a change with RETURNING."""
        if self._held:
            self.flush()
        try:
            return self._execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def row(self, sql: str, values: Sequence[object] = ()) -> Row | None:
        """The one row of a query, or None."""
        if self._held:
            self.flush()
        try:
            found: Row | None = self._execute(sql, values).fetchone()
        except sqlite3.Error as error:
            raise self._failure(error) from error
        return found

    def value(self, sql: str, values: Sequence[object] = ()) -> Any:  # noqa: ANN401
        """The first column of the one row, or None."""
        found = self.row(sql, values)
        return None if found is None else found[0]

    def control(self, sql: str) -> list[Row]:
        """A statement of our own that is not about rows: BEGIN, COMMIT, PRAGMA, DDL."""
        if self._broken is not None:
            raise self._broken
        return self.rows(sql)

    def begin(self) -> None:
        self.control("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """COMMIT, fsync included. When it fails nothing was committed, or we are Broken."""
        if not self._raw.in_transaction:
            raise StorageFull("the transaction is gone: the disk of the host is full")
        try:
            self.control("COMMIT")
        except HiveError:
            self.roll_back()
            raise
        self.undo.clear()

    def roll_back(self) -> None:
        """As it was before `begin`, in the tables and in memory."""
        self.drop()
        self.undo.back_all()
        if self._raw.in_transaction and self._broken is None:
            self.control("ROLLBACK")

    def save(self) -> None:
        """Begin a savepoint; they nest."""
        self.run("SAVEPOINT call")
        self.undo.mark()

    def release(self) -> None:
        """End the innermost savepoint well."""
        if self._raw.in_transaction:
            self.run("RELEASE call")
        self.undo.release()

    def back(self) -> None:
        """Undo the innermost savepoint, if the transaction still stands."""
        self.drop()
        self.undo.back()
        if self._raw.in_transaction:
            self.run("ROLLBACK TO call")
            self.run("RELEASE call")

    def close(self) -> None:
        try:
            self._raw.close()
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> BaseException:
        found = meaning(error)
        if isinstance(found, Broken):
            self._broken = found
        return found


def configure(connection: Connection) -> None:
    """Durable at every COMMIT, one process only, no surprise files."""
    # EXCLUSIVE keeps the index of the WAL in memory and shuts out a second daemon.
    # https://www.sqlite.org/wal.html#use_of_wal_without_shared_memory
    connection.control("PRAGMA locking_mode = EXCLUSIVE")
    if connection.control("PRAGMA journal_mode = WAL") != [("wal",)]:
        raise Damaged("the ledger cannot use a write-ahead log here")
    for setting in (
        "synchronous = FULL",
        "temp_store = MEMORY",
        "cache_size = -65536",
        "foreign_keys = ON",
        "trusted_schema = OFF",
        "cell_size_check = ON",
        f"journal_size_limit = {_WAL_LIMIT}",
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
    ):
        connection.control(f"PRAGMA {setting}")


def check(connection: Connection) -> None:
    """Refuse a damaged file. A large one is checked but for the tables that make it large."""
    path = connection.path
    if path.stat().st_size <= _CHECK_WHOLE:
        _sound(connection.control("PRAGMA quick_check(1)"))
        return
    for (table,) in connection.control("SELECT name FROM sqlite_schema WHERE type = 'table'"):
        if table not in _GROWING:
            _sound(connection.control(f"PRAGMA quick_check({table})"))


def _sound(rows: list[Row]) -> None:
    if rows != [("ok",)]:
        raise Damaged(f"the ledger is damaged: {rows[0][0] if rows else 'no answer'}")


def prime(connection: Connection) -> None:
    """Let the WAL have its size before the first call: rewriting blocks is cheaper than growing.

    A disk too full for it is no reason to refuse to start.
    """
    try:
        for step in (
            "CREATE TABLE IF NOT EXISTS primer (bytes BLOB NOT NULL) STRICT",
            f"INSERT INTO primer VALUES (zeroblob({_PRIME_BYTES}))",  # noqa: S608
            "DELETE FROM primer",
        ):
            connection.begin()
            connection.control(step)
            connection.commit()
        connection.control("PRAGMA wal_checkpoint(RESTART)")
    except StorageFull:
        connection.roll_back()


def migrate(connection: Connection, folder: Path, step: Callable[[str], None]) -> None:
    """Bring the schema up to date, one transaction for each file; refuse one that is ahead."""
    files = sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))
    if [int(file.name[:4]) for file in files] != list(range(1, len(files) + 1)):
        raise Damaged(f"the migrations in {folder} are not numbered 1 to {len(files)}")
    (version,) = connection.control("PRAGMA user_version")[0]
    if version > len(files):
        reason = f"the ledger has schema {version} and this hived knows {len(files)}"
        raise TooNew(f"{reason}: install the newer one again")
    for number, file in enumerate(files[version:], version + 1):
        connection.begin()
        try:
            for statement in statements(file.read_text(encoding="utf-8")):
                connection.control(statement)
            connection.control(f"PRAGMA user_version = {number}")
            step(f"migration {number}")
            connection.commit()
        finally:
            connection.roll_back()


def statements(script: str) -> list[str]:
    """The statements of a script. executescript() would commit before the first one."""
    found, rest = [], ""
    for line in script.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            found.append(rest)
            rest = ""
    return found
