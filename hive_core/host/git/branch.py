"""The one branch: where it stands, and how it is moved so that a crash leaves it old or new.

The ref file is written by us and not by libgit2, whose transaction would leave a lock without a
name in it when the process is killed.
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
    """The branch of the meta repository. `move` it inside `lock_at`, which excludes other gits."""

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
        """Lock it; HeadMoved unless it stands at `expected` (empty: no commit, None: anywhere)."""
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
            raise DamagedRepo(Damage(BRANCH, self._file, f"{oid!r} is no commit"))
        with guard_writes():
            replace_file(self._file, f"{oid}\n".encode(), self._spare, durable=True)

    def delete(self) -> None:
        """Delete the branch."""
        with guard_writes():
            with suppress(FileNotFoundError):
                os.unlink(self._file)
            sync_folder(os.path.dirname(self._file))
        if self.head():  # packed by somebody's `git gc`; seldom enough for libgit2's own locks
            with guard_writes():
                self._handle.git.references.delete(BRANCH)

    def is_checked_out(self) -> bool:
        """Whether HEAD is this branch. Only then does the daemon update the work tree."""
        git = self._handle.git
        with guard_reads("HEAD", self._head):
            return bool(git.lookup_reference("HEAD").target == BRANCH)
