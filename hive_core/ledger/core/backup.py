"""Copies the ledger while it is in use, as a backup for a damaged file."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from hive_core.errors import Internal, StorageFull
from hive_core.ledger.core.connection import Connection, meaning


def back_up(connection: Connection, path: Path) -> None:
    """Replace the last copy by a new sound one. A damaged ledger does not replace it."""
    size = connection.path.stat().st_size
    # Twice the size, because the ledger itself has to grow, and has priority.
    if shutil.disk_usage(path.parent).free < 2 * size:
        raise StorageFull(
            f"cannot copy the ledger ({size >> 20} MiB): the disk has less than twice that free"
        )
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
        # Another disk than the ledger's may have failed, so examine the ledger itself.
        connection.examine()
        raise Internal(f"cannot copy the ledger (the ledger itself is sound): {fault}")
    _sync(spare)


def _fault(connection: Connection, spare: Path) -> str:
    """Copy the ledger and check the copy; return the fault, empty if none."""
    try:
        with closing(sqlite3.connect(spare, isolation_level=None)) as target:
            # Synced once at the end and not by SQLite, because calls would wait for each sync.
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
