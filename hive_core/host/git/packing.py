"""Keeps the object store small: packs loose objects, and removes partial files."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pygit2
from pygit2.enums import Option
from pygit2.packbuilder import PackBuilder

from hive_core.errors import HiveError
from hive_core.host.git.faults import guard_reads, guard_writes
from hive_core.host.git.handle import open_with_loose_objects
from hive_core.host.git.packs import Packs
from hive_core.host.git.store import ObjectStore
from hive_core.host.storage.disk import sync_folder

if TYPE_CHECKING:
    from hive_core.host.git.recovery import ManualCommit

log = logging.getLogger(__name__)

# For the whole process: packs are durable when a call returns, and hashes are checked on writing,
# so a flipped bit is not stored as content.
for _option in (Option.ENABLE_FSYNC_GITDIR, Option.ENABLE_STRICT_HASH_VERIFICATION):
    pygit2.option(_option, 1)

MANY: Final = 2000
_FIRST_BYTE: Final = re.compile(r"[0-9a-f]{2}")
_OID: Final = re.compile(r"[0-9a-f]{40}")


def pack_loose_objects(folder: Path, at_least: int) -> int:
    """Pack the loose objects if there are at least `at_least`; return how many were packed.

    A damaged object stays loose: `verify` reports it if the commit in force needs it.

    Opens the repository anew, so it may run in parallel with the thread that uses the other handle.
    libgit2 releases the GIL, and does not see the existing packs.
    """
    objects = folder / "objects"
    loose = list(loose_objects(objects))
    if len(loose) < at_least:
        return 0
    git, store = open_with_loose_objects(folder), ObjectStore(folder)
    loose = [oid for oid in loose if _is_readable(store, oid)]

    def choose(builder: PackBuilder) -> None:
        for oid in loose:
            builder.add(pygit2.Oid(hex=oid))

    with guard_writes():
        git.pack(pack_delegate=choose, n_threads=1)
        _flush_packs(objects / "pack")
    with guard_reads("loose objects", str(objects)):
        packed = Packs(objects / "pack")
        for oid in loose:
            packed.read(oid)  # a loose object is removed only after the pack has returned it
            (objects / oid[:2] / oid[2:]).unlink(missing_ok=True)
    return len(loose)


def _is_readable(store: ObjectStore, oid: str) -> bool:
    try:
        store.check_object(oid, "loose objects")
    except HiveError as error:
        log.warning("Cannot pack object %s: %s", oid, error.reason)
        return False
    return True


def remove_partial_files(folder: Path) -> None:
    """Remove files that a killed daemon left half written, and empty objects.

    A power cut leaves an empty object where an operator's git did not sync it. That git takes the
    object as present, and every later commit with the same content would depend on it.
    """
    half_written = [*folder.glob("objects/tmp_obj*"), *folder.glob("objects/pack/pack_git2_*")]
    with guard_writes():
        loose = (file for _, file in _loose_files(folder / "objects"))
        for path in (*half_written, *(file for file in loose if not file.stat().st_size)):
            Path(path).unlink(missing_ok=True)


def sync_objects(folder: Path, oids: Iterable[str], commits: Iterable[ManualCommit]) -> None:
    """Sync objects that another git wrote, before the ledger refers to them."""
    with guard_writes():
        _sync_objects(folder, {*oids, *(commit.oid for commit in commits)})


def _sync_objects(folder: Path, oids: set[str]) -> None:
    folders = set()
    for oid in oids:
        path = folder / "objects" / oid[:2] / oid[2:]
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue  # in a pack; git fsyncs those
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        folders.add(path.parent)
    for place in folders:
        sync_folder(place)


def _flush_packs(folder: Path) -> None:
    for file in folder.iterdir():
        handle = os.open(file, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    sync_folder(folder)


def loose_objects(objects: Path) -> Iterator[str]:
    """Names of the loose objects."""
    return (oid for oid, _ in _loose_files(objects))


def _loose_files(objects: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Loose objects: each is in a folder named by its first byte. Another git may remove them."""
    for folder in _entries(objects):
        if _FIRST_BYTE.fullmatch(folder.name):
            for file in _entries(folder):
                if _OID.fullmatch(oid := folder.name + file.name):
                    yield oid, file


def _entries(folder: os.PathLike[str]) -> list[os.DirEntry[str]]:
    """What is in a folder. A start reads hundreds of these, which is slow with pathlib."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        return list(entries)
    return []
