"""Copies each file in a node and below it that has a hard link elsewhere.

No process changes the node meanwhile, so the job can count its names for an inode. An inode with
more links than that has a name elsewhere. Its names here get a copy; names of one inode become
names of one copy. Each is put in place by one rename(2), so a job that was killed is started again
and finds less to do. Until then the copy has a random name: a directory with a known name would
block it permanently.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Container, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from errno import EINVAL, ENOSYS, EOPNOTSUPP, EXDEV
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

_WALK: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_HELD: Final = 256  # directories above the current one that are kept open
_BLOCK: Final = 1 << 24
NAMES: Final = 1_000_000  # names kept in memory at a time
_CANNOT: Final = frozenset({EINVAL, ENOSYS, EOPNOTSUPP, EXDEV})
SPARE: Final = ".hive-own-inode-"  # prefix of a copy's name until it is in place
_LEFT: Final = re.compile(rf"{re.escape(SPARE)}[0-9a-f]{{32}}", re.ASCII)
Inode = tuple[int, int]
Figures = dict[str, float]


class Name(NamedTuple):
    """One name of a file: the number of its directory in the walk, and its name in it."""

    folder: int
    name: str


def run(_words: Sequence[str], root: Path, most: int = NAMES) -> Figures:
    """Run the job on the folder `node`."""
    figures: Figures = {"files": 0, "inodes": 0, "links": 0, "bytes": 0}
    node = root / "node"
    shared = _shared_inodes(node, figures)
    any_shared = bool(shared)
    while shared:
        with closing(_Walk(node)) as walk:
            some = _names(walk, shared, most)
            for inode, names in some.items():
                figures["inodes"] += 1
                figures["bytes"] += _separate(walk, inode, names)
                figures["links"] += len(names)
        if sum(map(len, some.values())) < most:
            break
    if any_shared:
        os.sync()
    return figures


@dataclass(slots=True)
class _Folder:
    """A directory on the current path; `handle` is None while it is closed to save handles."""

    number: int
    inode: Inode
    handle: int | None
    subfolders: list[str]


@dataclass(slots=True)
class _Walk:
    """A walk through a tree of any depth, by descriptors and without following symlinks.

    `parents` records each visited directory, as the number of its parent and its name.
    """

    top: Path
    parents: list[tuple[int, str]] = field(default_factory=list)
    _path: list[_Folder] = field(default_factory=list)

    def files(self) -> Iterator[tuple[Name, os.stat_result]]:
        """Yield each name that is not a directory, with the facts of its inode."""
        yield from self._enter(os.open(self.top, _WALK), (0, "."))
        while self._path:
            folder = self._path[-1]
            if folder.subfolders:
                name = folder.subfolders.pop()
                with suppress(FileNotFoundError):
                    handle = os.open(name, _WALK, dir_fd=folder.handle)
                    yield from self._enter(handle, (folder.number, name))
            else:
                self._leave()

    def _enter(self, handle: int, place: tuple[int, str]) -> Iterator[tuple[Name, os.stat_result]]:
        facts = os.fstat(handle)
        folder = _Folder(len(self.parents), (facts.st_dev, facts.st_ino), handle, [])
        self.parents.append(place)
        self._path.append(folder)
        if len(self._path) > _HELD and (above := self._path[-_HELD - 1]).handle is not None:
            os.close(above.handle)
            above.handle = None
        with os.scandir(handle) as entries:
            for name in (entry.name for entry in entries):
                with suppress(FileNotFoundError):
                    facts = os.stat(name, dir_fd=handle, follow_symlinks=False)
                    if stat.S_ISDIR(facts.st_mode):
                        folder.subfolders.append(name)
                    elif _LEFT.fullmatch(name):
                        os.unlink(name, dir_fd=handle)  # left by a job that was killed
                    else:
                        yield Name(folder.number, name), facts

    def _leave(self) -> None:
        left = self._path.pop()
        if self._path and self._path[-1].handle is None:
            above = os.open("..", _WALK, dir_fd=left.handle)
            facts = os.fstat(above)
            self._path[-1].handle = above
            if (facts.st_dev, facts.st_ino) != self._path[-1].inode:
                raise OSError("a directory was moved during the walk")
        if left.handle is not None:
            os.close(left.handle)

    @contextmanager
    def open_folder(self, number: int) -> Iterator[int]:
        """Open a directory of the walk again, step by step, because a path may be too long."""
        steps = []
        while number:
            number, name = self.parents[number]
            steps.append(name)
        handle = os.open(self.top, _WALK)
        try:
            for step in reversed(steps):
                handle, above = os.open(step, _WALK, dir_fd=handle), handle
                os.close(above)
            yield handle
        finally:
            os.close(handle)

    def close(self) -> None:
        for folder in self._path:
            if folder.handle is not None:
                os.close(folder.handle)


def _shared_inodes(node: Path, figures: Figures) -> set[Inode]:
    """The inodes of files here that have names elsewhere too.

    Symlinks and devices hold no bytes. Names cost almost nothing to create, so they are counted and
    not kept in memory; an inode is dropped when all its names were seen.
    """
    elsewhere: dict[Inode, int] = {}
    with closing(_Walk(node)) as walk:
        for _, facts in walk.files():
            figures["files"] += 1
            if facts.st_nlink > 1 and not (
                stat.S_ISLNK(facts.st_mode) or _is_device(facts.st_mode)
            ):
                inode = (facts.st_dev, facts.st_ino)
                links = elsewhere.pop(inode, facts.st_nlink) - 1
                if links:
                    elsewhere[inode] = links
    return {*elsewhere}


def _names(walk: _Walk, inodes: Container[Inode], most: int) -> dict[Inode, list[Name]]:
    """Names of these inodes, at most so many."""
    names: dict[Inode, list[Name]] = {}
    files = ((name, (facts.st_dev, facts.st_ino)) for name, facts in walk.files())
    for name, inode in islice((item for item in files if item[1] in inodes), most):
        names.setdefault(inode, []).append(name)
    return names


def _is_device(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _separate(walk: _Walk, inode: Inode, names: Sequence[Name]) -> int:
    """Replace each name of one inode by a copy; return the number of bytes copied."""
    first, *others = names
    spare = f"{SPARE}{uuid4().hex}"
    with walk.open_folder(first.folder) as home:
        facts = os.stat(first.name, dir_fd=home, follow_symlinks=False)
        if (facts.st_dev, facts.st_ino) != inode:
            return 0  # it is another file now
        with _removed_if_it_fails(home, spare):
            _copy(home, first.name, spare, facts)
            os.rename(spare, first.name, src_dir_fd=home, dst_dir_fd=home)
        for other in others:
            with walk.open_folder(other.folder) as folder:
                os.link(first.name, spare, src_dir_fd=home, dst_dir_fd=folder,
                        follow_symlinks=False)  # fmt: skip
                os.rename(spare, other.name, src_dir_fd=folder, dst_dir_fd=folder)
    return facts.st_size if stat.S_ISREG(facts.st_mode) else 0


@contextmanager
def _removed_if_it_fails(folder: int, name: str) -> Iterator[None]:
    """Remove a partial copy on failure: on a full disk it would take space until the next try."""
    try:
        yield
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        raise


def _copy(folder: int, name: str, spare: str, facts: os.stat_result) -> None:
    """Copy a file in the same directory, with owner, mode, times and attributes."""
    if stat.S_ISREG(facts.st_mode):
        old = os.open(name, _READ, dir_fd=folder)
        try:
            copy = os.open(spare, _MAKE, 0o600, dir_fd=folder)
            try:
                _fill(old, copy)
                _copy_attributes(old, copy)
            finally:
                os.close(copy)
        finally:
            os.close(old)
    else:
        os.mknod(spare, stat.S_IFMT(facts.st_mode) | 0o600, dir_fd=folder)
    os.chown(spare, facts.st_uid, facts.st_gid, dir_fd=folder, follow_symlinks=False)
    os.chmod(spare, stat.S_IMODE(facts.st_mode), dir_fd=folder)  # after chown, which clears setuid
    times = (facts.st_atime_ns, facts.st_mtime_ns)
    os.utime(spare, ns=times, dir_fd=folder, follow_symlinks=False)


def _fill(old: int, copy: int) -> None:
    """Copy the bytes; a hole stays a hole.

    https://man7.org/linux/man-pages/man2/lseek.2.html describes SEEK_DATA.
    """
    end, at = os.fstat(old).st_size, 0
    os.ftruncate(copy, end)
    while at < end:
        try:
            at = os.lseek(old, at, os.SEEK_DATA)
        except OSError:  # only a hole is left
            return
        hole = os.lseek(old, at, os.SEEK_HOLE)
        while at < hole:
            count = _copy_range(old, copy, min(_BLOCK, hole - at), at)
            if count == 0:
                return
            at += count


def _copy_range(old: int, copy: int, count: int, at: int) -> int:
    """Copy a range; file systems that can share blocks do so.

    https://man7.org/linux/man-pages/man2/copy_file_range.2.html
    """
    try:
        return os.copy_file_range(old, copy, count, at, at)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        return os.pwrite(copy, os.pread(old, count, at), at)


def _copy_attributes(old: int, copy: int) -> None:
    for key in os.listxattr(old):
        with suppress(OSError):  # some attributes can be set by the host's root only
            os.setxattr(copy, key, os.getxattr(old, key))
