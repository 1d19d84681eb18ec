"""`flake.nix` and `flake.lock` of the meta repo: the first is rendered, the second only kept.

The lock is part of the hive, so it changes with a change of the hive and with nothing else (H13).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.host.git.object_writer import put
from hive_core.host.git.store import FILES, ObjectStore, TreeEntry
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import NIX_IMAGE, NixSettings
from hive_core.plan import flake

FLAKE: Final = "flake.nix"
LOCK: Final = "flake.lock"
LOCK_LIMIT: Final = 1 << 20
Top = dict[str, TreeEntry]


class Flakes:
    """Writes both files of a commit where they differ from those of the commit before."""

    def __init__(self, store: ObjectStore, nix: NixSettings) -> None:
        self._store = store
        self.nix = nix
        self._known = ""  # the file as it was rendered last
        self._holds = True  # whether it holds agents: most hosts have none

    def write(self, top: Top, hive: Hive, before: Hive, changed: Collection[str]) -> None:
        """`changed`: names whose spec is new, another or gone."""
        if hive.lock != before.lock:
            self._write_lock(top, hive.lock)
        here = top.get(FLAKE)
        if here != TreeEntry(FILES[0], self._known) or self._affects_flake(hive, before, changed):
            pins = flake.pins(hive)
            self._known = put(self._store, "blob", flake.render(self.nix, pins))
            self._holds = bool(pins)
            top[FLAKE] = TreeEntry(FILES[0], self._known)

    def read_lock(self, top: Top, blob: Callable[[Top, str, str], bytes]) -> bytes:
        """Read it back: nothing where there is none."""
        data = blob(top, LOCK, LOCK) if LOCK in top else b""
        if len(data) > LOCK_LIMIT:
            raise InvalidArgument(f"{LOCK}: larger than {LOCK_LIMIT} bytes", field=LOCK)
        return data

    def _affects_flake(self, hive: Hive, before: Hive, changed: Collection[str]) -> bool:
        if self._holds and hive.topology.parents != before.topology.parents:
            return True
        both = (snapshot.specs.get(name) for name in changed for snapshot in (hive, before))
        return any(spec is not None and spec.image == NIX_IMAGE for spec in both)

    def _write_lock(self, top: Top, data: bytes) -> None:
        if data:
            top[LOCK] = TreeEntry(FILES[0], put(self._store, "blob", data))
        else:
            top.pop(LOCK, None)
