"""Disk space reserved beside the ledger, released so that a full disk cannot prevent a stop."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_LITTLE: Final = 1 << 20


class Ballast:
    """A file of allocated blocks without content.

    `spent`: it was released, so the remaining space is kept for operations that end agents.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size
        self.spent = False

    @property
    def held(self) -> bool:
        """Whether there is space to release."""
        try:
            return self._path.stat().st_size > 0
        except OSError:
            return False

    @property
    def short(self) -> bool:
        """Whether the disk is full, or still lacks the space to reserve the ballast again."""
        disk = os.statvfs(self._path.parent)
        return (bool(self._size) and not self.held) or disk.f_bavail * disk.f_frsize < _LITTLE

    def release(self) -> bool:
        """Delete the file; return whether it existed."""
        held = self.held
        self._path.unlink(missing_ok=True)
        self.spent = self.spent or held
        return held

    def restore(self) -> bool:
        """Reserve the space again once the disk has twice as much free.

        Return whether it is reserved.
        """
        if not self.held and self._size:
            disk = os.statvfs(self._path.parent)
            room = disk.f_bavail * disk.f_frsize
            # Released by an earlier daemon, and used by others since.
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
