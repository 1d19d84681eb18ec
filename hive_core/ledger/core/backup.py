"""A copy of the ledger, made while it is in use, to go back to when the file is damaged."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from hive_core.errors import Internal, StorageFull
from hive_core.ledger.core.connection import Connection, meaning


def back_up(connection: Connection, path: Path) -> None:
    """A sound copy takes the place of the last one; a damaged ledger leaves that alone."""
    size = connection.path.stat().st_size
    # The copy and as much again: the ledger itself has to grow, and comes first.
    if shutil.disk_usage(path.parent).free < 2 * size:
        raise StorageFull(f"no room for a copy of the ledger ({size >> 20} MiB)")
    spare = path.with_name(path.name + ".new")
    spare.unlink(missing_ok=True)
    try:
        _copy(connection, spare)
        spare.rename(path)
        _sync(path.parent)
    finally:
        spare.unlink(missing_ok=True)


def _copy(connection: Connection, spare: Path) -> None:
    os.close(os.open(spare, os.O_CREAT | os.O_EXCL, 0o600))
    fault = _fault(connection, spare)
    if fault:
        # Another disk may have failed than that of the ledger, whose own word is asked for then.
        connection.examine()
        raise Internal(f"the copy of the ledger failed, and the ledger is sound: {fault}")
    _sync(spare)


def _fault(connection: Connection, spare: Path) -> str:
    """Copy it and look at the copy: what is wrong with either, if anything is."""
    try:
        with closing(sqlite3.connect(spare, isolation_level=None)) as target:
            # Synced once at the end and not by SQLite, which would let calls wait for it.
            for setting in ("journal_mode = OFF", "synchronous = OFF"):
                target.execute(f"PRAGMA {setting}")
            connection.copy(target)
            (verdict,) = target.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        full = meaning(error)
        if isinstance(full, StorageFull):
            raise full from error
        return str(error)
    return "" if verdict == "ok" else str(verdict)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
