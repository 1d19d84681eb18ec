"""One attempt at a batch: its snapshot and its outcomes. Thrown away if COMMIT fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from hive_core.broker.call import NO_CONTENTS, NO_VAULT
from hive_core.broker.connection import CallOutcome, PendingCall
from hive_core.broker.row_versions import RowVersions
from hive_core.ledger.audit.events import AuditEntry
from hive_core.model.agents.hive import Hive
from hive_core.model.config.models import ModelsFile
from hive_core.ports import Clock, Contents, GitServer, Vault

if TYPE_CHECKING:
    from hive_core.broker.call import StatesView
    from hive_core.ledger.core.ledger import Ledger, Savepoint
    from hive_core.model.config.settings import Settings


class Repository(Protocol):
    """What the broker needs of the meta repo (`host/git/repo.py`)."""

    def write(self, hive: Hive, before: Hive, message: str, trailers: Mapping[str, str]) -> str:
        """Write a commit on top of `before.commit`, objects synced; no ref moves."""
        ...

    def hold(self, expected: str) -> AbstractContextManager[Callable[[str], None]]:
        """Lock the branch, which must stand at `expected` (else Conflict); call it to move."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """The stores and services of one hive that the broker uses."""

    ledger: Ledger
    repo: Repository
    settings: Settings
    states: StatesView
    clock: Clock
    vault: Vault = NO_VAULT
    contents: Contents = NO_CONTENTS
    git: GitServer | None = None
    models: ModelsFile = field(default_factory=ModelsFile)
    prompts: Mapping[str, str] = field(default_factory=dict)
    rows: RowVersions = field(default_factory=RowVersions)
    skills: Mapping[str, str] = field(default_factory=dict)


class RetryWithSavepoints(Exception):
    """A call failed after it changed something, and no savepoint was there to roll back to."""


@dataclass(slots=True)
class CallBatch:
    """`hive` is the snapshot after the calls so far; `commits` says how often it changed."""

    hive: Hive
    now: float
    monotonic: float
    in_transaction: bool
    # Makes each call atomic. None: most calls that fail have changed nothing yet, and a savepoint
    # costs two statements. When one fails after a change, the batch is run again with savepoints.
    savepoint: Savepoint | None
    # No commits: the branch is being changed by hand.
    frozen: bool = False
    commits: int = 0
    outcomes: list[CallOutcome] = field(default_factory=list)
    wakes: set[str] = field(default_factory=set)
    # What handlers touched with `Call.notify`.
    topics: list[str] = field(default_factory=list)
    entries: list[AuditEntry] = field(default_factory=list)
    # Calls that this batch counted; a batch that is rolled back counts none.
    counted: list[PendingCall] = field(default_factory=list)
    # Those for which it took a confirmation; rolled back, it took none.
    confirmed: list[PendingCall] = field(default_factory=list)
