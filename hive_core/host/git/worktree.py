"""The work tree of the meta repository: its files and its index show the commit in force.

After each commit, the files that differ between the old and the new commit are replaced (`show`).
The next check restores files that another process changed (`restore`). Files of the work tree are
not synced: after a power cut they can be old, empty or truncated, and a deleted file can be back.
`repair` corrects all of that when the daemon starts.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import pygit2
from pygit2.enums import FileMode

from hive_core.errors import HiveError, InvalidArgument
from hive_core.host.git.faults import DamagedRepo, guard_reads, guard_writes
from hive_core.host.git.files import AGENTS
from hive_core.host.git.handle import RepositoryHandle
from hive_core.host.git.locks import RepositoryLock, replace_file
from hive_core.host.git.objects import Objects
from hive_core.host.git.store import FILES, FileChange, ObjectStore, TreeEntry
from hive_core.host.git.worktree_status import WorkTreeStatus, blob_name, is_whole_index
from hive_core.host.storage.disk import sync_folder

_LISTED: Final = 100
_SEARCHED: Final = 500  # commits; the kernel has written back older ones long ago


class WorkTree:
    """Updates the work tree. A file names the shown commit, so that a crash loses nothing."""

    def __init__(self, handle: RepositoryHandle, objects: Objects) -> None:
        folder = handle.folder
        self._objects = objects
        self._root = str(folder.parent)
        self._index = str(folder / "index")
        self._spare = str(folder / "hive-index")
        self._mark = str(folder / "hive-shown")
        self._settled = str(folder / "hive-settled")
        self._made = str(folder / "hive-file")
        self._dirt = WorkTreeStatus(handle, objects.store)
        self.lock = RepositoryLock(folder / "index", folder)

    def shown_commit(self) -> str:
        """The commit that was shown last; empty if there was none."""
        return self._read(self._mark)

    @staticmethod
    def _read(path: str) -> str:
        try:
            with open(path, "rb") as file:
                text = file.read().strip().decode("ascii")
        except (OSError, ValueError):
            return ""
        return text if text.isalnum() else ""

    def mark_shown(self, oid: str) -> None:
        """Record that the work tree shows `oid`."""
        with guard_writes():
            self._write_mark(oid)

    def _write_mark(self, oid: str) -> None:
        replace_file(self._mark, f"{oid}\n".encode(), f"{self._mark}.new")

    def show(self, oid: str) -> None:
        """Update the work tree to a commit. Busy while another git holds the index."""
        before = self.shown_commit()
        if before == oid:
            return
        if not self.lock.held:
            self.lock.acquire()
        try:
            with guard_writes():
                self._replace(*self._changes(before, oid))
                self._write_mark(oid)
            self._objects.forget_recent()
        finally:
            self.lock.release()

    def _changes(self, before: str, oid: str) -> tuple[str, list[FileChange]]:
        """The commit that the files show, and the changes from it to another commit."""
        recent = self._objects.recent_changes(before, oid)
        if recent is not None:
            return before, recent
        store = self._objects.store
        old, new = self._tree(before), store.commit(oid).tree
        try:
            return before if old else oid, list(store.differences(old, new))
        except (InvalidArgument, DamagedRepo):  # too large, or lost
            return oid, list(store.differences("", new))

    def repair(self, head: str, refused: Iterable[str]) -> list[str]:
        """After a start, undo what a power cut did to the work tree.

        Return the names of those files.

        `refused` are commits that the work tree may have shown for a moment.
        """
        self.mark_shown(head)
        return self.restore() + self._remove_leftovers(head, refused)

    def restore(self) -> list[str]:
        """Restore files that differ from the shown commit; return their names.

        A file that is in no commit stays; `changed_files` lists it.
        """
        shown, store = self.shown_commit(), self._objects.store
        if not shown or not (changed := self._changed_files(shown)):
            return []
        wanted = dict(store.walk(store.commit(shown).tree))
        with self._locked_index(shown) as index:
            for path in changed:
                if path not in wanted:
                    self._stage(index, path, None)
                elif not os.path.isdir(self._place(path)):
                    self._put(index, path, wanted[path])
        return [path for path in changed if path in wanted]

    def _changed_files(self, shown: str) -> list[str]:
        try:
            with guard_reads("work tree", self._index):
                return self._dirt.changed_files(shown)
        except DamagedRepo:
            with self._locked_index(shown):
                pass  # opening a damaged index writes it again
        with guard_reads("work tree", self._index):
            return self._dirt.changed_files(shown)

    @contextmanager
    def _locked_index(self, shown: str) -> Iterator[pygit2.Index]:
        """Yield a copy of the index to change, and install it at the end.

        Busy if another git holds it.
        """
        self.lock.acquire()
        try:
            with guard_writes():
                index = self._open(shown)
                yield index
                self._write_index(index)
        finally:
            self.lock.release()

    def _remove_leftovers(self, head: str, refused: Iterable[str]) -> list[str]:
        """Delete files that a power cut brought back because their deletion was not durable yet.

        Such a file is not in the commit in force, and holds the beginning of its content in a
        recent commit, or zeros. A file with any other content belongs to an operator, and stays.
        """
        store = self._objects.store
        tree = store.commit(head).tree
        tracked = {path for path, _ in store.walk(tree)}
        paths = {path for path in self._changed_files(head) if path not in tracked}
        if not paths:
            return []
        known = _versions(store, head, self._read(self._settled), refused)
        leftovers = [path for path in sorted(paths) if self._is_torn(path, known.get(path, set()))]
        with guard_writes():
            for path in leftovers:
                os.unlink(self._place(path))
        return leftovers

    def _is_torn(self, path: str, versions: set[str]) -> bool:
        """Whether a power cut can have left one of these versions in this state."""
        content = _plain_content(self._place(path))
        if content is None:
            return False
        start = content.rstrip(b"\0")
        return any(_content(self._objects.store, oid).startswith(start) for oid in versions)

    def sync_deletions(self) -> None:
        """Make deletions durable. Safe in a thread, in parallel with `show`.

        Contents need no fsync: `repair` restores every file of the commit in force.
        """
        shown = self.shown_commit()
        if not shown or shown == self._read(self._settled):
            return
        with guard_writes():
            for folder in (self._root, self._place(AGENTS)):
                with suppress(FileNotFoundError, NotADirectoryError):
                    sync_folder(folder)
            spare = f"{self._settled}.new"
            replace_file(self._settled, f"{shown}\n".encode(), spare, durable=True)

    def changed_files(self) -> list[str]:
        """Files of the index or the work tree that differ from the shown commit."""
        shown = self.shown_commit()
        try:
            with guard_reads("work tree", self._index):
                return self._dirt.changed_files(shown)[:_LISTED] if shown else []
        except HiveError as error:
            return [error.reason]

    def _replace(self, before: str, changes: Sequence[FileChange]) -> None:
        index = self._open(before)
        for path, old, new in changes:
            known = _name(old)
            either = known, _name(new)
            if _entry(index, path) in either and self._file(path) in either:
                self._put(index, path, new)
        self._write_index(index)

    def _write_index(self, index: pygit2.Index) -> None:
        index.write()
        os.rename(self._spare, self._index)

    def _open(self, before: str) -> pygit2.Index:
        """A copy of the index to change. A damaged index is built again from the shown commit."""
        # This process holds the lock of the index, so the owner of a lock of the copy was killed.
        _remove(f"{self._spare}.lock")
        _remove(self._spare)
        data = _plain_content(self._index) or b""
        whole = is_whole_index(data)
        if whole:
            with open(self._spare, "xb") as file:
                file.write(data)
        index = pygit2.Index(self._spare)
        index.read()
        if not whole and (tree := self._tree(before)):
            for path, entry in self._objects.store.walk(tree):
                if entry.mode in FILES:
                    _add(index, path, entry)
        return index

    def _put(self, index: pygit2.Index, path: str, new: TreeEntry | None) -> None:
        self._stage(index, path, new)
        place = self._place(path)
        if new is None:
            _remove(place)
            return
        data = self._objects.content(new.oid, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        replace_file(place, data, self._made)

    @staticmethod
    def _stage(index: pygit2.Index, path: str, new: TreeEntry | None) -> None:
        if new is not None:
            _add(index, path, new)
        elif path in index:
            index.remove(path)

    def _file(self, path: str) -> str:
        """The blob name of a file of the work tree; another text if it is not a regular file."""
        place = self._place(path)
        content = _plain_content(place)
        if content is not None:
            return blob_name(content)
        return "not a regular file" if os.path.lexists(place) else ""

    def _place(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _tree(self, commit: str) -> str:
        """The tree of the shown commit; empty if it cannot be read."""
        with suppress(HiveError):
            return self._objects.store.commit(commit).tree if commit else ""
        return ""


def _add(index: pygit2.Index, path: str, entry: TreeEntry) -> None:
    index.add(pygit2.IndexEntry(path, pygit2.Oid(hex=entry.oid), FileMode(entry.mode)))


def _versions(
    store: ObjectStore, head: str, settled: str, refused: Iterable[str]
) -> Mapping[str, set[str]]:
    """By path, the blobs that commits since `settled` and `refused` ones put into the work tree."""
    versions: defaultdict[str, set[str]] = defaultdict(set)
    at, top = head, store.commit(head).tree
    for _ in range(_SEARCHED):
        if at in ("", settled):
            break
        commit = store.commit(at)
        at = commit.parents[0] if commit.parents else ""
        for path, before, _ in store.differences(store.commit(at).tree if at else "", commit.tree):
            versions[path].add(_name(before))
    for oid in refused:
        with suppress(HiveError):  # the power cut destroyed it, or it is too large
            for path, before, _ in store.differences(store.commit(oid).tree, top):
                versions[path].add(_name(before))
    return versions


def _content(store: ObjectStore, oid: str) -> bytes:
    with suppress(HiveError):  # damaged meanwhile
        return store.blob(oid, "a version") if oid else b""
    return b""


def _name(entry: TreeEntry | None) -> str:
    return entry.oid if entry else ""


def _entry(index: pygit2.Index, path: str) -> str:
    try:
        return str(index[path].id)
    except KeyError:
        return ""


def _plain_content(path: str) -> bytes | None:
    """The bytes of a regular file; None for anything else or a missing file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            raise
        return None
    with open(handle, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(handle).st_mode) else None


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        """The file does not exist, as intended."""
