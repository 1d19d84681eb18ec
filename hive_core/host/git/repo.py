"""The meta repository as the rest of hived sees it.

A change of the hive takes five steps: write the objects (`write`), lock the branch and compare it
(`hold`), set the new head in the ledger's transaction, COMMIT, move the branch. The COMMIT decides.
A process that dies between two steps leaves exactly the old or the new state: `recover` moves the
branch to the ledger's head.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from hive_core.errors import Busy, HiveError, Internal, InvalidArgument, StorageFull
from hive_core.host.git import checkup, packing, recovery
from hive_core.host.git.branch import Branch
from hive_core.host.git.faults import Damage, DamagedRepo, guard_writes
from hive_core.host.git.gitfolder import create_repository
from hive_core.host.git.handle import RepositoryHandle
from hive_core.host.git.locks import write_owner_file
from hive_core.host.git.objects import Objects
from hive_core.host.git.recovery import Judge, Recovery, RecoveryKind
from hive_core.host.git.worktree import WorkTree
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.topology import DEPTH_LIMIT, Topology
from hive_core.model.config.settings import NixSettings, RootAgentSettings

log = logging.getLogger(__name__)


_NAMED: Final = 10  # file names in one line of the log
_NEAR: Final = 10  # how far below the head a pushed commit may be: the daemon commits on top of it


def no_step(step: str) -> None:
    """The default for `step`: do nothing. Tests end the process there."""


class MetaRepo:
    """Open it with `MetaRepo.open`.

    Used by one process and one thread, in parallel with operators' gits.
    """

    def __init__(
        self, handle: RepositoryHandle, objects: Objects, step: Callable[[str], None]
    ) -> None:
        self.folder = handle.folder
        self._objects = objects
        self._step = step
        self._branch = Branch(handle)
        self._tree = WorkTree(handle, objects)
        self._parked_commits = recovery.RefusedCommits(self.folder, objects.store)
        # Runs the update of the work tree after a move. With a loop's call_soon, replies are sent
        # first; the index stays locked until then.
        self.schedule: Callable[[Callable[[], None]], object] = lambda work: work()
        # The parent of an agent that is committed by hand without a place.
        self.root_agent = RootAgentSettings().name
        # Why no commit can be written. Without the tree in force, the next commit would be a tree
        # without its agents.
        self.sealed = ""
        self._unusable: Damage | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        depth_limit: int = DEPTH_LIMIT,
        step: Callable[[str], None] = no_step,
        clock: Callable[[], float] = time.time,
    ) -> MetaRepo:
        """Open the repository in `path`; create it if absent. `recover` reports damage.

        `step` is called by name between the parts of a change; tests end the process there.
        """
        if not (path / ".git").exists():
            with guard_writes():
                create_repository(path)
        handle = RepositoryHandle(path / ".git")
        repo = cls(handle, Objects(handle.folder, depth_limit, clock), step)
        repo._prepare()
        return repo

    def _prepare(self) -> None:
        try:
            write_owner_file(self.folder)
            packing.remove_partial_files(self.folder)
            self.remove_stale_locks()
        except StorageFull:
            raise  # the repository itself is sound
        except HiveError as error:
            self._unusable = Damage("repository", str(self.folder), error.reason)

    def set_nix_inputs(self, nix: NixSettings) -> None:
        """Set the inputs of flake.nix for all later commits."""
        self._objects.flakes.nix = nix

    def set_root_agent(self, root: str) -> None:
        """Set the name of the root agent."""
        self.root_agent = root

    def remove_stale_locks(self) -> None:
        """Remove locks of a dead daemon, which would block other gits."""
        for lock in (self._branch.lock, self._tree.lock):
            lock.remove_stale()

    def head(self) -> str:
        """The commit of the branch, or empty. DamagedRepo if the ref cannot be read."""
        return self._branch.head()

    def is_at(self, oid: str) -> bool:
        """Whether the branch is at this commit.

        False if the ref cannot be read: call `recover` then.
        """
        try:
            return self.head() == oid
        except DamagedRepo:
            return False

    def read(self, oid: str) -> Hive:
        """The valid hive at a commit. Raises DamagedRepo, or InvalidArgument with the fault."""
        return self._objects.read(oid)

    def last_good(self, oid: str) -> Hive | None:
        """The nearest readable ancestor of an unreadable commit: for display only, not in force."""
        return recovery.last_good(self._objects.store, self._objects.read, oid)

    def write(self, hive: Hive, before: Hive, message: str, trailers: Mapping[str, str]) -> str:
        """Write a commit on top of `before.commit` to the disk; no ref moves."""
        if self.sealed:
            raise Internal(f"cannot change the tree: {self.sealed}")
        oid = self._objects.write(hive, before, message, trailers)
        self._step("objects")
        return oid

    @contextmanager
    def hold(self, expected: str) -> Iterator[Callable[[str], None]]:
        """Lock the branch, which must be at `expected`, and yield the function that moves it.

        Raises HeadMoved if it is elsewhere, and Busy if another git has the lock. When the branch
        is moved the ledger has already decided, so moving never fails: a branch that could not be
        moved lags behind, and the next `recover` moves it.
        """
        with self._branch.lock_at(expected):
            # Before the branch moves, so that no other git commits an index without the new files.
            if not self._tree.lock.held:
                with suppress(Busy):
                    self._tree.lock.acquire()
            self._step("locked")
            try:
                yield self._move
            except BaseException:
                self._tree.lock.release()
                raise
        self.schedule(self._refresh_later)

    def move_branch(self, old: str, new: str) -> None:
        """Move the branch to a pushed commit, for `recover` to judge."""
        with self._branch.lock_at(old):
            self._branch.move(new)

    def is_adopted(self, head: str, oid: str) -> bool:
        """Whether a commit is `head`, or the daemon has just committed on top of it."""
        return bool(head) and oid in islice(recovery.ancestors(self._objects.store, head), _NEAR)

    def check_whole(self, new: str, old: str) -> None:
        """Raise InvalidArgument unless the commit and all commits back to `old` are complete.

        Safe in a thread: it opens an object store of its own.
        """
        objects = Objects(self.folder)
        try:
            objects.check(new)
            for _ in recovery.ancestors(objects.store, new, old):
                pass
        except DamagedRepo as error:
            reason = f"cannot push {new[:12]}: the pack is incomplete: {error.damage.text}"
            raise InvalidArgument(reason, field="pack") from error

    def refresh_worktree(self) -> bool:
        """Update the work tree to the branch; False while another git is using it."""
        try:
            if self._branch.is_checked_out() and (head := self.head()):
                self._tree.show(head)
        except HiveError as error:
            log.info("Cannot update the work tree: %s", error.reason)
            return False
        finally:
            self._tree.lock.release()
        return True

    def _refresh_later(self) -> None:
        self.refresh_worktree()

    def recover(self, head: str, judge: Judge | None = None) -> Recovery:
        """Make the branch and the ledger's `head` agree, at start and when the branch moved.

        `judge` gets the hive in force and the valid hive committed by hand, and raises to refuse
        it. DamagedRepo if the ledger's own head cannot be read; nothing is changed then.
        """
        if self._unusable:
            raise DamagedRepo(self._unusable)
        before = self.read(head) if head else Hive()
        kind, branch, reason = self._compare(head)
        if kind is RecoveryKind.ADOPT:
            return self._judge(before, branch, judge)
        if kind is RecoveryKind.REFUSED:
            return self._refuse(head, branch, reason)
        if kind is not RecoveryKind.SAME:
            with self._branch.lock_at(None if kind is RecoveryKind.RESTORED else branch):
                self._branch.move(head)
            self.head()  # else it would be restored again every second
        self.refresh_worktree()
        return Recovery(kind, head, reason=reason)

    def repair_worktree(self) -> None:
        """Undo what a power cut did to the work tree. Call once branch and ledger agree."""
        try:
            head = self.head() if self._branch.is_checked_out() else ""
            refused = [oid for oid, _ in self.refusals()]
            if head and (restored := self._tree.repair(head, refused)):
                names = ", ".join(restored[:_NAMED])
                log.warning(
                    "Restored %d files of the meta repository at start: %s", len(restored), names
                )
        except HiveError as error:
            log.info("Cannot restore the work tree: %s", error.reason)

    def refusals(self) -> list[tuple[str, str]]:
        """Refused commits and their reasons, newest first."""
        return self._parked_commits.refusals()

    def readable_parked_commits(self) -> list[str]:
        """Refused commits that are still complete."""
        return self._parked_commits.readable_commits()

    def unreported_refusals(self) -> list[tuple[str, str]]:
        """Refused commits that are not in the audit log yet; see `mark_reported`."""
        return self._parked_commits.list_unreported_commits()

    def mark_reported(self, oid: str) -> None:
        self._parked_commits.mark_reported(oid)

    def changed_files(self) -> list[str]:
        """Files of the work tree that differ from the branch."""
        try:
            if not self._branch.is_checked_out():
                return ["HEAD is not the branch main"]
        except DamagedRepo as error:
            return [error.reason]
        return self._tree.changed_files()

    def restore_files(self) -> list[str]:
        """Restore the files of the work tree that were changed; return their names."""
        try:
            return self._tree.restore() if self._branch.is_checked_out() else []
        except HiveError as error:
            log.info("Cannot restore the work tree: %s", error.reason)
            return []

    def verify(self) -> list[Damage]:
        """All damage in what is in force: refs, locks and every object of the head."""
        return checkup.verify(self.folder)

    def pack(self, at_least: int = packing.MANY) -> int:
        """Pack loose objects if there are at least so many; return how many. Safe in a thread."""
        if self._branch.is_checked_out():
            self._tree.sync_deletions()
        return packing.pack_loose_objects(self.folder, at_least)

    def _move(self, oid: str) -> None:
        """Move the branch to a commit, which the ledger has already: a failure is only logged."""
        try:
            self._branch.move(oid)
        except HiveError as error:
            log.warning(
                "Cannot move the branch to %s (tried again at the next recovery): %s",
                oid,
                error.reason,
            )
        self._step("moved")

    def _judge(self, before: Hive, branch: str, judge: Judge | None) -> Recovery:
        commits: tuple[recovery.ManualCommit, ...] = ()
        try:
            commits = recovery.commits(self._objects.store, before.commit, branch)
            written = self._objects.read_as_written(branch)
            placed = recovery.unplaced_agents(before, written)
            hive = self._place_agents(written, placed)
            recovery.check_identities(before, hive)
            if judge is not None:
                judge(before, hive)
            packing.sync_objects(self.folder, self._objects.check(branch), commits)
            head = self._write_places(hive, written, placed) if placed else branch
        except StorageFull:
            raise  # the commit itself is sound
        except HiveError as error:
            return self._refuse(before.commit, branch, error.reason, commits)
        self.refresh_worktree()
        return Recovery(RecoveryKind.ADOPT, head, hive, commits, placed=placed)

    def _place_agents(self, written: Hive, names: Sequence[str]) -> Hive:
        """The hive with these agents added under the root agent."""
        if names and self.root_agent not in written.topology.parents:
            reason = f"{names[0]} is not in topology.json, and no agent {self.root_agent} exists"
            raise InvalidArgument(reason, field="topology")
        parents = {**written.topology.parents, **dict.fromkeys(names, self.root_agent)}
        return replace(written, topology=Topology(parents)).validate()

    def _write_places(self, hive: Hive, written: Hive, names: Sequence[str]) -> str:
        """Write a commit of the daemon on top of the one by hand. No ref moves."""
        trailers = {"Hive-Caller": "daemon", "Hive-Operation": "hand"}
        return self.write(
            hive, written, f"place {', '.join(names)} under {self.root_agent}", trailers
        )

    def _refuse(
        self, head: str, branch: str, reason: str, commits: tuple[recovery.ManualCommit, ...] = ()
    ) -> Recovery:
        """Set the commit aside; then reset the branch and the work tree."""
        whole = self._sync_refused_commits(branch, commits)
        self._parked_commits.add(branch, reason)
        if whole:
            self._tree.mark_shown(
                branch
            )  # while the branch is at this commit, so that the note is correct after a crash here
        if head:
            with self._branch.lock_at(branch):
                self._branch.move(head)
        else:
            self._branch.delete()
        self.refresh_worktree()
        return Recovery(RecoveryKind.REFUSED, head, None, commits, reason, branch)

    def _sync_refused_commits(
        self, branch: str, commits: tuple[recovery.ManualCommit, ...]
    ) -> bool:
        """Sync a refused commit; return False if objects are missing."""
        try:
            packing.sync_objects(self.folder, self._objects.check(branch), commits)
        except DamagedRepo:
            return False
        except StorageFull:
            raise
        except HiveError as error:
            log.info("Cannot sync a refused commit: %s", error.reason)
        return True

    def _compare(self, head: str) -> tuple[RecoveryKind, str, str]:
        """How the branch compares with the ledger's head, its commit, and its fault."""
        try:
            branch = self.head()
            if head and not branch:
                return RecoveryKind.RESTORED, "", "the branch was missing"
            kind = recovery.relation(self._objects.store, head, branch)
        except DamagedRepo as error:
            if not head:
                raise
            return RecoveryKind.RESTORED, "", error.reason
        rewritten = f"it rewrites history: {head} is not part of it"
        return kind, branch, rewritten if kind is RecoveryKind.REFUSED else ""
