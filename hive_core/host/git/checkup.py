"""Looks for damage, and restores lost objects from packs that an operator put into a folder.

Damage is looked for with a repository handle of its own, because an open one answers from its
cache. The folder to restore from belongs to root. No other git needs access to the repository: each
object is checked against the hash that names it.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from hive_core.errors import HiveError
from hive_core.host.git.branch import BRANCH, Branch
from hive_core.host.git.faults import Damage, DamagedRepo, guard_reads
from hive_core.host.git.gitfolder import write_pack
from hive_core.host.git.handle import RepositoryHandle
from hive_core.host.git.locks import is_stale
from hive_core.host.git.objects import Objects
from hive_core.host.git.pack_format import pack_fault
from hive_core.host.git.packs import Pack
from hive_core.host.git.recovery import NOTES, REFUSED, ancestors
from hive_core.host.git.store import ObjectStore

log = logging.getLogger(__name__)
RESTORE: Final = Path("/etc/hive/restore")
_STALE: Final = 60.0
_HISTORY: Final = 10_000
_REF: Final = re.compile(rb"([0-9a-f]{40}|ref: refs/[!-~]+)\s*")


def verify(folder: Path) -> list[Damage]:
    """All damage in refs, locks and the objects of the branch's commit."""
    damages: list[Damage] = []
    try:
        with guard_reads("repository", str(folder)):
            for look in (_refs, _locks, _notes, _packs):
                damages += look(folder)
        head, objects = Branch(RepositoryHandle(folder)).head(), Objects(folder)
        if head:
            objects.check(head)
            for _ in islice(ancestors(objects.store, head), _HISTORY):
                pass  # Every ancestor must exist; the contents of older commits are not in force.
    except DamagedRepo as error:
        if error.damage.what != BRANCH or not damages:
            damages.append(error.damage)
    except HiveError as error:
        damages.append(Damage(BRANCH, str(folder), error.reason))
    return damages


def _refs(folder: Path) -> Iterator[Damage]:
    """Refs that are empty or hold something other than a commit."""
    for file in [folder / "HEAD", *sorted((folder / "refs").rglob("*"))]:
        if file.is_dir() or file.suffix == ".lock":
            continue
        try:
            data = file.read_bytes()
        except OSError as error:
            yield Damage(file.name, str(file), str(error))
            continue
        name = str(file.relative_to(folder))
        if not _REF.fullmatch(data):
            yield Damage(name, str(file), "holds no commit" if data else "empty")
        elif name.startswith(REFUSED) and data.decode().strip() != file.name:
            yield Damage(name, str(file), "holds another commit")


def _notes(folder: Path) -> Iterator[Damage]:
    """Notes on refused commits that cannot be read."""
    notes = folder / NOTES
    try:
        for file in notes.iterdir() if notes.is_dir() else ():
            file.read_bytes()
    except OSError as error:
        yield Damage(NOTES, str(notes), str(error))


def _packs(folder: Path) -> Iterator[Damage]:
    """Damaged packs, as far as the damage shows without reading them completely."""
    for file, why in ObjectStore(folder).packs.faults():
        yield Damage(file.name, str(file), why)


def _locks(folder: Path) -> Iterator[Damage]:
    """Locks that look abandoned. The daemon removes its own stale locks when it next takes them."""
    for file in [*folder.glob("*.lock"), *(folder / "refs").rglob("*.lock")]:
        try:
            age = time.time() - file.stat().st_mtime
        except OSError:
            continue
        if age > _STALE and not is_stale(file, folder):
            why = f"made {age:.0f} seconds ago by another git; remove it if that git has exited"
            yield Damage(file.name, str(file), why)


def restore_objects(folder: Path, source: Path) -> int:
    """Copy every pack of `source`; return how many.

    Damaged loose objects that a pack has are removed.
    """
    taken = 0
    for table in sorted(source.glob("*.idx")):
        pack, names = table.with_suffix(".pack").read_bytes(), table.read_bytes()
        if fault := pack_fault(pack, names):
            log.warning("Cannot restore from %s: %s", table, fault)
            continue
        name = write_pack(folder / "objects/pack", pack, names)
        _remove_damaged_objects(folder, folder / "objects/pack" / f"{name}.idx")
        log.info("Restored objects from %s", table)
        taken += 1
    return taken


def _remove_damaged_objects(folder: Path, table: Path) -> None:
    """Remove damaged loose objects that the pack has: a loose object is read before a pack."""
    store = ObjectStore(folder)
    for name in Pack(table).names():
        oid = name.hex()
        file = Path(store.path(oid))
        if file.exists():
            try:
                store.check_object(oid, "the restored objects")
            except HiveError:
                file.unlink()
