"""Restores lost objects of the meta repository from packs that an operator put into a folder.

The folder belongs to root. No other git needs access to the repository: each object is checked
against the hash that names it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from hive_core.errors import HiveError
from hive_core.host.git.gitfolder import write_pack
from hive_core.host.git.initial_pack import pack_fault
from hive_core.host.git.packs import Pack
from hive_core.host.git.store import ObjectStore

log = logging.getLogger(__name__)
FOLDER: Final = Path("/etc/hive/restore")


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
        _remove_damaged_pack(folder, folder / "objects/pack" / f"{name}.idx")
        log.info("Restored objects from %s", table)
        taken += 1
    return taken


def _remove_damaged_pack(folder: Path, table: Path) -> None:
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
