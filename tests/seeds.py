"""What many tests start with: made once for each process, and copied for each test."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from hive_core.host.git import MetaRepo
from hive_core.ledger.core.ledger import Ledger

RAM: Final = Path("/dev/shm")
# A repo of ours has a folder for each first byte of an object. It makes those that are missing, as
# git does, which takes empty ones away: hundreds of them would cost more than most tests do.
_SHELF: Final = re.compile(r"(?:.*/)?objects/[0-9a-f]{2}")


@dataclass(frozen=True)
class Seed:
    """A folder that can be made again: paths below it with their modes, and what is in files."""

    folders: tuple[tuple[str, int], ...]
    files: tuple[tuple[str, int, bytes], ...]

    @classmethod
    def of(cls, folder: Path) -> Seed:
        folders, files = [], []
        for path in sorted(folder.rglob("*")):
            name, mode = str(path.relative_to(folder)), stat.S_IMODE(path.stat().st_mode)
            if path.is_file():
                files.append((name, mode, path.read_bytes()))
            elif any(path.iterdir()) or not _SHELF.fullmatch(name):
                folders.append((name, mode))
        return cls(tuple(folders), tuple(files))

    def plant(self, folder: Path) -> None:
        for name, mode in self.folders:
            place = f"{folder}/{name}"
            os.mkdir(place)  # noqa: PTH102 - so often that pathlib would be seen
            os.chmod(place, mode)  # noqa: PTH101
        for name, mode, data in self.files:
            with open(f"{folder}/{name}", "xb") as file:  # noqa: PTH123
                file.write(data)
                os.fchmod(file.fileno(), mode)


@contextmanager
def folder_in_ram() -> Iterator[Path]:
    """An empty folder on a RAM disk where there is one."""
    folder = Path(tempfile.mkdtemp(prefix="hive-test-", dir=RAM if RAM.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@cache
def empty_ledger() -> Seed:
    """`hive.db`: a ledger of which nothing was asked yet. Its schema takes long to make."""
    with folder_in_ram() as folder:
        Ledger.open(folder / "hive.db", primed=0).close()
        return Seed.of(folder)


@cache
def empty_repo() -> Seed:
    """`meta`: a meta repo without a commit."""
    with folder_in_ram() as folder:
        MetaRepo.open(folder / "meta")
        return Seed.of(folder)
