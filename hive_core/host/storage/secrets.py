"""The secrets of agents: `secrets/UUID/KEY`, readable by the daemon only.

They are not encrypted: the daemon would have to store the key where it stores the secrets. When
`put` returns, the secret is complete and durable.
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
_OF_HOOK: Final = re.compile("[0-9a-f]{16}")  # the format of operations/triggers/operations.py


class SecretStore:
    """Stores secrets as files. The folder is created with the first secret."""

    def __init__(self, folder: Path, beside: RunBesideLoop = run_in_thread) -> None:
        self.folder = folder
        self.beside = beside
        # Values that must not be written anywhere else.
        self.masks = Masks()
        with suppress(HiveError):  # the error is raised when the secret is read
            self._mask_all()

    def sweep(self) -> None:
        """Remove partial files of a killed daemon. Call before anything is written."""
        with guard_disk("remove partial files of secrets"):
            for uuid in self.holders():
                for path in (self.folder / uuid).glob(f"{_NEW}*"):
                    path.unlink()

    def clear(self, hooks: Set[tuple[str, str]], agents: Set[str]) -> None:
        """Remove secrets of webhooks except `hooks`, each given as owner and name.

        Agents in `agents` keep all their secrets. For others, only keys with the format of webhook
        secrets are removed.
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
        """Store a secret, replacing an older one of that key."""
        place = self._place(uuid, key)
        self.masks.add(value)
        self._write(place, value)

    async def keep(self, uuid: str, key: str, value: bytes) -> None:
        """Store a secret in a thread, because a disk may take long to sync.

        If the caller is cancelled, the secret is removed again.
        """
        place, wanted = self._place(uuid, key), [True]

        def work() -> None:
            self._write(place, value)
            if not wanted:
                place.unlink(missing_ok=True)

        self.masks.add(value)
        try:
            await self.beside(work)
        except asyncio.CancelledError:  # the last of the two threads removes the file
            wanted.clear()
            self.masks.retire(value)
            place.unlink(missing_ok=True)
            raise

    def _write(self, place: Path, value: bytes) -> None:
        key = place.name
        with guard_disk(f"store the secret {key}"):
            for folder in (self.folder, place.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            spare = place.with_name(f"{_NEW}.{key}")  # several may be written at the same time
            spare.unlink(missing_ok=True)
            try:
                _fill(spare, value)
                spare.rename(place)
            finally:
                spare.unlink(missing_ok=True)  # a secret that was not stored leaves no file
            for folder in (place.parent, self.folder):
                sync_folder(folder)

    def remove(self, uuid: str, key: str) -> bool:
        """Delete a secret; False if there was none."""
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
        """Delete a secret that its agent made. The logs mask it for a limited time."""
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
            raise Internal("this is not the id of an agent and a key of a secret")
        return self.folder / uuid / key


def _fill(spare: Path, value: bytes) -> None:
    with open(os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
        file.write(value)
        file.flush()
        os.fsync(file.fileno())
