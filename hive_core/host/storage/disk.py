"""The disk of the host: makes files durable, and translates its errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hive_core.errors import HiveError, Internal, StorageFull

FULL: Final = (28, 122)  # ENOSPC, EDQUOT


def sync_folder(folder: Path | str) -> None:
    """Make the creation, renaming or removal of files in a directory durable."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


@contextmanager
def guard_disk(action: str) -> Iterator[None]:
    """Turn an error of the disk into an error of hive, without paths and contents."""
    try:
        yield
    except OSError as error:
        kind: type[HiveError] = StorageFull if error.errno in FULL else Internal
        raise kind(f"cannot {action}: {error.strerror}") from None
