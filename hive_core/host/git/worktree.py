"""The work tree: shows the commit in force wherever nobody has changed it by hand.

What differs between the commit that it showed and the one that it shall show is replaced, file by
file and in the index, where both still are as they were. Everything else is somebody's work.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pygit2
from pygit2.enums import FileMode

from hive_core.errors import HiveError, InvalidArgument
from hive_core.host.git.faults import DamagedRepo, reading, writing
from hive_core.host.git.handle import Handle
from hive_core.host.git.locks import Lock, replace
from hive_core.host.git.objects import Objects
from hive_core.host.git.store import FILES, Difference, Entry
from hive_core.host.git.versions import torn, versions
from hive_core.host.git.worktree_status import Dirt, blob_name, sound
from hive_core.host.storage.disk import kept

_LISTED: Final = 100


class WorkTree:
    """`show` is safe to repeat; what it showed last stands in a file, so a crash loses nothing."""

    def __init__(self, handle: Handle, objects: Objects) -> None:
        folder = handle.folder
        self._objects = objects
        self._root = folder.parent
        self._index = folder / "index"
        self._spare = folder / "hive-index"
        self._mark = folder / "hive-shown"
        self._settled = folder / "hive-settled"
        self._made = folder / "hive-file"
        self._dirt = Dirt(handle, objects.store)
        self.lock = Lock(self._index, folder)

    def shown(self) -> str:
        """The commit that was shown last; empty when none was."""
        return self._read(self._mark)

    @staticmethod
    def _read(file: Path) -> str:
        try:
            found = file.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return ""
        return found if found.isalnum() else ""

    def note(self, oid: str) -> None:
        """The work tree shows `oid`: whoever committed it by hand has it there."""
        with writing():
            replace(self._mark, f"{oid}\n".encode(), self._mark.with_suffix(".new"))

    def show(self, oid: str) -> None:
        """Show the commit. Busy while somebody's git holds the index."""
        before, store = self.shown(), self._objects.store
        if before == oid:
            return
        if not self.lock.held:
            self.lock.acquire()
        try:
            with writing():
                old, new = self._tree(before), store.commit(oid).tree
                try:
                    changes = list(store.differences(old, new))
                except (InvalidArgument, DamagedRepo):  # beyond all bounds, or lost: it was nothing
                    old, changes = "", list(store.differences("", new))
                self._replace(old or new, changes)
                self.note(oid)
        finally:
            self.lock.release()

    def mend(self, head: str, others: Iterable[str]) -> None:
        """After a start: put right what a power cut left of files that we or git had written."""
        store = self._objects.store
        known = versions(store, head, self._read(self._settled), others)
        wanted = dict(store.walk(store.commit(head).tree)) if known else {}
        with writing():
            index = self._open(self._tree(head))
            for path, names in known.items():
                new = wanted.get(path)
                if self._file(path) != _name(new) and self._ours(path, names):
                    self._put(index, path, new)
                elif _entry(index, path) in names - {_name(new)}:
                    self._stage(index, path, new)
            index.write()
            self._spare.rename(self._index)
            self.note(head)

    def restore(self) -> list[str]:
        """Put back what differs from what is shown; which files that were.

        What belongs to no commit stays, and is listed by `dirty`.
        """
        shown, store = self.shown(), self._objects.store
        changed = self.dirty()
        if not shown or not changed:
            return []
        wanted = dict(store.walk(store.commit(shown).tree))
        self.lock.acquire()
        try:
            with writing():
                index = self._open(shown)
                for path in changed:
                    if path in wanted and not (self._root / path).is_dir():
                        self._put(index, path, wanted[path])
                    elif path not in wanted:
                        self._stage(index, path, None)
                index.write()
                self._spare.rename(self._index)
        finally:
            self.lock.release()
        return [path for path in changed if path in wanted]

    def settle(self) -> None:
        """Make durable what is shown; safe in a thread beside the one that shows."""
        shown, store = self.shown(), self._objects.store
        if not shown or shown == (before := self._read(self._settled)):
            return
        old, new = self._tree(before), store.commit(shown).tree
        with writing():
            self._sync(old, new)
            spare = self._settled.with_suffix(".new")
            replace(self._settled, f"{shown}\n".encode(), spare, durable=True)

    def keep(self, before: str, after: str) -> None:
        """Make durable what somebody wrote from one commit to the other, before it is judged.

        An editor may write in place; a cut would leave the new text before the end of the old one,
        which no version begins with.
        """
        with suppress(InvalidArgument, DamagedRepo), writing():
            self._sync(self._tree(before), self._tree(after))

    def _sync(self, old: str, new: str) -> None:
        changes = list(self._objects.store.differences(old, new))
        paths = [*(self._root / each.path for each in changes), self._index]
        for file in filter(Path.is_file, paths):
            with suppress(FileNotFoundError), file.open("rb") as opened:
                os.fsync(opened.fileno())
        for folder in {path.parent for path in paths}:  # also of what is gone: it would come back
            with suppress(FileNotFoundError, NotADirectoryError):
                kept(folder)

    def _ours(self, path: str, names: set[str]) -> bool:
        """Whether nobody but us, git or a power cut made what is there."""
        if (found := self._file(path)) in names:
            return True
        file = self._root / path
        return file.is_file() and found != "" and torn(
            self._objects.store, file.read_bytes(), names
        )  # fmt: skip

    def dirty(self) -> list[str]:
        """Files that differ from what was shown, in the index or in the work tree."""
        shown = self.shown()
        try:
            with reading("work tree", str(self._index)):
                return self._dirt.list(shown)[:_LISTED] if shown else []
        except HiveError as error:
            return [error.reason]

    def _replace(self, before: str, changes: Sequence[Difference]) -> None:
        index = self._open(before)
        for path, old, new in changes:
            known = _name(old)
            either = known, _name(new)
            if _entry(index, path) in either and self._file(path) in either:
                self._put(index, path, new)
        index.write()
        self._spare.rename(self._index)

    def _open(self, before: str) -> pygit2.Index:
        """A copy of the index to work on; one that is damaged is made anew from what was shown."""
        # We hold the lock of the index itself, so whoever locked the copy was killed.
        self._spare.with_name(f"{self._spare.name}.lock").unlink(missing_ok=True)
        try:
            data = self._index.read_bytes()
        except FileNotFoundError:
            data = b""
        whole = sound(data)
        if whole:
            self._spare.write_bytes(data)
        else:
            self._spare.unlink(missing_ok=True)
        index = pygit2.Index(str(self._spare))
        index.read()
        if not whole and before:
            for path, entry in self._objects.store.walk(before):
                if entry.mode in FILES:
                    _add(index, path, entry)
        return index

    def _put(self, index: pygit2.Index, path: str, new: Entry | None) -> None:
        self._stage(index, path, new)
        file = self._root / path
        if new is None:
            file.unlink(missing_ok=True)
            return
        data = self._objects.store.blob(new.oid, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        replace(file, data, self._made)

    @staticmethod
    def _stage(index: pygit2.Index, path: str, new: Entry | None) -> None:
        if new is not None:
            _add(index, path, new)
        elif path in index:
            index.remove(path)

    def _file(self, path: str) -> str:
        """What the work tree has there; an odd thing counts as somebody's work."""
        file = self._root / path
        if file.is_symlink() or file.is_dir():
            return "no plain file"
        try:
            return blob_name(file.read_bytes())
        except FileNotFoundError:
            return ""

    def _tree(self, commit: str) -> str:
        """The tree of what was shown; one that cannot be read counts as nothing."""
        with suppress(HiveError):
            return self._objects.store.commit(commit).tree if commit else ""
        return ""


def _add(index: pygit2.Index, path: str, entry: Entry) -> None:
    index.add(pygit2.IndexEntry(path, pygit2.Oid(hex=entry.oid), FileMode(entry.mode)))


def _name(entry: Entry | None) -> str:
    return entry.oid if entry else ""


def _entry(index: pygit2.Index, path: str) -> str:
    return str(index[path].id) if path in index else ""
