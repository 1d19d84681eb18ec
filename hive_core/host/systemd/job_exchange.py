"""The exchange folder of a job: `in` for the job to read, `out` for the job to fill.

Both belong to hived, and the job sees them through a mount that maps only the uid of hived. The
content of `out` is untrusted: files are opened by descriptor, symlinks are not followed, and sizes
are limited.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

from hive_core.errors import Internal

log = logging.getLogger(__name__)
_WALK: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Exchange:
    """The folder of one job."""

    folder: Path

    def put(self, name: str, data: bytes | Path) -> None:
        """Put a file into the job's `/in`; a path is copied."""
        target = self.folder / "in" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, bytes):
            target.write_bytes(data)
        else:
            shutil.copyfile(data, target)

    def names(self) -> list[str]:
        """Names of the files in the job's `/out`."""
        with _open_folder(self.folder / "out") as out:
            return sorted(os.listdir(out))  # noqa: PTH208 - a descriptor, not a path

    @contextmanager
    def open(self, name: str, most: int) -> Iterator[BinaryIO]:
        """Open a file of the job's `/out`.

        Internal if it is missing, not regular, or larger than `most`.
        """
        if "/" in name:
            raise ValueError(name)
        with _open_folder(self.folder / "out") as out:
            try:
                descriptor = os.open(name, _READ, dir_fd=out)
            except OSError as error:
                raise Internal(f"cannot open {name} of the job: {error.strerror}") from error
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            os.close(descriptor)
            raise Internal(f"{name} of the job is not a regular file")
        with os.fdopen(descriptor, "rb") as file:
            if facts.st_size > most:
                raise Internal(f"{name} of the job is larger than {most} bytes")
            yield file

    def read(self, name: str, most: int) -> bytes:
        """The content of a file in the job's `/out`."""
        with self.open(name, most) as file:
            return file.read(most)


@contextmanager
def exchange(work: Path, job: str) -> Iterator[Exchange]:
    """Create the folder of a job, and remove it afterwards.

    An old one of the same job is removed.
    """
    folder = work / job
    work.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_folder(folder)
    try:
        for leaf in ("in", "out"):
            (folder / leaf).mkdir(mode=0o700, parents=True)
        yield Exchange(folder)
    finally:
        _remove_folder(folder)


def sweep(work: Path) -> None:
    """Remove the folders of jobs of an earlier daemon."""
    with suppress(FileNotFoundError):
        for folder in sorted(work.iterdir()):
            _remove_folder(folder)


def _remove_folder(folder: Path) -> None:
    """Remove a folder, whatever a job did to it. A failure is logged."""
    try:
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        elif folder.exists():
            empty(folder)
            folder.rmdir()
    except OSError as error:
        log.warning("Cannot remove %s: %s", folder, error)


def empty(folder: Path) -> None:
    """Remove everything in a folder, whatever its depth and modes.

    Folders inside are moved to the top before they are removed, so that no path is too long.
    """
    numbers = (f".{uuid4().hex}-{number}" for number in count())
    with _open_folder(folder) as top:
        while names := os.listdir(top):  # noqa: PTH208
            for name in names:
                if not _unlink(name, top):
                    _lift(name, top, numbers)
                    os.rmdir(name, dir_fd=top)


def _lift(name: str, top: int, numbers: Iterator[str]) -> None:
    """Unlink the files of a folder, and move its folders into `top`."""
    os.chmod(name, 0o700, dir_fd=top)
    inside = os.open(name, _WALK, dir_fd=top)
    try:
        for inner in os.listdir(inside):  # noqa: PTH208
            if not _unlink(inner, inside):
                os.chmod(inner, 0o700, dir_fd=inside)  # moving it writes its ".."
                os.rename(inner, next(numbers), src_dir_fd=inside, dst_dir_fd=top)
    finally:
        os.close(inside)


def _unlink(name: str, place: int) -> bool:
    """Unlink `name`; False if it is a folder."""
    if stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
        return False
    os.unlink(name, dir_fd=place)
    return True


@contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    """Open a folder of hived whose mode a job may have changed."""
    with suppress(OSError):
        if stat.S_ISDIR(folder.lstat().st_mode):
            folder.chmod(0o700)
    descriptor = os.open(folder, _WALK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
