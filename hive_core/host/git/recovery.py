"""The branch against the ledger: a branch that lags is moved on, one that went ahead is judged.

The ledger decides. What was committed by hand on top of the head in force and is valid is for the
daemon to adopt. Everything else is kept below refs/hive/refused/ with the reason in a file, and the
branch returns.
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
    """How the branch stood to the ledger."""

    SAME = "same"
    FORWARDED = "forwarded"  # the branch lagged behind the ledger: a crash before the last step
    ADOPT = "adopt"  # valid commits by hand, for the daemon to take over
    REFUSED = "refused"  # commits by hand that cannot be taken over; kept aside
    RESTORED = "restored"  # the ref was damaged or gone


@dataclass(frozen=True, slots=True)
class ManualCommit:
    """A commit that the daemon did not make."""

    oid: str
    author: str
    time: int
    subject: str


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found and done. `head` is where the branch stands now.

    `hive` is there to adopt: its commit is to become the ledger's head. `refused` is the commit
    that was put aside, and `reason` says why, or what was wrong with the branch. `placed` are new
    agents for which the commits name no place: then `head` is a commit of ours on top of them, to
    which the branch goes once it is the ledger's.
    """

    kind: RecoveryKind
    head: str
    hive: Hive | None = None
    commits: tuple[ManualCommit, ...] = ()
    reason: str = ""
    refused: str = ""
    placed: tuple[str, ...] = ()


def relation(store: ObjectStore, ledger: str, branch: str) -> RecoveryKind:
    """How the branch stands to the ledger's head."""
    if ledger == branch or not ledger:
        return RecoveryKind.SAME if branch == ledger else RecoveryKind.ADOPT
    # Both histories in step, because one commit apart is the rule and history is long.
    below, above = ancestors(store, branch), ancestors(store, ledger)
    for older, other in zip_longest(below, above):
        if older == ledger:
            return RecoveryKind.ADOPT
        if other == branch:
            return RecoveryKind.FORWARDED
    return RecoveryKind.REFUSED


def commits(store: ObjectStore, ledger: str, branch: str) -> tuple[ManualCommit, ...]:
    """Those from the ledger's head to the branch, oldest first; the newest, if there are many."""
    newest_first = []
    for oid in islice(ancestors(store, branch, ledger), _LISTED):
        commit = store.commit(oid)
        subject = next(iter(commit.message.splitlines()), "")[:_SUBJECT]
        newest_first.append(ManualCommit(oid, commit.author, commit.time, subject))
    return tuple(reversed(newest_first))


def ancestors(store: ObjectStore, oid: str, until: str = "") -> Iterator[str]:
    """The commit and all before it, each once, nearest first; nothing behind `until`."""
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

    One that was there has lost its entry, by a mistake or with the whole file: no place is made up
    for it.
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
    """Refused commits: each has a ref that keeps it, and a file with the reason."""

    def __init__(self, folder: Path, store: ObjectStore) -> None:
        self._folder = folder
        self._store = store
        self._reasons = folder / NOTES

    def add(self, oid: str, reason: str) -> None:
        """Keep a commit where no clean-up takes it; one that cannot be read leaves its reason.

        The ref is written by us for the same reason as the branch (`branch.py`).
        """
        with guard_writes():
            self._mark(oid).unlink(missing_ok=True)
            self._put(self._reasons / oid, f"{reason}\n")
            with suppress(DamagedRepo):
                self._store.check_object(oid, "a refused commit")
                self._put(self._folder / REFUSED / oid, f"{oid}\n")
            self._forget_oldest(oid)

    def _forget_oldest(self, newest: str) -> None:
        """Keep so many; refs go first, so a kill in between leaves a reason that is removed next.

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
        """Note that the refusal is in the audit log."""
        with guard_writes():
            self._put(self._mark(oid), "")

    def list_unreported(self) -> list[tuple[str, str]]:
        """Refusals that are not in the audit log yet, because of a crash."""
        return [(oid, why) for oid, why in self.refusals() if not self._mark(oid).exists()]

    def _mark(self, oid: str) -> Path:
        return self._reasons / f"{oid}.told"

    def readable_commits(self) -> builtins.list[str]:
        """Refused commits that are whole: a damaged one would break every clone."""
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
            log.warning("The refused commits cannot be listed: %s", error)
            return []
        return [(note.name, _reason(note)) for note in notes]


def _reason(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError as error:
        return f"the reason cannot be read: {error}"
