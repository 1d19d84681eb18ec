"""One attempt at a batch: what it reads from, and what it brought. Thrown away if COMMIT fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from hive_core.broker.call import NO_CONTENTS, NO_VAULT
from hive_core.broker.connection import CallOutcome, ClientConnection
from hive_core.errors import StorageFull
from hive_core.ledger.audit.events import AuditEntry
from hive_core.model.agents.hive import Hive
from hive_core.ports import Clock, Contents, GitServer, Vault

if TYPE_CHECKING:
    from hive_core.broker.call import StatesView
    from hive_core.ledger.core.ledger import Ledger
    from hive_core.model.config.settings import Settings


class Repository(Protocol):
    """What the broker needs of the meta repo (`host/git.py`)."""

    def write(self, hive: Hive, before: Hive, message: str, trailers: Mapping[str, str]) -> str:
        """A commit on top of `before.commit`, its objects on disk; no ref moves."""
        ...

    def hold(self, expected: str) -> AbstractContextManager[Callable[[str], None]]:
        """Lock the branch, which must stand at `expected` (else Conflict); call it to move."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """What one hive consists of, as the broker needs it."""

    ledger: Ledger
    repo: Repository
    settings: Settings
    states: StatesView
    clock: Clock
    vault: Vault = NO_VAULT
    contents: Contents = NO_CONTENTS
    git: GitServer | None = None


class RetryWithSavepoints(Exception):
    """A call failed after it had changed something, and there was no savepoint to go back to."""


class OptimisticGuard:
    """Instead of a savepoint: most calls that fail have changed nothing yet.

    It costs nothing, where a savepoint costs two statements. When hope fails, the batch is rolled
    back and run again with savepoints.
    """

    __slots__ = ("_before", "_ledger")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __enter__(self) -> None:
        self._before = self._ledger.connection.changes

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        lost = isinstance(error, Exception) and not isinstance(error, StorageFull)
        if lost and self._ledger.connection.changes != self._before:
            raise RetryWithSavepoints from error


@dataclass(slots=True)
class Batch:
    """`hive` is the snapshot after the calls so far; `commits` says how often it changed."""

    hive: Hive
    now: float
    monotonic: float
    in_transaction: bool
    commits: int = 0
    outcomes: list[CallOutcome] = field(default_factory=list)
    wakes: set[str] = field(default_factory=set)
    # What handlers touched with `Call.notify`.
    topics: list[str] = field(default_factory=list)
    entries: list[AuditEntry] = field(default_factory=list)
    stopped_connections: set[ClientConnection] = field(default_factory=set)
    # Bytes answered to each party so far.
    bytes_answered: dict[str, int] = field(default_factory=dict)
    # No commits: the branch is in other hands.
    frozen: bool = False
    # Each call has a savepoint; else they hope.
    use_savepoints: bool = True

    def guard(self, ledger: Ledger) -> AbstractContextManager[None]:
        """What makes a call all or nothing."""
        return ledger.savepoint() if self.use_savepoints else OptimisticGuard(ledger)
