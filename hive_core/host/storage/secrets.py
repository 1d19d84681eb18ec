"""The secrets of agents: `secrets/UUID/KEY`, for the daemon's eyes only.

They are not encrypted: the daemon has no key that somebody who reads its files would not have too.
A secret is on the disk, whole, when `put` returns.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Set
from contextlib import suppress
from pathlib import Path
from typing import Final

from hive_core.errors import HiveError, Internal
from hive_core.host.storage.artifacts import RunBesideLoop, run_in_thread
from hive_core.host.storage.disk import guard_disk, sync_folder
from hive_core.model.agents.capability import capability_fault
from hive_core.model.names import is_uuid
from hive_core.model.wire.masks import Masks

_NEW: Final = ".new"  # no key begins with a dot
_OF_HOOK: Final = re.compile("[0-9a-f]{16}")  # as operations/triggers/operations.py names them


class SecretStore:
    """Made when the first secret is."""

    def __init__(self, folder: Path, beside: RunBesideLoop = run_in_thread) -> None:
        self.folder = folder
        self.beside = beside
        # What must not be written down anywhere else.
        self.masks = Masks()
        with suppress(HiveError):  # the disk tells whoever reads a secret
            self._mask_all()

    def sweep(self) -> None:
        """Remove half-written files of a killed daemon. Call it before anything is written."""
        with guard_disk("remove secrets that were never kept"):
            for uuid in self.holders():
                for path in (self.folder / uuid).glob(f"{_NEW}*"):
                    path.unlink()

    def clear(self, hooks: Set[tuple[str, str]], agents: Set[str]) -> None:
        """Remove secrets of webhooks but for `hooks`, each with the name of the one that holds.

        `agents` keep all of theirs; of anybody else goes only what is named as a webhook's is.
        """
        for uuid in self.holders():
            if uuid in agents:
                continue
            for key in self.keys(uuid):
                if _OF_HOOK.fullmatch(key) and (uuid, key) not in hooks:
                    self.retire(uuid, key)
            if not self.keys(uuid):
                self.drop(uuid)

    def _mask_all(self) -> None:
        for uuid in self.holders():
            for key in self.keys(uuid):
                self.masks.add(self.read(uuid, key))

    def put(self, uuid: str, key: str, value: bytes) -> None:
        """Keep a secret, in place of an older one of that key."""
        place = self._place(uuid, key)
        self.masks.add(value)
        self._write(place, value)

    async def keep(self, uuid: str, key: str, value: bytes) -> None:
        """The same, while others get their turns: a disk may take long to say that it has it.

        Nothing stays where nobody waits for it any more.
        """
        place, wanted = self._place(uuid, key), [True]

        def work() -> None:
            self._write(place, value)
            if not wanted:
                place.unlink(missing_ok=True)

        self.masks.add(value)
        try:
            await self.beside(work)
        except asyncio.CancelledError:  # whoever gets there last removes it
            wanted.clear()
            self.masks.retire(value)
            place.unlink(missing_ok=True)
            raise

    def _write(self, place: Path, value: bytes) -> None:
        key = place.name
        with guard_disk(f"keep the secret {key}"):
            for folder in (self.folder, place.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            spare = place.with_name(f"{_NEW}.{key}")  # several may be on their way
            spare.unlink(missing_ok=True)
            try:
                _fill(spare, value)
                spare.rename(place)
            finally:
                spare.unlink(missing_ok=True)  # of what is not kept nothing stays
            for folder in (place.parent, self.folder):
                sync_folder(folder)

    def remove(self, uuid: str, key: str) -> bool:
        """Forget a secret; False when there was none."""
        place = self._place(uuid, key)
        with guard_disk(f"remove the secret {key}"):
            place.with_name(f"{_NEW}.{key}").unlink(missing_ok=True)
            try:
                place.unlink()
            except FileNotFoundError:
                return False
            sync_folder(place.parent)
        return True

    def retire(self, uuid: str, key: str) -> None:
        """Delete a secret that its agent made. The logs hide it for a while, not for ever."""
        with suppress(HiveError):
            self.masks.retire(self.read(uuid, key))
        self.remove(uuid, key)

    def keys(self, uuid: str) -> tuple[str, ...]:
        with suppress(FileNotFoundError):
            path = (path.name for path in (self.folder / uuid).iterdir())
            return tuple(sorted(name for name in path if not name.startswith(_NEW)))
        return ()

    def read(self, uuid: str, key: str) -> bytes:
        with guard_disk(f"read the secret {key}"):
            return self._place(uuid, key).read_bytes()

    def holders(self) -> list[str]:
        """UUIDs of agents that have, or had, a secret."""
        with suppress(FileNotFoundError):
            return sorted(path.name for path in self.folder.iterdir() if is_uuid(path.name))
        return []

    def drop(self, uuid: str) -> None:
        """Delete all secrets of an agent that cannot be restored."""
        if is_uuid(uuid):
            with guard_disk("remove secrets"), suppress(FileNotFoundError):
                shutil.rmtree(self.folder / uuid)

    def _place(self, uuid: str, key: str) -> Path:
        if not is_uuid(uuid) or capability_fault(f"secret:{key}"):
            raise Internal("that is no place for a secret")
        return self.folder / uuid / key


def _fill(spare: Path, value: bytes) -> None:
    with open(os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
        file.write(value)
        file.flush()
        os.fsync(file.fileno())
