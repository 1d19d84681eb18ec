"""The first system of agents of the image `nix`: they have something to run only once it is built.

What they start with is the template, which is ours, so nobody has to approve it. One that cannot be
built is told like any other, and tried again when its configuration or the inputs are others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hive_core.broker.call import Call, Record
from hive_core.model.hive import Hive
from hive_core.model.settings import NIX_IMAGE
from hive_core.operations.ending import topic
from hive_core.operations.history import updating
from hive_core.reconcile.deploy.change import Done
from hive_core.reconcile.deploy.given import Means

Try = tuple[str, str, str]


@dataclass
class FirstBuilds:
    """`_tried`: what is not asked for twice by one daemon; forgotten with the agents."""

    means: Means
    _tried: set[Try] = field(default_factory=set)

    def look(self) -> None:
        """Ask for what is missing; one transaction, none when nothing is."""
        hive = self.means.hive()
        wanted = {each: name for each, name in _without_system(hive) if each not in self._tried}
        if wanted:
            self.means.perform("build_first", lambda call: _ask(call, list(wanted.values())))
            self.means.step("asked for first systems")
        living = {each for each, _ in _without_system(hive)}
        self._tried = living


def _without_system(hive: Hive) -> Iterator[tuple[Try, str]]:
    for name, spec in hive.specs.items():
        if spec.image == NIX_IMAGE and spec.system is None and spec.config is not None:
            yield (spec.id, spec.config, hive.lock_hash), name


def _ask(call: Call, names: list[str]) -> Record[Done]:
    topics = set[str]()
    for name in names:
        if name in call.hive.specs and not call.ledger.approvals.of_agent(call.hive.spec(name).id):
            topics.add(topic(updating(call, name).id))
    return Record(Done(text=", ".join(names)), frozenset(topics), {"agents": len(topics)})
