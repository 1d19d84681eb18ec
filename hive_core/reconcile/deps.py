"""What the change road is given to work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hive_core.broker.call import Call, Change, Record
from hive_core.broker.operation import Result
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import Settings
from hive_core.ports import Clock, Jobs, Journal, Machines

R = TypeVar("R", bound=Result)


class Perform(Protocol):
    """`Broker.perform`: something that the daemon does by itself, in one transaction."""

    def __call__(self, name: str, handler: Callable[[Call], Change[R] | Record[R]], /) -> R: ...


class TopicListener(Protocol):
    """Somebody who wants to know the topics of what was recorded."""

    def on_topics(self, topics: frozenset[str], /) -> None: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """The four ports, the ledger and the settings."""

    machines: Machines
    journal: Journal
    jobs: Jobs
    clock: Clock
    ledger: Ledger
    settings: Settings


@dataclass(frozen=True, slots=True)
class BrokerHandle:
    """The request road as this one sees it: the snapshot in force, whom to tell, what to do."""

    hive: Callable[[], Hive]
    touch: Callable[[frozenset[str]], None]
    perform: Perform
