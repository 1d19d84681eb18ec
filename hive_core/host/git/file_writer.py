"""Files of a repository, hived's alone: whole when they have their name."""

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

FOLDER: Final = 0o700
FILE: Final = 0o600
_DEAD: Final = 60.0  # seconds after which a lock is nobody's: ours are held for a moment


@contextmanager
def guard_repository(folder: Path) -> Iterator[None]:
    """Errors of the disk as errors of ours. Inside nothing has its name unless it is whole."""
    try:
        yield
    except OSError as error:
        if error.errno in (ENOSPC, EDQUOT):
            raise StorageFull("the disk of the host is full") from error
        raise Internal(f"{folder.name} cannot be written: {error}") from error


def make_folder(path: Path) -> Path:
    """A directory that nobody else may enter, whatever the umask says."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(FOLDER)
    return path


def put(path: Path, data: bytes, mode: int = FILE, *, durable: bool = True) -> None:
    """The file under its name with this content, in one step."""
    spare = path.with_name(f".{path.name}.new")
    spare.unlink(missing_ok=True)  # of a daemon that was killed; it may be read-only
    handle = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    os.fchmod(handle, mode)
    _replace(path, spare, handle, data, durable=durable)


def put_ref(path: Path, oid: str, *, durable: bool = True) -> None:
    """Have a ref lead there, in git's own way: the lock becomes the ref."""
    make_folder(path.parent)
    lock = path.with_name(f"{path.name}.lock")
    handle = _create_lock(lock)
    os.fchmod(handle, FILE)
    _replace(path, lock, handle, f"{oid}\n".encode(), durable=durable)


def _replace(path: Path, spare: Path, handle: int, data: bytes, *, durable: bool) -> None:
    """What is written into the spare file takes its name; on a full disk nothing is left of it."""
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
            return os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE)
        with suppress(FileNotFoundError):
            if time.time() - lock.stat().st_mtime > _DEAD:
                lock.unlink()
    raise Busy(f"{lock.name} is held by another git")


def drop_ref(path: Path, oid: str) -> None:
    """Have a ref lead nowhere, if it still leads there."""
    lock = path.with_name(f"{path.name}.lock")
    os.close(_create_lock(lock))
    try:
        if path.read_text(encoding="ascii").strip() == oid:
            path.unlink()
            sync_folder(path.parent)
    finally:
        lock.unlink()
