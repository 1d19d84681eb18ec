"""A copy of the ledger, made while it is in use, to go back to when the file is damaged."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

from hive_core.errors import StorageFull
from hive_core.ledger.connection import Connection, Damaged, meaning


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
    target = sqlite3.connect(spare, isolation_level=None)
    try:
        # Synced once at the end and not by SQLite, which would let calls wait for it.
        for setting in ("journal_mode = OFF", "synchronous = OFF"):
            target.execute(f"PRAGMA {setting}")
        connection.copy(target)
        found = target.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise meaning(error) from error
    finally:
        target.close()
    if found != ("ok",):
        connection.damage = connection.damage or f"the ledger is damaged: {found[0]}"
        raise Damaged(connection.damage)
    _sync(spare)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
