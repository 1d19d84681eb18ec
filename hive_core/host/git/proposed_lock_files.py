"""Proposed lock files (flake.lock), kept by approval id until the approval is decided."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from hive_core.errors import Conflict, Internal
from hive_core.host.git.file_writer import guard_repository, put

FOLDER: Final = ".inputs"  # beside the applied repositories; no agent can have this name
LOCK_MOST: Final = 1 << 20
_ID: Final = re.compile(r"[0-9a-f]{12}")
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class ProposedLockFiles:
    """Stores `ID.lock`, and `ID.diff` with the lines that it changes."""

    def __init__(self, applied: Path) -> None:
        self._folder = applied / FOLDER

    def put(self, approval: str, lock: bytes, difference: bytes) -> None:
        """Write both files; the lock last, because it marks the pair as complete."""
        with guard_repository(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            put(self._file(approval, "diff"), difference)
            put(self._file(approval, "lock"), lock)

    def lock(self, approval: str) -> bytes:
        """The bytes of the lock file. They are not trusted: the caller compares their hash."""
        try:
            with open(os.open(self._file(approval, "lock"), _FLAGS), "rb") as file:  # noqa: PTH123
                return file.read(LOCK_MOST + 1)
        except OSError as error:
            raise Conflict(f"cannot read the proposed lock file: {error.strerror}") from error

    def _file(self, approval: str, kind: str) -> Path:
        if not _ID.fullmatch(approval):
            raise Internal(f"{approval!r} is not the id of an approval")
        return self._folder / f"{approval}.{kind}"
