"""The one branch: where it stands, and how it is moved so that a crash leaves it old or new.

The ref file is written by us and not by libgit2, whose transaction would leave a lock without a
name in it when the process is killed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hive_core.host.git.faults import Damage, DamagedRepo, HeadMoved, guard_reads, guard_writes
from hive_core.host.git.handle import RepositoryHandle
from hive_core.host.git.locks import RepositoryLock, make_durable_folder, replace_file
from hive_core.host.storage.disk import sync_folder

BRANCH: Final = "refs/heads/main"
_OID: Final = re.compile(r"[0-9a-f]{40}")


class Branch:
    """The branch of the meta repository. `move` it inside `lock_at`, which excludes other gits."""

    def __init__(self, handle: RepositoryHandle) -> None:
        folder, self._handle = handle.folder, handle
        self._file = folder / BRANCH
        self._spare = folder / "hive-branch"
        self.lock = RepositoryLock(self._file, folder)

    def head(self) -> str:
        """The commit of the branch, or empty. DamagedRepo when the ref cannot be read."""
        git = self._handle.git
        try:
            with guard_reads(BRANCH, str(self._file)):
                return str(git.lookup_reference(BRANCH).resolve().target)
        except DamagedRepo as error:
            if isinstance(error.__cause__, KeyError):
                return ""
            raise

    @contextmanager
    def lock_at(self, expected: str | None) -> Iterator[None]:
        """Lock it; HeadMoved unless it stands at `expected` (empty: no commit, None: anywhere)."""
        with guard_writes():
            make_durable_folder(self._file.parent)
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
            raise DamagedRepo(Damage(BRANCH, str(self._file), f"{oid!r} is no commit"))
        with guard_writes():
            replace_file(self._file, f"{oid}\n".encode(), self._spare, durable=True)

    def delete(self) -> None:
        """Delete the branch."""
        with guard_writes():
            self._file.unlink(missing_ok=True)
            sync_folder(self._file.parent)
        if self.head():  # packed by somebody's `git gc`; seldom enough for libgit2's own locks
            with guard_writes():
                self._handle.git.references.delete(BRANCH)

    def is_checked_out(self) -> bool:
        """Whether HEAD is this branch. Only then does the daemon update the work tree."""
        git = self._handle.git
        with guard_reads("HEAD", str(self._file.parents[2] / "HEAD")):
            return bool(git.lookup_reference("HEAD").target == BRANCH)
