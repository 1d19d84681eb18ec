"""`flake.nix` and `flake.lock` of the meta repository.

The first is rendered; the second is only stored.

The lock file is part of the hive, so it changes only with a change of the hive (H13).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from hive_core.errors import InvalidArgument
from hive_core.host.git.object_writer import CommitDraft
from hive_core.host.git.store import FILES, TreeEntry
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import NIX_IMAGE, NixSettings
from hive_core.plan import flake

FLAKE: Final = "flake.nix"
LOCK: Final = "flake.lock"
LOCK_LIMIT: Final = 1 << 20
Top = dict[str, TreeEntry]


class Flakes:
    """Writes both files into a commit where they differ from the files of its parent commit."""

    def __init__(self, nix: NixSettings) -> None:
        self.nix = nix
        self._known = ""  # the blob that was rendered last
        self._holds = True  # Whether that blob pins agents; on most hosts it pins none.

    def write(self, draft: CommitDraft, hive: Hive, before: Hive, changed: Collection[str]) -> None:
        """Update both entries of `top`.

        `changed` names the agents whose spec was added, changed or removed.
        """
        if hive.lock != before.lock:
            self._write_lock(draft, hive.lock)
        here = draft.top.get(FLAKE)
        if here != TreeEntry(FILES[0], self._known) or self._affects_flake(hive, before, changed):
            pins = flake.pins(hive)
            self._known = draft.set_file(FLAKE, flake.render(self.nix, pins))
            self._holds = bool(pins)

    def read_lock(self, top: Top, blob: Callable[[Top, str, str], bytes]) -> bytes:
        """Read the lock file of a commit; empty if the commit has none."""
        data = blob(top, LOCK, LOCK) if LOCK in top else b""
        if len(data) > LOCK_LIMIT:
            raise InvalidArgument(f"{LOCK}: larger than {LOCK_LIMIT} bytes", field=LOCK)
        return data

    def _affects_flake(self, hive: Hive, before: Hive, changed: Collection[str]) -> bool:
        if self._holds and hive.topology.parents != before.topology.parents:
            return True
        both = (snapshot.specs.get(name) for name in changed for snapshot in (hive, before))
        return any(spec is not None and spec.image == NIX_IMAGE for spec in both)

    def _write_lock(self, draft: CommitDraft, data: bytes) -> None:
        if data:
            draft.set_file(LOCK, data)
        else:
            draft.remove_file(LOCK)
