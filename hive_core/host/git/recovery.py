"""Compares the branch with the ledger: a branch that lags is moved on; one that is ahead is judged.

The ledger decides. Valid commits by hand on top of the head in force are adopted by the daemon. All
others are kept below refs/hive/refused/ with the reason in a file, and the branch is reset.
"""

from __future__ import annotations

import builtins
import logging
import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice, zip_longest
from pathlib import Path
from typing import Final

from hive_core.errors import HiveError, InvalidArgument
from hive_core.host.git.faults import DamagedRepo, guard_writes
from hive_core.host.git.locks import make_durable_folder, replace_file
from hive_core.host.git.store import ObjectStore
from hive_core.host.storage.disk import sync_folder
from hive_core.model.agents.hive import Hive

log = logging.getLogger(__name__)
REFUSED: Final = "refs/hive/refused/"
NOTES: Final = "hive-refused"
_LISTED: Final = 100
KEPT_MOST: Final = 100  # refused commits
_SEARCHED: Final = 1000
_SUBJECT: Final = 200
_OID: Final = re.compile(r"[0-9a-f]{40}")

Judge = Callable[[Hive, Hive], None]


class RecoveryKind(StrEnum):
    """How the branch compared with the ledger."""

    SAME = "same"
    FORWARDED = "forwarded"  # the branch lagged behind the ledger: a crash before the last step
    ADOPT = "adopt"  # valid commits by hand, for the daemon to adopt
    REFUSED = "refused"  # commits by hand that cannot be adopted; set aside
    RESTORED = "restored"  # the ref was damaged or missing


@dataclass(frozen=True, slots=True)
class ManualCommit:
    """A commit that the daemon did not make."""

    oid: str
    author: str
    time: int
    subject: str


@dataclass(frozen=True, slots=True)
class Recovery:
    """The result of a recovery. `head` is the position of the branch now.

    `hive` is to be adopted: its commit becomes the ledger's head. `refused` is the commit that was
    set aside, and `reason` is why, or the fault of the branch. `placed` are new agents that the
    commits leave out of the topology; `head` is then a commit of the daemon on top of them, and the
    branch moves to it once the ledger has it.
    """

    kind: RecoveryKind
    head: str
    hive: Hive | None = None
    commits: tuple[ManualCommit, ...] = ()
    reason: str = ""
    refused: str = ""
    placed: tuple[str, ...] = ()


def relation(store: ObjectStore, ledger: str, branch: str) -> RecoveryKind:
    """Compare the branch with the ledger's head."""
    if ledger == branch or not ledger:
        return RecoveryKind.SAME if branch == ledger else RecoveryKind.ADOPT
    # Walk both histories in step, because they usually differ by one commit and history is long.
    below, above = ancestors(store, branch), ancestors(store, ledger)
    for older, other in zip_longest(below, above):
        if older == ledger:
            return RecoveryKind.ADOPT
        if other == branch:
            return RecoveryKind.FORWARDED
    return RecoveryKind.REFUSED


def commits(store: ObjectStore, ledger: str, branch: str) -> tuple[ManualCommit, ...]:
    """The commits from the ledger's head to the branch, oldest first.

    Only the newest if there are many.
    """
    newest_first = []
    for oid in islice(ancestors(store, branch, ledger), _LISTED):
        commit = store.commit(oid)
        subject = next(iter(commit.message.splitlines()), "")[:_SUBJECT]
        newest_first.append(ManualCommit(oid, commit.author, commit.time, subject))
    return tuple(reversed(newest_first))


def ancestors(store: ObjectStore, oid: str, until: str = "") -> Iterator[str]:
    """The commit and its ancestors, each once, nearest first; stops at `until`."""
    seen, row = {oid, until}, deque([oid])
    while row:
        at = row.popleft()
        yield at
        fresh = [parent for parent in store.commit(at).parents if parent not in seen]
        seen.update(fresh)
        row.extend(fresh)


def check_identities(before: Hive, after: Hive) -> None:
    """Refuse a commit that gives a name another UUID: rights and mail belong to the UUID."""
    for name, spec in after.specs.items():
        old = before.specs.get(name)
        if old is not None and old.uuid != spec.uuid:
            raise InvalidArgument(f"the uuid of {name} cannot change", field="uuid")
        known = before.name(spec.id)
        if known not in (None, name):
            raise InvalidArgument(f"{known} cannot be renamed to {name}", field="name")


def unplaced_agents(before: Hive, written: Hive) -> tuple[str, ...]:
    """New agents that have a spec and no entry in the topology.

    An existing agent without an entry lost it by mistake, or with the whole file. It is not placed
    automatically.
    """
    missing = written.specs.keys() - written.topology.parents.keys()
    return tuple(sorted(missing - before.specs.keys()))


def last_good(store: ObjectStore, read: Callable[[str], Hive], oid: str) -> Hive | None:
    """The nearest ancestor that can be read, if any."""
    with suppress(HiveError):
        for older in islice(ancestors(store, oid), 1, _SEARCHED):
            with suppress(HiveError):
                return read(older)
    return None


class RefusedCommits:
    """Refused commits. Each has a ref that protects it, and a file with the reason."""

    def __init__(self, folder: Path, store: ObjectStore) -> None:
        self._folder = folder
        self._store = store
        self._reasons = folder / NOTES

    def add(self, oid: str, reason: str) -> None:
        """Record the reason, and keep the commit under a ref if it can be read.

        The ref file is written directly for the same reason as that of the branch (`branch.py`).
        """
        with guard_writes():
            self._mark(oid).unlink(missing_ok=True)
            self._put(self._reasons / oid, f"{reason}\n")
            with suppress(DamagedRepo):
                self._store.check_object(oid, "a refused commit")
                self._put(self._folder / REFUSED / oid, f"{oid}\n")
            self._forget_oldest(oid)

    def _forget_oldest(self, newest: str) -> None:
        """Keep only so many. Refs are removed first; a crash in between leaves a reason to remove.

        What is not in the audit log yet stays until it is.
        """
        older = [oid for oid, _ in self.refusals() if oid != newest]
        gone = [oid for oid in older[KEPT_MOST - 1 :] if self._mark(oid).exists()]
        for oid in gone:
            (self._folder / REFUSED / oid).unlink(missing_ok=True)
        if gone and (self._folder / REFUSED).is_dir():
            sync_folder(self._folder / REFUSED)
        for oid in gone:
            (self._reasons / oid).unlink(missing_ok=True)
            self._mark(oid).unlink(missing_ok=True)

    def _put(self, file: Path, text: str) -> None:
        spare = make_durable_folder(self._reasons) / ".new"
        make_durable_folder(file.parent)
        replace_file(file, text.encode(), spare, durable=True)

    def mark_reported(self, oid: str) -> None:
        """Record that the refusal is in the audit log."""
        with guard_writes():
            self._put(self._mark(oid), "")

    def list_unreported_commits(self) -> list[tuple[str, str]]:
        """Refusals that a crash kept out of the audit log."""
        return [(oid, why) for oid, why in self.refusals() if not self._mark(oid).exists()]

    def _mark(self, oid: str) -> Path:
        return self._reasons / f"{oid}.told"

    def readable_commits(self) -> builtins.list[str]:
        """Refused commits that are complete: a damaged one would break every clone."""
        folder = self._folder / REFUSED
        names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        return [name for name in names if _OID.fullmatch(name) and self._is_whole(name)]

    def _is_whole(self, oid: str) -> bool:
        """Whether the commit, its tree and its parents can be read."""
        try:
            commit = self._store.commit(oid)
            self._store.tree(commit.tree, "a refused commit")
            for parent in commit.parents:
                self._store.commit(parent)
        except HiveError:
            return False
        return True

    def refusals(self) -> list[tuple[str, str]]:
        """Commit and reason, newest first. Reasons that cannot be read are logged."""
        try:
            if not self._reasons.is_dir():
                return []
            notes = [path for path in self._reasons.iterdir() if _OID.fullmatch(path.name)]
            notes.sort(key=lambda note: note.stat().st_mtime_ns, reverse=True)
        except OSError as error:
            log.warning("Cannot list the refused commits: %s", error)
            return []
        return [(note.name, _reason(note)) for note in notes]


def _reason(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError as error:
        return f"cannot read the reason: {error}"
