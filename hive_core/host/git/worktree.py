"""The work tree: shows the commit in force wherever nobody has changed it by hand.

What differs between the commit that it showed and the one that it shall show is replaced, file by
file and in the index, where both still are as they were. Everything else is somebody's work.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pygit2
from pygit2.enums import DeltaStatus, FileMode, FileStatus

from hive_core.errors import HiveError
from hive_core.host.git.faults import reading, writing
from hive_core.host.git.locks import Lock, replace
from hive_core.host.git.objects import Objects

_LISTED: Final = 100
_CLEAN: Final = (FileStatus.CURRENT, FileStatus.IGNORED)
Change = tuple[str, pygit2.Oid | None, pygit2.Oid | None, int]


class WorkTree:
    """`show` is safe to repeat; what it showed last stands in a file, so a crash loses nothing."""

    def __init__(self, objects: Objects, folder: Path) -> None:
        self._objects = objects
        self._root = folder.parent
        self._index = folder / "index"
        self._spare = folder / "hive-index"
        self._mark = folder / "hive-shown"
        self.lock = Lock(self._index)

    def shown(self) -> str:
        """The commit that was shown last; empty when none was."""
        try:
            return self._mark.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return ""

    def note(self, oid: str) -> None:
        """The work tree shows `oid`: whoever committed it by hand has it there."""
        replace(self._mark, f"{oid}\n".encode(), self._mark.with_suffix(".new"))

    def show(self, oid: str) -> None:
        """Show the commit. Busy while somebody's git holds the index."""
        before = self.shown()
        if before == oid:
            return
        if not self.lock.held:
            self.lock.acquire()
        try:
            with writing():
                self._replace(list(self._changes(before, oid)))
                self.note(oid)
        finally:
            self.lock.release()

    def dirty(self) -> list[str]:
        """Files that differ from the commit in force, in the index or in the work tree."""
        try:
            with reading("work tree", str(self._index)):
                status = pygit2.Repository(str(self._root)).status()
        except HiveError as error:
            return [error.reason]
        return sorted(path for path, flags in status.items() if flags not in _CLEAN)[:_LISTED]

    def _replace(self, changes: list[Change]) -> None:
        if self._index.exists():
            shutil.copyfile(self._index, self._spare)
        else:
            self._spare.unlink(missing_ok=True)
        index = pygit2.Index(str(self._spare))
        index.read()
        for path, old, new, mode in changes:
            if _entry(index, path) == old and self._file(path) in (old, new):
                self._put(index, path, new, mode)
        index.write()
        self._spare.rename(self._index)

    def _put(self, index: pygit2.Index, path: str, new: pygit2.Oid | None, mode: int) -> None:
        file = self._root / path
        if new is None:
            index.remove(path)
            file.unlink(missing_ok=True)
            return
        index.add(pygit2.IndexEntry(path, new, FileMode(mode)))
        file.parent.mkdir(parents=True, exist_ok=True)
        spare = file.with_name(f".{file.name}.new")
        replace(file, self._objects.git[new].read_raw(), spare)

    def _file(self, path: str) -> pygit2.Oid | None:
        """What the work tree has there; an odd thing counts as somebody's work."""
        file = self._root / path
        if file.is_symlink() or file.is_dir():
            return pygit2.hash(b"\0")
        try:
            return pygit2.hash(file.read_bytes())
        except FileNotFoundError:
            return None

    def _changes(self, before: str, oid: str) -> Iterator[Change]:
        """Path, old and new content, mode; content None where there is no such file."""
        new = self._objects.tree(oid)
        try:
            old = self._objects.tree(before) if before else None
        except HiveError:
            old = None
        diff = old.diff_to_tree(new) if old else new.diff_to_tree(swap=True)
        for delta in diff.deltas:
            was = None if delta.status == DeltaStatus.ADDED else delta.old_file.id
            now = None if delta.status == DeltaStatus.DELETED else delta.new_file.id
            if FileMode.COMMIT not in (delta.old_file.mode, delta.new_file.mode):
                yield delta.new_file.path, was, now, delta.new_file.mode


def _entry(index: pygit2.Index, path: str) -> pygit2.Oid | None:
    return index[path].id if path in index else None
