"""What can be wrong with the meta repo, and how libgit2's errors are told apart."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pygit2

from hive_core.errors import Conflict, Internal, StorageFull
from hive_core.ledger.core.connection import LedgerBroken

# libgit2 hands on the text of errno and not its number.
_FULL = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))
_FAILED = tuple(map(os.strerror, (errno.EIO, errno.EROFS)))


@dataclass(frozen=True, slots=True)
class Damage:
    """`what` is broken, `where` it lies, and `why` it is called so."""

    what: str
    where: str
    why: str

    @property
    def text(self) -> str:
        return f"{self.what} ({self.where}): {self.why}"


class DamagedRepo(Internal):
    """Something in the repository cannot be read. Nothing that was read before changes by it."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(f"the meta repo is damaged: {damage.text}", what=damage.what)
        self.damage = damage


class HeadMoved(Conflict):
    """The branch is not at the ledger's head: there is a commit by hand, or the branch lags."""


@contextmanager
def guard_reads(subject: str, where: str) -> Iterator[None]:
    """Raise any failure inside as damage of `subject`."""
    try:
        yield
    except KeyError as error:
        raise DamagedRepo(Damage(subject, where, "missing")) from error
    except (pygit2.GitError, IndexError, ValueError, OSError) as error:
        raise DamagedRepo(Damage(subject, where, str(error) or "unreadable")) from error


@contextmanager
def guard_writes() -> Iterator[None]:
    """Raise any failure inside as StorageFull, Internal, or Broken if the disk itself fails.

    After a failed fsync the state of the disk is unknown. The write is not tried again; the daemon
    restarts and reads what is there.
    """
    try:
        yield
    except (pygit2.GitError, OSError) as error:
        text = str(error)
        if any(message in text for message in _FAILED):
            raise LedgerBroken(f"the meta repo cannot be written: {error}") from error
        if any(message in text for message in _FULL):
            raise StorageFull("the disk of the host is full") from error
        raise Internal(f"the meta repo cannot be written: {error}") from error
