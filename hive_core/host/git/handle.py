"""libgit2's handle of the repository, for refs and settings. It never reads an object."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import pygit2

from hive_core.host.git.faults import guard_reads


def open_without_objects(folder: Path) -> pygit2.Repository:
    """Open a repository, by its git directory or work tree, without its objects.

    DamagedRepo if there is no repository. Objects are left out because a pack that is damaged, or
    changed while it is mapped, would crash the process.
    """
    with guard_reads("repository", str(folder)):
        git = pygit2.Repository(str(folder))
    git.set_odb(pygit2.Odb())
    return git


class RepositoryHandle:
    """Opens the repository at first use, so that the daemon can start with a damaged one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def git(self) -> pygit2.Repository:
        """The open handle; DamagedRepo while git cannot open the repository."""
        return open_without_objects(self.folder)


def open_with_loose_objects(folder: Path) -> pygit2.Repository:
    """Open a repository that reads loose objects; check each with `check_object` first."""
    git, loose = open_without_objects(folder), pygit2.Odb()
    fsync = True
    loose.add_backend(pygit2.OdbBackendLoose(str(folder / "objects"), -1, fsync, 0, 0), 1)
    git.set_odb(loose)
    return git
