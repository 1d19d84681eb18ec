"""The branch against the ledger: a branch that lags is moved on, one that went ahead is judged.

The ledger decides. What was committed by hand on top of the head in force and is valid is for the
daemon to adopt. Everything else is kept below refs/hive/refused/ with the reason as a note, and
the branch returns.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

import pygit2
from pygit2.enums import SortMode

from hive_core.errors import HiveError, InvalidArgument
from hive_core.host.git.faults import reading
from hive_core.model.hive import Hive

REFUSED: Final = "refs/hive/refused/"
NOTES: Final = "refs/notes/hive-refused"
_LISTED: Final = 100
_SEARCHED: Final = 1000

Judge = Callable[[Hive], None]


class Kind(StrEnum):
    """What was found."""

    SAME = "same"
    FORWARDED = "forwarded"  # the branch lagged behind the ledger: a crash before the last step
    ADOPT = "adopt"  # valid commits by hand, for the daemon to take over
    REFUSED = "refused"  # commits by hand that cannot be taken over; kept aside
    RESTORED = "restored"  # the ref was damaged or gone


@dataclass(frozen=True, slots=True)
class HandCommit:
    """One commit that hived did not make."""

    oid: str
    author: str
    time: int
    subject: str


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was found and done. `hive` is there to adopt; its commit becomes the ledger's head."""

    kind: Kind
    head: str
    hive: Hive | None = None
    commits: tuple[HandCommit, ...] = ()
    reason: str = ""


def relation(git: pygit2.Repository, ledger: str, branch: str) -> Kind:
    """How the branch stands to the ledger's head."""
    if ledger == branch:
        return Kind.SAME
    with reading(f"history between {ledger[:8]} and {branch[:8]}", "objects"):
        if not ledger or git.descendant_of(branch, ledger):
            return Kind.ADOPT
        return Kind.FORWARDED if git.descendant_of(ledger, branch) else Kind.REFUSED


def commits(git: pygit2.Repository, ledger: str, branch: str) -> tuple[HandCommit, ...]:
    """Those on the branch and not in the ledger's history, oldest first."""
    with reading(f"history up to {branch[:8]}", "objects"):
        walk = git.walk(branch, SortMode.TOPOLOGICAL)
        if ledger:
            walk.hide(ledger)
        found = [
            HandCommit(str(each.id), each.author.name, each.commit_time, _subject(each.message))
            for each in islice(walk, _LISTED)
        ]
    return tuple(reversed(found))


def same_agents(before: Hive, after: Hive) -> None:
    """A name keeps its UUID and a UUID its name, or rights and mail would change hands."""
    for name, spec in after.specs.items():
        old = before.specs.get(name)
        if old is not None and old.uuid != spec.uuid:
            raise InvalidArgument(f"the uuid of {name} cannot change", field="uuid")
        known = before.name(spec.id)
        if known not in (None, name):
            raise InvalidArgument(f"{known} cannot be renamed to {name}", field="name")


def last_good(git: pygit2.Repository, read: Callable[[str], Hive], oid: str) -> Hive | None:
    """The nearest ancestor that can be read."""
    for _ in range(_SEARCHED):
        oid = _parent(git, oid)
        if not oid:
            break
        with suppress(HiveError):
            return read(oid)
    return None


def keep(git: pygit2.Repository, oid: str, reason: str) -> None:
    """Keep a refused commit, and why, where no clean-up takes it."""
    author = pygit2.Signature("hive", "hive@localhost")
    with reading(f"refused commit {oid}", "objects"):
        git.create_note(reason, author, author, oid, NOTES, True)  # noqa: FBT003 - force
        git.references.create(REFUSED + oid, oid, force=True)


def refused(git: pygit2.Repository) -> list[tuple[str, str]]:
    """Refused commits and why, newest first."""
    found = []
    for name in git.references.iterator():
        if name.name.startswith(REFUSED):
            oid = name.name.removeprefix(REFUSED)
            found.append((_time(git, oid), oid, _reason(git, oid)))
    return [(oid, reason) for _, oid, reason in sorted(found, reverse=True)]


def _reason(git: pygit2.Repository, oid: str) -> str:
    try:
        return git.lookup_note(oid, NOTES).message.strip()
    except (KeyError, pygit2.GitError):
        return "no reason is kept"


def _parent(git: pygit2.Repository, oid: str) -> str:
    try:
        parents = git[oid].peel(pygit2.Commit).parent_ids
    except (KeyError, ValueError, pygit2.GitError):
        return ""
    return str(parents[0]) if parents else ""


def _time(git: pygit2.Repository, oid: str) -> int:
    try:
        return git[oid].peel(pygit2.Commit).commit_time
    except (KeyError, ValueError, pygit2.GitError):
        return 0


def _subject(message: str) -> str:
    lines = message.strip().splitlines()
    return lines[0][:200] if lines else ""
