"""One attempt at a batch: what it reads from, and what it brought. Thrown away if COMMIT fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from hive_core.broker.audit import Entry
from hive_core.broker.line import Line, Step
from hive_core.model.hive import Hive
from hive_core.ports import Clock

if TYPE_CHECKING:
    from hive_core.broker.call import StatesView
    from hive_core.ledger.store import Ledger
    from hive_core.model.settings import Settings


class Repository(Protocol):
    """What the broker needs of the meta repo (`host/git.py`)."""

    def write(self, hive: Hive, before: Hive, message: str, trailers: Mapping[str, str]) -> str:
        """A commit on top of `before.commit`, its objects on disk; no ref moves."""
        ...

    def hold(self, expected: str) -> AbstractContextManager[Callable[[str], None]]:
        """Lock the branch, which must stand at `expected` (else Conflict); call it to move."""
        ...


@dataclass(frozen=True, slots=True)
class World:
    """What one hive consists of, as the broker needs it."""

    ledger: Ledger
    repo: Repository
    settings: Settings
    states: StatesView
    clock: Clock


@dataclass(slots=True)
class Turn:
    """`hive` is the snapshot after the calls so far; `commits` says how often it changed."""

    hive: Hive
    now: float
    monotonic: float
    inside: bool
    commits: int = 0
    steps: list[Step] = field(default_factory=list)
    wakes: set[str] = field(default_factory=set)
    entries: list[Entry] = field(default_factory=list)
    stopped: set[Line] = field(default_factory=set)
    # No commits: the branch is in other hands.
    frozen: bool = False
