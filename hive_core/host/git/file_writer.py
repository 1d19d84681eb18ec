"""Writes files of the daemon's repositories. A file gets its name only when it is complete."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Final

from hive_core.errors import Busy, Internal, StorageFull
from hive_core.host.storage.disk import sync_folder

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
# Seconds after which a lock is stale: the daemon holds a lock only for a moment.
_DEAD: Final = 60.0


@contextmanager
def guard_repository(folder: Path) -> Iterator[None]:
    """Turn errors of the disk into errors of hive."""
    try:
        yield
    except OSError as error:
        if error.errno in (ENOSPC, EDQUOT):
            raise StorageFull("the disk of the host is full") from error
        raise Internal(f"cannot write {folder.name}: {error}") from error


def make_folder(path: Path) -> Path:
    """Create a directory that only the daemon may enter, whatever the umask is."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(FOLDER_MODE)
    return path


def put(path: Path, data: bytes, mode: int = FILE_MODE, *, durable: bool = True) -> None:
    """Write the file in one step: readers see the old content or the new one."""
    spare = path.with_name(f".{path.name}.new")
    spare.unlink(missing_ok=True)  # left by a daemon that was killed; may be read-only
    handle = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    os.fchmod(handle, mode)
    _replace(path, spare, handle, data, durable=durable)


def put_ref(path: Path, oid: str, *, durable: bool = True) -> None:
    """Set a ref, as git does it: the lock file is renamed to the ref."""
    make_folder(path.parent)
    lock = path.with_name(f"{path.name}.lock")
    handle = _create_lock(lock)
    os.fchmod(handle, FILE_MODE)
    _replace(path, lock, handle, f"{oid}\n".encode(), durable=durable)


def _replace(path: Path, spare: Path, handle: int, data: bytes, *, durable: bool) -> None:
    """Write the spare file and rename it. Remove it if the write fails."""
    try:
        with open(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(handle)
        spare.rename(path)
    except OSError:
        spare.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def _create_lock(lock: Path) -> int:
    for _ in range(2):
        with suppress(FileExistsError):
            return os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        with suppress(FileNotFoundError):
            if time.time() - lock.stat().st_mtime > _DEAD:
                lock.unlink()
    raise Busy(f"{lock.name} is held by another git")


def drop_ref(path: Path, oid: str) -> None:
    """Delete a ref if it still names this object."""
    lock = path.with_name(f"{path.name}.lock")
    os.close(_create_lock(lock))
    try:
        if path.read_text(encoding="ascii").strip() == oid:
            path.unlink()
            sync_folder(path.parent)
    finally:
        lock.unlink()
