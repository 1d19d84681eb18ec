"""Files below one folder, opened step by step from its descriptor, without following links.

This keeps a tool in its folder when a model chooses the names. It is not a security boundary: a
program that does not use it is limited by its container alone.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from hive_core.errors import InvalidArgument, LimitReached, NotFound

MOST: Final = 50 * 1024
UNDO: Final = ".hive-undo"  # folder of earlier versions of edited files
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK: Final = {errno.ELOOP, errno.ENOTDIR, errno.EMLINK}


def read(root: Path, path: str, start: int = 0) -> tuple[bytes, int]:
    """Read at most 50 KiB of a file from an offset; also returns its size."""
    with (
        _open_parent(root, path, make=False) as (folder, name),
        _open_plain(folder, name, path) as file,
    ):
        size = os.fstat(file).st_size
        return os.pread(file, MOST, start), size


def write(root: Path, path: str, content: bytes) -> None:
    """Write a file of at most 50 KiB."""
    if len(content) > MOST:
        raise LimitReached(f"cannot write {path}: {len(content)} bytes are more than {MOST}")
    replace(root, path, content)


def replace(root: Path, path: str, content: bytes) -> None:
    """Write a file atomically and create missing folders; an existing file keeps its mode."""
    with _open_parent(root, path, make=True) as (folder, name):
        _replace_file(folder, name, content, _mode_of(folder, name, path))


def edit(root: Path, path: str, old: str, new: str) -> None:
    """Replace the only occurrence of the old text."""
    write(root, path, text_after_edit(root, path, old, new))


def text_after_edit(root: Path, path: str, old: str, new: str) -> bytes:
    """The content of a file after the only occurrence of the old text is replaced."""
    content, size = read(root, path)
    if size > MOST:
        raise LimitReached(f"cannot edit {path}: {size} bytes are more than {MOST}")
    text = content.decode()
    if not old or text.count(old) != 1:
        count = text.count(old) if old else 0
        raise InvalidArgument(f"the old text occurs {count} times in {path}, not once", field="old")
    return text.replace(old, new).encode()


def read_whole(root: Path, path: str, most: int) -> bytes:
    """Read a file of at most `most` bytes."""
    with (
        _open_parent(root, path, make=False) as (folder, name),
        _open_plain(folder, name, path) as file,
    ):
        data = os.pread(file, most + 1, 0)
    if len(data) > most:
        raise LimitReached(f"cannot read {path}: it is larger than {most} bytes")
    return data


def file_size(root: Path, path: str) -> int | None:
    """The size of a plain file; None when it is a folder."""
    with _open_parent(root, path, make=False) as (folder, name):
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            raise _open_error(error, path) from None
    if stat.S_ISDIR(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        raise InvalidArgument(f"{path} is not a plain file", field="path")
    return status.st_size


def delete(root: Path, path: str) -> None:
    """Delete a file."""
    with _open_parent(root, path, make=False) as (folder, name):
        try:
            os.unlink(name, dir_fd=folder)
        except OSError as error:
            raise _open_error(error, path) from None


@contextmanager
def open_folder(root: Path, path: str) -> Iterator[int]:
    """A folder below the root, or the root itself where the path is empty."""
    with _open_parent(root, f"{path}/x" if path else "x", make=False) as (folder, _):
        yield folder


@contextmanager
def _open_parent(root: Path, path: str, *, make: bool) -> Iterator[tuple[int, str]]:
    """The folder that a file is in, opened from the root down, and its last name."""
    *above, name = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in (*above, name)):
        raise InvalidArgument(f"{path!r} is not a plain path below {root}", field="path")
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in above:
            below = _open_below(here, part, path, make=make)
            os.close(here)
            here = below
        yield here, name
    finally:
        os.close(here)


def _open_below(here: int, part: str, path: str, *, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=here)
    try:
        return os.open(part, _FOLDER, dir_fd=here)
    except OSError as error:
        raise _open_error(error, path) from None


@contextmanager
def _open_plain(folder: int, name: str, path: str) -> Iterator[int]:
    """Open a regular file; links, pipes and devices are refused."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        file = os.open(name, flags, dir_fd=folder)
    except OSError as error:
        raise _open_error(error, path) from None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise InvalidArgument(f"{path} is not a plain file", field="path")
        yield file
    finally:
        os.close(file)


def _mode_of(folder: int, name: str, path: str) -> int:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0o644
    if not stat.S_ISREG(status.st_mode):
        raise InvalidArgument(f"{path} is not a plain file", field="path")
    return stat.S_IMODE(status.st_mode) & 0o777


def _replace_file(folder: int, name: str, content: bytes, mode: int) -> None:
    spare = f".hive-{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(spare, flags, mode, dir_fd=folder), "wb") as file:  # noqa: PTH123
            file.write(content)
            os.fchmod(file.fileno(), mode)
        os.rename(spare, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(spare, dir_fd=folder)
        raise


def _open_error(error: OSError, path: str) -> Exception:
    if error.errno == errno.ENOENT:
        return NotFound(f"no file {path}")
    if error.errno in _LINK:
        return InvalidArgument(f"{path} leads over a link or through a file", field="path")
    return InvalidArgument(f"cannot open {path}: {error.strerror}", field="path")
