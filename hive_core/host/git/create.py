"""Creates the meta repository. After a power cut it is complete or absent."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import pygit2

from hive_core.host.git.branch import BRANCH
from hive_core.host.git.file_writer import FOLDER
from hive_core.host.storage.disk import sync_folder

CONFIG: Final = b"""[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
"""


def create_repository(path: Path) -> None:
    """Create an empty repository that only the daemon can access (attack 59)."""
    spare = path / ".new"  # on the same file system, whatever `path` is
    shutil.rmtree(spare, ignore_errors=True)
    pygit2.init_repository(str(spare), initial_head=BRANCH.rpartition("/")[2])
    folder = spare / ".git"
    shutil.rmtree(folder / "hooks", ignore_errors=True)
    (folder / "config").write_bytes(CONFIG)
    for number in range(256):
        (folder / "objects" / f"{number:02x}").mkdir(exist_ok=True)
    _sync_all(folder)
    path.chmod(FOLDER)
    folder.rename(path / ".git")
    spare.rmdir()
    sync_folder(path)
    sync_folder(path.parent)


def _sync_all(folder: Path) -> None:
    """Set the modes, and sync every file and directory."""
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(FOLDER)
            sync_folder(path)
        elif path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
