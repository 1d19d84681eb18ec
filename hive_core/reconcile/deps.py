"""The dependencies of the reconciler and the deployer: ports, broker, listeners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from hive_core.broker.call import Call, Change, Record
from hive_core.broker.operation import Result
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.model_catalog import ModelCatalog
from hive_core.model.config.models import ModelsFile
from hive_core.model.config.settings import Settings
from hive_core.ports import Clock, Jobs, Journal, Machines

R = TypeVar("R", bound=Result)


class Perform(Protocol):
    """`Broker.perform`: runs a handler of the daemon itself in one transaction."""

    def __call__(self, name: str, handler: Callable[[Call], Change[R] | Record[R]], /) -> R: ...


class TopicListener(Protocol):
    """A part that is notified of the topics of each recorded change."""

    def on_topics(self, topics: frozenset[str], /) -> None: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """The four ports, the ledger, the settings and the models of this host."""

    machines: Machines
    journal: Journal
    jobs: Jobs
    clock: Clock
    ledger: Ledger
    settings: Settings
    models: ModelsFile = field(default_factory=ModelsFile)

    @property
    def catalog(self) -> ModelCatalog:
        return ModelCatalog(self.models, self.settings.models)


@dataclass(frozen=True, slots=True)
class BrokerHandle:
    """The broker as the change path uses it: the current snapshot, notify topics, perform."""

    hive: Callable[[], Hive]
    touch: Callable[[frozenset[str]], None]
    perform: Perform
