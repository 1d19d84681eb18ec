"""Lists files of the work tree that differ from a commit; cheap enough to run after every commit.

A file with the same name, size and times is taken as unchanged (https://git-scm.com/docs/racy-git
describes the exceptions; here they only delay a line of text).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path
from typing import Final

import pygit2

from hive_core.host.git.handle import RepositoryHandle
from hive_core.host.git.store import FILES, ObjectStore

_HASH: Final = 20  # bytes
FileSignature = tuple[int, int, int, int]


def blob_name(data: bytes) -> str:
    """The name that git gives to this content."""
    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def is_whole_index(index: bytes) -> bool:
    """Whether an index ends with its own hash; libgit2 is given no other."""
    return sha1(index[:-_HASH], usedforsecurity=False).digest() == index[-_HASH:]


def file_signature(path: Path | os.DirEntry[str]) -> FileSignature | None:
    """Times, size and inode of a file, which change with its content; None if it does not exist."""
    try:
        status = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


class WorkTreeStatus:
    """Compares a commit with the index and the work tree, and remembers what it read."""

    def __init__(self, handle: RepositoryHandle, store: ObjectStore) -> None:
        self._handle = handle
        self._store = store
        self._root = handle.folder.parent  # not from the work tree setting of its configuration
        self._index = handle.folder / "index"
        self._names: dict[str, tuple[FileSignature, str]] = {}
        self._wanted: tuple[str, dict[str, str]] = ("", {})
        self._staged: tuple[FileSignature | None, dict[str, str]] = (None, {})

    def changed_files(self, commit: str) -> list[str]:
        """Files of the index or the work tree that differ from the commit."""
        wanted, staged = self._files(commit), self._in_index()
        seen = dict(self._here("", self._root))
        for path in self._names.keys() - seen.keys():
            del self._names[path]
        # Set operations, because this runs every few seconds, with a file for each agent.
        changed = {path for path, _ in wanted.items() ^ staged.items()}
        changed.update(path for path, _ in seen.items() - {**staged, **wanted}.items())
        changed |= wanted.keys() - seen.keys()
        unknown = changed - wanted.keys() - staged.keys()
        return sorted(
            changed - {path for path in unknown if self._handle.git.path_is_ignored(path)}
        )

    def _files(self, commit: str) -> dict[str, str]:
        """Blob by path of a commit; the last result is cached."""
        if self._wanted[0] != commit:
            walk = self._store.walk(self._store.commit(commit).tree)
            self._wanted = (
                commit,
                {path: entry.oid for path, entry in walk if entry.mode in FILES},
            )
        return self._wanted[1]

    def _in_index(self) -> dict[str, str]:
        signature = file_signature(self._index)
        if signature != self._staged[0]:
            if signature is not None and not is_whole_index(self._index.read_bytes()):
                raise ValueError("the index is damaged")
            index = pygit2.Index(str(self._index))
            index.read()
            self._staged = (signature, {entry.path: str(entry.id) for entry in index})
        return self._staged[1]

    def _here(self, at: str, folder: Path) -> Iterator[tuple[str, str]]:
        """Blob by path of the work tree."""
        with os.scandir(folder) as entries:
            for entry in entries:
                path = f"{at}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if path != ".git":
                        yield from self._here(f"{path}/", folder / entry.name)
                else:
                    yield path, self._name(path, entry)

    def _name(self, path: str, entry: os.DirEntry[str]) -> str:
        signature, known = file_signature(entry), self._names.get(path)
        if known is not None and known[0] == signature:
            return known[1]
        if signature is None or not entry.is_file(follow_symlinks=False):
            return "not a regular file"
        name = blob_name(Path(entry.path).read_bytes())
        self._names[path] = (signature, name)
        return name
