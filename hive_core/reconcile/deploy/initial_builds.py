"""Builds the first system of agents of the image `nix`, which they need to run.

These agents start with hive's own template, so no approval is needed. An agent whose first system
cannot be built, or is not healthy, is parked, and its parent and the operator get the reason. The
build is retried when the agent is started again, or when its configuration or the inputs change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hive_core.broker.call import Call, Record
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import NIX_IMAGE
from hive_core.operations.approvals.history import create_update
from hive_core.operations.approvals.outcome import approval_topic
from hive_core.plan.state import Trouble, trouble
from hive_core.reconcile.deploy.context import DeployContext
from hive_core.reconcile.deploy.parking import lacks_system
from hive_core.reconcile.deploy.transactions import DeployResult

BuildKey = tuple[str, str, str]


@dataclass
class InitialBuilds:
    """Requests first builds.

    `_tried` holds the builds that this daemon requested, with the nonce.
    """

    context: DeployContext
    _tried: dict[BuildKey, int] = field(default_factory=dict)
    _waiting: frozenset[str] = frozenset()

    def request_missing(self) -> None:
        """Request all missing builds in one transaction."""
        made = {key: name for name, key in _nix_agents(self.context.hive())}
        specs = self.context.hive().specs
        missing = {key: name for key, name in made.items() if lacks_system(specs[name])}
        self._waiting = frozenset(uuid for uuid, *_ in missing)
        self._tried = {key: nonce for key, nonce in self._tried.items() if key in made}
        wanted = [key for key in missing if self._is_due(key)]
        if wanted:
            names = [missing[key] for key in wanted]
            self.context.perform("build_first", lambda call: _request_builds(call, names))
            self._tried.update({key: self._nonce(key) for key in wanted})
            self.context.step("asked for first systems")

    def is_waiting(self, uuid: str) -> bool:
        """Whether this agent waits for its first system."""
        return uuid in self._waiting

    def _is_due(self, key: BuildKey) -> bool:
        uuid, ledger = key[0], self.context.ports.ledger
        if ledger.approvals.of_agent(uuid):
            return False  # handled at the end of that approval
        if key not in self._tried:
            return True
        run = ledger.runs.get(uuid)
        parked = run is not None and trouble(run, ledger.starts.get(uuid)) is Trouble.PARKED
        return not parked and self._nonce(key) > self._tried[key]

    def _nonce(self, key: BuildKey) -> int:
        run = self.context.ports.ledger.runs.get(key[0])
        return run.nonce if run is not None else 0


def _nix_agents(hive: Hive) -> Iterator[tuple[str, BuildKey]]:
    for name, spec in hive.specs.items():
        if spec.image == NIX_IMAGE and spec.config is not None:
            yield name, (spec.id, spec.config, hive.lock_hash)


def _request_builds(call: Call, names: list[str]) -> Record[DeployResult]:
    topics = set[str]()
    for name in names:
        if name in call.hive.specs and not call.ledger.approvals.of_agent(call.hive.spec(name).id):
            topics.add(approval_topic(create_update(call, name).id))
    call.notify(*topics)
    return Record(DeployResult(text=", ".join(names)), fields={"agents": len(topics)})
