"""The SQLite connection: statements, transactions, and the translation of failures."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from hive_core.errors import Busy, HiveError, Internal, InvalidArgument, StorageFull
from hive_core.ledger.core.undo import Undo

Row = tuple[Any, ...]

# Pages copied at once, and seconds between: calls wait for one step, a fraction of a millisecond.
_STEP, _PAUSE = 64, 0.002
_TOO_LARGE = "a number is larger than 64 bits"
_NO_TEXT = "Could not decode to UTF-8"  # how the sqlite3 module begins to say it
_FIRST_BYTE = 0xFF  # the low byte of an extended code is the primary one


class LedgerBroken(BaseException):
    """The disk failed under the ledger: continuing could lose acknowledged changes.

    It is not an Exception, so that no handler catches it: the daemon stops, and a new one reads the
    actual state from disk (https://lwn.net/Articles/752063/: a failed fsync is not retried).
    """


class Damaged(Internal):
    """The file is not a sound ledger; nothing was changed in it."""


class TooNew(Internal):
    """A newer hived wrote this ledger; this version must not change it."""


def meaning(error: sqlite3.Error) -> BaseException:
    """Translate a failure of SQLite."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & _FIRST_BYTE if isinstance(code, int) else None
    failure: BaseException
    if primary == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:
        failure = StorageFull("the disk of the host is full")
    elif primary in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        failure = LedgerBroken(f"cannot write the ledger: {error}")
    elif primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        failure = Damaged(f"the ledger is damaged: {error}")
    elif primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        failure = Busy("another hived has the ledger open")
    else:
        failure = Internal(f"cannot use the ledger: {error}")
    return failure


class Connection:
    """Runs statements and returns rows; every failure is a HiveError or LedgerBroken.

    Each statement is prepared once and reused (the cache of the sqlite3 module). Rows that many
    calls of a batch insert are held back and inserted together (`later`), because one statement for
    all takes half the time of one for each. Every other statement sees them in the tables.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.undo = Undo()
        # The damage found in the file. From then on it is only read.
        self.damage = ""
        self._broken: LedgerBroken | None = None
        self._later: defaultdict[str, list[Row]] = defaultdict(list)
        self._held = 0
        self._copying, self._closing = Lock(), False
        try:
            # Another thread may copy the file (`copy`); all other statements run in one thread.
            self._raw = sqlite3.connect(
                path, isolation_level=None, cached_statements=256, timeout=1,
                check_same_thread=False,
            )  # fmt: skip
        except sqlite3.Error as error:
            raise self._failure(error) from error
        self._execute = self._raw.execute

    @property
    def inside(self) -> bool:
        """Whether a transaction is open."""
        return self._raw.in_transaction

    @property
    def changes(self) -> int:
        """Rows changed so far, including those rolled back. An equal number means no change."""
        return self._raw.total_changes + self._held

    def later(self, sql: str, row: Row) -> None:
        """Insert a row later in this transaction.

        Use only for inserts that cannot violate a constraint.
        """
        if not self._raw.in_transaction:
            raise StorageFull("the transaction was rolled back: the disk of the host is full")
        self._later[sql].append(row)
        self._held += 1

    def flush(self) -> None:
        """Insert the rows that were held back."""
        held = list(self._later.items())
        self.drop()
        for sql, rows in held:
            self.run_each(sql, rows)

    def drop(self) -> None:
        """Drop the rows that were held back, because they are rolled back."""
        self._later.clear()
        self._held = 0

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        """Run a change inside the open transaction; return the number of rows changed."""
        if self._held:
            self.flush()
        # SQLite may end a transaction by itself (for example on a full disk). Without one, each
        # statement would be committed at once.
        if not self._raw.in_transaction:
            raise StorageFull("the transaction was rolled back: the disk of the host is full")
        try:
            return self._execute(sql, values).rowcount
        except sqlite3.Error as error:
            raise self._failure(error) from error
        except OverflowError as error:
            raise InvalidArgument(_TOO_LARGE) from error

    def run_each(self, sql: str, many: Iterable[Sequence[object]]) -> None:
        """Run one statement for each of `many`."""
        if self._held:
            self.flush()
        if not self._raw.in_transaction:
            raise StorageFull("the transaction was rolled back: the disk of the host is full")
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
        except OverflowError as error:
            raise InvalidArgument(_TOO_LARGE) from error

    def readable_rows(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """All rows of a SELECT, one whose text is no UTF-8 with marks in place of what is none."""
        try:
            return self.rows(sql, values)
        except Internal as error:
            if _NO_TEXT not in str(error):
                raise
        self._raw.text_factory = partial(str, encoding="utf-8", errors="replace")
        try:
            return self.rows(sql, values)
        finally:
            self._raw.text_factory = str

    def row(self, sql: str, values: Sequence[object] = ()) -> Row | None:
        """The single row of a query, or None."""
        if self._held:
            self.flush()
        try:
            row: Row | None = self._execute(sql, values).fetchone()
        except sqlite3.Error as error:
            raise self._failure(error) from error
        except OverflowError as error:
            raise InvalidArgument(_TOO_LARGE) from error
        return row

    def value(self, sql: str, values: Sequence[object] = ()) -> Any:  # noqa: ANN401
        """The first column of the single row, or None."""
        row = self.row(sql, values)
        return None if row is None else row[0]

    def control(self, sql: str) -> list[Row]:
        """Run a statement that is not about rows: BEGIN, COMMIT, PRAGMA, DDL."""
        if self._broken is not None:
            raise self._broken
        return self.rows(sql)

    def begin(self) -> None:
        if self.damage:
            raise Damaged(self.damage)
        self.control("BEGIN IMMEDIATE")
        self.undo.active = True

    def commit(self) -> None:
        """COMMIT, with its fsync. On failure nothing was committed, or LedgerBroken is raised."""
        if not self._raw.in_transaction:
            raise StorageFull("the transaction was rolled back: the disk of the host is full")
        try:
            self.control("COMMIT")
        except HiveError:
            self.roll_back()
            raise
        self.undo.clear()

    def roll_back(self) -> None:
        """Restore the state before `begin`, in the tables and in memory."""
        self.drop()
        self.undo.back_all()
        if self._raw.in_transaction and self._broken is None:
            self.control("ROLLBACK")

    def save(self) -> None:
        """Begin a savepoint. Savepoints nest."""
        self.run("SAVEPOINT call")
        self.undo.mark()

    def release(self) -> None:
        """Release the innermost savepoint. If held-back rows do not fit, it is rolled back."""
        try:
            if self._raw.in_transaction:
                self.run("RELEASE call")
        except HiveError:
            self.back()
            raise
        self.undo.release()

    def back(self) -> None:
        """Roll back the innermost savepoint, if the transaction is still open."""
        self.drop()
        self.undo.back()
        if self._raw.in_transaction:
            self.run("ROLLBACK TO call")
            self.run("RELEASE call")

    def copy(self, target: sqlite3.Connection) -> None:
        """Copy the file in steps, in another thread, while calls continue.

        https://www.sqlite.org/backup.html: changes of this connection during the copy are copied
        too. Errors are raised as they are, because they may belong to the target.
        """
        with self._copying:
            self._go_on(0, 0, 0)
            self._raw.backup(target, pages=_STEP, sleep=_PAUSE, progress=self._go_on)

    def examine(self) -> None:
        """Raise Damaged or LedgerBroken if this file is bad.

        Runs in the copying thread; calls wait.
        """
        with self._copying:
            self._go_on(0, 0, 0)
            try:
                verdict = self._raw.execute("PRAGMA quick_check(1)").fetchall()
            except sqlite3.Error as error:
                raise self._failure(error) from error
        if verdict != [("ok",)]:
            self.damage = self.damage or f"the ledger is damaged: {verdict[0][0]}"
            raise Damaged(self.damage)

    def _go_on(self, _status: int, _left: int, _pages: int) -> None:
        if self._closing:
            raise Busy("the daemon is stopping")

    def close(self) -> None:
        self._closing = True
        try:
            with self._copying:
                self._raw.close()
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> BaseException:
        failure = meaning(error)
        if isinstance(failure, LedgerBroken):
            self._broken = failure
        elif isinstance(failure, Damaged):
            self.damage = self.damage or str(failure)
        return failure
