"""Opens the file: settings, check for damage, schema, size of the WAL."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

from hive_core.errors import StorageFull
from hive_core.ledger.core.connection import Connection, Damaged, Row, TooNew

# A checkpoint happens inside a COMMIT. It is small, because all calls wait for it.
CHECKPOINT_PAGES = 512
PRIME_BYTES = 8 << 20
WAL_LIMIT = 64 << 20
_CHECK_WHOLE = 256 << 20
_SCRIPT = re.compile(r"[0-9]{4}_.*\.sql")
_GROWING = frozenset({"messages", "queue", "events", "keys", "threads"})


def configure(connection: Connection) -> None:
    """Set up the connection: durable at every COMMIT, for one process only, no temporary files."""
    # EXCLUSIVE keeps the index of the WAL in memory and shuts out a second daemon.
    # https://www.sqlite.org/wal.html#use_of_wal_without_shared_memory
    connection.control("PRAGMA locking_mode = EXCLUSIVE")
    if connection.control("PRAGMA journal_mode = WAL") != [("wal",)]:
        raise Damaged("cannot use a write-ahead log for the ledger")
    for setting in (
        "synchronous = FULL",
        "temp_store = MEMORY",
        "cache_size = -65536",
        "foreign_keys = ON",
        "trusted_schema = OFF",
        "cell_size_check = ON",
        f"journal_size_limit = {WAL_LIMIT}",
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
    ):
        connection.control(f"PRAGMA {setting}")


def check(connection: Connection) -> None:
    """Refuse a damaged file. In a large file, the growing tables are not checked."""
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


def prime(connection: Connection, size: int) -> None:
    """Grow the WAL before the first call, because overwriting blocks is cheaper than growing.

    On a disk without space for it the daemon starts anyway, and does not fill it.
    """
    disk = os.statvfs(connection.path.parent)
    if not size or disk.f_bavail * disk.f_frsize < 8 * size:
        return
    try:
        for step in (
            "CREATE TABLE IF NOT EXISTS primer (bytes BLOB NOT NULL) STRICT",
            f"INSERT INTO primer VALUES (zeroblob({size}))",  # noqa: S608
            "DELETE FROM primer",
        ):
            connection.begin()
            connection.control(step)
            connection.commit()
        connection.control("PRAGMA wal_checkpoint(RESTART)")
    except StorageFull:
        connection.roll_back()


def migrate(connection: Connection, folder: Path, step: Callable[[str], None]) -> None:
    """Migrate the schema, one transaction for each file; raise TooNew for a newer schema."""
    files = migration_scripts(folder)
    if [int(file.name[:4]) for file in files] != list(range(1, len(files) + 1)):
        raise Damaged(
            f"cannot migrate the ledger: the files in {folder} are not numbered 1 to {len(files)}"
        )
    (version,) = connection.control("PRAGMA user_version")[0]
    if version > len(files):
        reason = f"the ledger has schema {version}, but this hived knows only {len(files)}"
        raise TooNew(f"{reason}: install the newer version again")
    for number, file in enumerate(files[version:], version + 1):
        connection.begin()
        try:
            for at, statement in enumerate(statements(file.read_text(encoding="utf-8")), 1):
                connection.control(statement)
                step(f"migration {number} statement {at}")
            connection.control(f"PRAGMA user_version = {number}")
            step(f"migration {number}")
            connection.commit()
        finally:
            connection.roll_back()


def migration_scripts(folder: Path) -> list[Path]:
    """The scripts of a folder, in order."""
    names = sorted(name for name in os.listdir(folder) if _SCRIPT.fullmatch(name))  # noqa: PTH208
    return [folder / name for name in names]


def statements(script: str) -> list[str]:
    """The statements of a script. executescript() would commit before the first one."""
    statements_found, rest = [], ""
    for line in script.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            statements_found.append(rest)
            rest = ""
    return statements_found
