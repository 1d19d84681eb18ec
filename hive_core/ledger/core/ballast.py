"""Room held back on the ledger's disk, to be given up when a full disk must not stop a stop."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_LITTLE: Final = 1 << 20


class Ballast:
    """A file of real blocks that says nothing.

    `spent`: it was given up, so what room there is must be kept for what ends agents.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size
        self.spent = False

    @property
    def held(self) -> bool:
        """Whether there is something to give up."""
        try:
            return self._path.stat().st_size > 0
        except OSError:
            return False

    @property
    def short(self) -> bool:
        """Whether the disk is full, or was and has not yet room enough to hold some back again."""
        disk = os.statvfs(self._path.parent)
        return (bool(self._size) and not self.held) or disk.f_bavail * disk.f_frsize < _LITTLE

    def release(self) -> bool:
        """Give the room up; whether there was any."""
        held = self.held
        self._path.unlink(missing_ok=True)
        self.spent = self.spent or held
        return held

    def restore(self) -> bool:
        """Take the room back, once the disk has twice as much to spare; whether it is held."""
        if not self.held and self._size:
            disk = os.statvfs(self._path.parent)
            room = disk.f_bavail * disk.f_frsize
            # Given up by the daemon before this one, and others have had some of it since.
            self.spent = self.spent or room < self._size
            if room >= 2 * self._size:
                self._take()
        self.spent = self.spent and not self.held
        return self.held

    def _take(self) -> None:
        spare = self._path.with_name(self._path.name + ".new")
        try:
            handle = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                os.posix_fallocate(handle, 0, self._size)
            finally:
                os.close(handle)
            spare.rename(self._path)
        except OSError:
            spare.unlink(missing_ok=True)
