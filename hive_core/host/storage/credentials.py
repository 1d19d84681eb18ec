"""The secrets that an agent may read, in its socket directory: `run/credentials/KEY`.

They are in memory (/run), readable by the daemon and, through an access list, by the uid that is
root in the agent's container. Other users of the host and the container cannot read them. The
container sees the folder through the read-only mount of its socket directory, so a new secret is
visible at once. https://man7.org/linux/man-pages/man5/acl.5.html
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from hive_core.host.storage.secrets import SecretStore
from hive_core.host.storage.views import refusal
from hive_core.model.agents.credential import secret_keys

FOLDER: Final = "credentials"
_SPARE: Final = ".new"
_ACL: Final = "system.posix_acl_access"
# From include/uapi/linux/posix_acl_xattr.h: version 2, then tag, rights and id of each entry.
_OWNER, _USER, _GROUP, _MASK, _OTHER, _NOBODY = 0x01, 0x02, 0x04, 0x10, 0x20, 0xFFFFFFFF
_READ, _WALK = 4, 5


def access(own: int, other: int, uid: int) -> bytes:
    """An access list.

    The owner has `own`, `uid` has `other`, and all other users have no access.
    """
    entries = (
        (_OWNER, own, _NOBODY), (_USER, other, uid), (_GROUP, 0, _NOBODY), (_MASK, other, _NOBODY),
        (_OTHER, 0, _NOBODY),
    )  # fmt: skip
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


class Credentials:
    """Shows secrets to agents. `base` returns the host uid of root in an agent's container."""

    def __init__(self, vault: SecretStore, base: Callable[[str], int | None]) -> None:
        self._vault, self._base = vault, base

    def show(self, uuid: str, run: Path, capabilities: Iterable[str]) -> None:
        """Show the secrets that the agent has a capability for; remove the others."""
        held = secret_keys(capabilities)
        base = self._base(uuid)
        wanted = held.intersection(self._vault.keys(uuid)) if base is not None else set[str]()
        folder = run / FOLDER
        try:
            for name in _there(folder) - wanted:
                (folder / name).unlink()
            if base is None or not wanted:
                with suppress(FileNotFoundError):
                    shutil.rmtree(folder)
                return
            _folder(folder, base)
            for key in wanted:
                _write(folder / key, self._vault.read(uuid, key), base)
        except OSError as error:
            raise refusal(error) from None


def _there(folder: Path) -> set[str]:
    with suppress(FileNotFoundError):
        return {path.name for path in folder.iterdir()}
    return set()


def _folder(folder: Path, base: int) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    os.setxattr(folder, _ACL, access(7, _WALK, base))


def _write(place: Path, value: bytes, base: int) -> None:
    """Write a secret in one step, readable by the container's root only."""
    with suppress(FileNotFoundError):
        if place.read_bytes() == value and os.getxattr(place, _ACL) == access(_READ, _READ, base):
            return
    spare = place.with_name(_SPARE)
    spare.unlink(missing_ok=True)
    with open(os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as file:  # noqa: PTH123
        file.write(value)
        os.setxattr(file.fileno(), _ACL, access(_READ, _READ, base))
    spare.rename(place)
