"""Making the repository: it is there as a whole or not at all, whenever the power fails."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pygit2
from pygit2.enums import RepositoryInitMode

from hive_core.host.disk import kept
from hive_core.host.git.branch import BRANCH


def make(path: Path) -> None:
    """An empty repository that root and the daemon can both write (RUNTIME 23)."""
    spare = path / ".new"  # on the same file system, whatever `path` is
    shutil.rmtree(spare, ignore_errors=True)
    git = pygit2.init_repository(
        str(spare), mode=RepositoryInitMode.SHARED_GROUP, initial_head=BRANCH.rpartition("/")[2]
    )
    git.config["core.sharedRepository"] = "group"
    # What people commit here is as durable as ours; git leaves loose objects to luck by default.
    git.config["core.fsync"] = "all"
    git.config["maintenance.auto"] = False  # hived packs, and waits for nobody's lock meanwhile
    folder = spare / ".git"
    for number in range(256):
        (folder / "objects" / f"{number:02x}").mkdir(exist_ok=True)
    _settle(folder)
    path.chmod(0o2770)
    folder.rename(path / ".git")
    spare.rmdir()
    kept(path)
    kept(path.parent)


def _settle(folder: Path) -> None:
    """Modes, and everything on disk."""
    for each in (folder, *folder.rglob("*")):
        if each.is_dir():
            each.chmod(0o2775)
            kept(each)
        elif each.is_file():
            with each.open("rb") as file:
                os.fsync(file.fileno())
