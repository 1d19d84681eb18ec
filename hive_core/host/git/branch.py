"""Reads and moves the one branch of the meta repository. A crash leaves it old or new.

This module writes the ref file itself. A transaction of libgit2 would leave a lock that names no
owner if the process is killed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from hive_core.host.git.faults import Damage, DamagedRepo, HeadMoved, guard_reads, guard_writes
from hive_core.host.git.handle import RepositoryHandle
from hive_core.host.git.locks import RepositoryLock, replace_file
from hive_core.host.storage.disk import sync_folder

BRANCH: Final = "refs/heads/main"
_OID: Final = re.compile(r"[0-9a-f]{40}")


class Branch:
    """The branch of the meta repository.

    Call `move` inside `lock_at`, which excludes other gits.
    """

    def __init__(self, handle: RepositoryHandle) -> None:
        folder, self._handle = handle.folder, handle
        self._file = str(folder / BRANCH)
        self._head = str(folder / "HEAD")
        self._spare = str(folder / "hive-branch")
        self.lock = RepositoryLock(folder / BRANCH, folder)

    def head(self) -> str:
        """The commit of the branch, or empty. DamagedRepo when the ref cannot be read."""
        git = self._handle.git
        try:
            with guard_reads(BRANCH, self._file):
                return str(git.lookup_reference(BRANCH).resolve().target)
        except DamagedRepo as error:
            if isinstance(error.__cause__, KeyError):
                return ""
            raise

    @contextmanager
    def lock_at(self, expected: str | None) -> Iterator[None]:
        """Lock the branch; raise HeadMoved unless it is at `expected`.

        `expected` is empty for a branch without a commit, and None to accept any position.
        """
        self.lock.acquire()
        try:
            if expected is not None and (head := self.head()) != expected:
                raise HeadMoved(f"the branch is at {head or 'nothing'}, not at {expected}")
            yield
        finally:
            self.lock.release()

    def move(self, oid: str) -> None:
        """Set the branch to `oid`, durably. The caller holds the lock."""
        if not _OID.fullmatch(oid):
            raise DamagedRepo(Damage(BRANCH, self._file, f"{oid!r} is not the name of a commit"))
        with guard_writes():
            replace_file(self._file, f"{oid}\n".encode(), self._spare, durable=True)

    def delete(self) -> None:
        """Delete the branch."""
        with guard_writes():
            with suppress(FileNotFoundError):
                os.unlink(self._file)
            sync_folder(os.path.dirname(self._file))
        # An operator's `git gc` may have packed the ref. libgit2 removes it under its own locks,
        # which is acceptable because it is rare.
        if self.head():
            with guard_writes():
                self._handle.git.references.delete(BRANCH)

    def is_checked_out(self) -> bool:
        """Whether HEAD is this branch. The daemon updates the work tree only in that case."""
        git = self._handle.git
        with guard_reads("HEAD", self._head):
            return bool(git.lookup_reference("HEAD").target == BRANCH)
