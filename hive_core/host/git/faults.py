"""Damage of the meta repository, and the meaning of libgit2's errors."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Final

import pygit2

from hive_core.errors import Conflict, Internal, StorageFull
from hive_core.ledger.core.connection import LedgerBroken

# libgit2 passes on the text of errno and not its number.
_FULL: Final = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))
_FAILED: Final = tuple(map(os.strerror, (errno.EIO, errno.EROFS)))


@dataclass(frozen=True, slots=True)
class Damage:
    """`what` is damaged, `where` it is, and `why` it counts as damaged."""

    what: str
    where: str
    why: str

    @property
    def text(self) -> str:
        return f"{self.what} ({self.where}): {self.why}"


class DamagedRepo(Internal):
    """Something in the repository cannot be read. Data that was read before stays valid."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(f"the meta repository is damaged: {damage.text}", what=damage.what)
        self.damage = damage


class HeadMoved(Conflict):
    """The branch is not at the ledger's head: it has a commit by hand, or was not moved yet."""


class guard_reads:  # noqa: N801 - used like contextlib.suppress
    """Turn each failure inside into DamagedRepo for `subject`.

    It is a class because it runs for each object read: a generator takes three times as long.
    """

    def __init__(self, subject: str, where: str) -> None:
        self._subject = subject
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, KeyError):
            raise DamagedRepo(Damage(self._subject, self._where, "missing")) from error
        if isinstance(error, (pygit2.GitError, IndexError, ValueError, OSError)):
            why = str(error) or "unreadable"
            raise DamagedRepo(Damage(self._subject, self._where, why)) from error


class guard_writes:  # noqa: N801
    """Turn failures inside into StorageFull, Internal, or LedgerBroken if the disk fails.

    After a failed fsync the state of the disk is unknown. The write is not tried again; the daemon
    restarts and reads what is on the disk.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, (pygit2.GitError, OSError)):
            return
        text = str(error)
        if any(message in text for message in _FAILED):
            raise LedgerBroken(f"cannot write the meta repository: {error}") from error
        if any(message in text for message in _FULL):
            raise StorageFull("the disk of the host is full") from error
        raise Internal(f"cannot write the meta repository: {error}") from error
