"""The disk of the host: what is on it for good, and its failures as ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hive_core.errors import HiveError, Internal, StorageFull

FULL: Final = (28, 122)  # ENOSPC, EDQUOT


def sync_folder(folder: Path | str) -> None:
    """Make durable what was created, renamed or removed in a directory."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


@contextmanager
def guard_disk(action: str) -> Iterator[None]:
    """Raise an error of the disk as an error of hive, without paths and contents."""
    try:
        yield
    except OSError as error:
        kind: type[HiveError] = StorageFull if error.errno in FULL else Internal
        raise kind(f"cannot {action}: {error.strerror}") from None
