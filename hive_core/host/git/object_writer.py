"""Writes objects: when `put` returns, the object is on the disk under its name.

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
from hive_core.host.git.store import FOLDER, ObjectStore, TreeEntry
from hive_core.host.storage.disk import sync_folder

_SPARE: Final = "tmp_obj_hive"  # git's own sweeping knows such names as well
_QUICK: Final = 1  # of zlib: these are small, and packed later


def put(store: ObjectStore, kind: str, data: bytes) -> str:
    """Write an object, durably; its name."""
    raw = b"%s %d\0%s" % (kind.encode(), len(data), data)
    oid = sha1(raw, usedforsecurity=False).hexdigest()
    path = store.path(oid)
    if _is_there(store, path, oid):
        _sync(path)  # whoever wrote it may have left that to luck
    else:
        make_durable_folder(path.parent)
        _write(path, zlib.compress(raw, _QUICK))
    sync_folder(path.parent)
    return oid


def tree_bytes(entries: Mapping[str, TreeEntry]) -> bytes:
    """As git sorts them: a folder as if its name ended with a slash."""

    def place(item: tuple[str, TreeEntry]) -> bytes:
        return item[0].encode() + b"/" * (item[1].mode == FOLDER)

    return b"".join(
        b"%o %s\0%s" % (entry.mode, name.encode(), bytes.fromhex(entry.oid))
        for name, entry in sorted(entries.items(), key=place)
    )


def commit_bytes(tree: str, parents: Sequence[str], author: str, message: str) -> bytes:
    """`author` with mail address and time."""
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines += [f"author {author}", f"committer {author}", "", message]
    return "\n".join(lines).encode()


def _is_there(store: ObjectStore, path: Path, oid: str) -> bool:
    """Whether the object exists and is whole; a damaged one is written again."""
    if not path.exists():
        return False
    try:
        store.check_object(oid, "what is written")
    except DamagedRepo:
        return False
    return True


def _write(path: Path, packed: bytes) -> None:
    spare = path.parents[1] / _SPARE
    spare.unlink(missing_ok=True)
    handle = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(packed)
        file.flush()
        os.fsync(handle)
    spare.rename(path)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
