"""libgit2's handle of the repository: for refs and settings, and never to read an object."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import pygit2

from hive_core.host.git.faults import guard_reads


def open_without_objects(folder: Path) -> pygit2.Repository:
    """A repository without objects, by its git directory or work tree; DamagedRepo if it is none.

    A pack that is damaged, or changed while it is mapped, would end the process.
    """
    with guard_reads("repository", str(folder)):
        git = pygit2.Repository(str(folder))
    git.set_odb(pygit2.Odb())
    return git


class RepositoryHandle:
    """Opens the repository when it is first needed: the daemon starts over a damaged one too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def git(self) -> pygit2.Repository:
        """DamagedRepo as long as git cannot open it."""
        return open_without_objects(self.folder)


def open_with_loose_objects(folder: Path) -> pygit2.Repository:
    """A repository that reads loose objects. Check each with `ObjectStore.check_object` first."""
    git, loose = open_without_objects(folder), pygit2.Odb()
    fsync = True
    loose.add_backend(pygit2.OdbBackendLoose(str(folder / "objects"), -1, fsync, 0, 0), 1)
    git.set_odb(loose)
    return git
