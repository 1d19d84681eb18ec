"""Writes objects. When `put` returns, the object is durable under its name.

libgit2 is not used: if its fsync fails, or the disk is full, it falls back to a stream without
reporting the error (`git_odb_write`).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha1
from pathlib import Path
from typing import Final

from hive_core.host.git.faults import DamagedRepo
from hive_core.host.git.locks import make_durable_folder
from hive_core.host.git.store import FILES, FOLDER, FileChange, ObjectStore, TreeEntry
from hive_core.host.storage.disk import sync_folder

_SPARE: Final = "tmp_obj_hive"  # git's own cleanup removes files with this prefix too
_QUICK: Final = 1  # zlib level: these objects are small, and packed later


class CommitDraft:
    """A commit on top of `parent`, or the first one: its files, and how they differ from before.

    Each file is on the disk when it is set. Afterwards the work tree is updated from `changes` and
    `contents`, so that nothing that was just written is read again.
    """

    def __init__(self, store: ObjectStore, parent: str) -> None:
        self._store = store
        self.parent = parent
        self.top = store.tree(store.commit(parent).tree, "the top") if parent else {}
        self.changes: list[FileChange] = []
        self.contents: dict[str, bytes] = {}
        self.is_complete = True  # False if a file replaced a folder, which `changes` do not cover

    def set_file(self, path: str, data: bytes, folder: dict[str, TreeEntry] | None = None) -> str:
        """Write a file at the top or into a folder; return its object name."""
        entry = TreeEntry(FILES[0], put(self._store, "blob", data))
        self.contents[entry.oid] = data
        self._set(path, entry, self.top if folder is None else folder)
        return entry.oid

    def remove_file(self, path: str, folder: dict[str, TreeEntry] | None = None) -> None:
        self._set(path, None, self.top if folder is None else folder)

    def _set(self, path: str, new: TreeEntry | None, folder: dict[str, TreeEntry]) -> None:
        name = path.rpartition("/")[2]
        old = folder.pop(name, None)
        if new is not None:
            folder[name] = new
        if old is not None and old.mode not in FILES:
            self.is_complete, old = False, None
        if old != new:
            self.changes.append(FileChange(path, old, new))

    def write_tree(self, entries: Mapping[str, TreeEntry]) -> str:
        return put(self._store, "tree", tree_bytes(entries))

    def write(self, author: str, message: str) -> str:
        """Write the top tree and the commit; return the commit's name."""
        parents = [self.parent] if self.parent else []
        tree = self.write_tree(self.top)
        return put(self._store, "commit", commit_bytes(tree, parents, author, message))


def put(store: ObjectStore, kind: str, data: bytes) -> str:
    """Write an object durably; return its name."""
    raw = b"%s %d\0%s" % (kind.encode(), len(data), data)
    oid = sha1(raw, usedforsecurity=False).hexdigest()
    path = store.path(oid)
    folder = path[: path.rindex("/")]
    if _is_there(store, path, oid):
        _sync(path)  # the git that wrote it may not have synced it
    else:
        _write(path, zlib.compress(raw, _QUICK), f"{store.folder}/{_SPARE}")
    sync_folder(folder)
    return oid


def tree_bytes(entries: Mapping[str, TreeEntry]) -> bytes:
    """The content of a tree, sorted like git: a folder sorts as if its name ended with a slash."""
    lines = sorted([
        (name.encode() + b"/" * (mode == FOLDER), b"%o %s\0" % (mode, name.encode()), oid)
        for name, (mode, oid) in entries.items()
    ])  # fmt: skip
    return b"".join([head + bytes.fromhex(oid) for _, head, oid in lines])


def commit_bytes(tree: str, parents: Sequence[str], author: str, message: str) -> bytes:
    """The content of a commit. `author` includes the mail address and the time."""
    lines = [f"tree {tree}", *[f"parent {parent}" for parent in parents]]
    lines += [f"author {author}", f"committer {author}", "", message]
    return "\n".join(lines).encode()


def _is_there(store: ObjectStore, path: str, oid: str) -> bool:
    """Whether the object exists and is whole; a damaged one is written again."""
    if not os.path.exists(path):
        return False
    try:
        store.check_object(oid, "the object to write")
    except DamagedRepo:
        return False
    return True


def _write(path: str, packed: bytes, spare: str) -> None:
    handle = _create_spare(spare)
    with open(handle, "wb") as file:
        file.write(packed)
        file.flush()
        os.fsync(handle)
    try:
        os.rename(spare, path)
    except FileNotFoundError:  # created with the repository, so it was removed by hand
        make_durable_folder(Path(path).parent)
        os.rename(spare, path)


def _create_spare(spare: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.open(spare, flags, 0o444)
    except FileExistsError:  # left by a daemon that was killed; may be read-only
        os.unlink(spare)
        return os.open(spare, flags, 0o444)


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
