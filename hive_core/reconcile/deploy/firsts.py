"""The first system of agents of the image `nix`: they have something to run only once it is built.

What they start with is the template, which is ours, so nobody has to approve it. An agent whose
first system cannot be built is parked, so that who waits for it and the operator are told why; it
is tried again when it is started again, or its configuration or the inputs are others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from hive_core.broker.call import Call, Record
from hive_core.model.agent import AgentSpec
from hive_core.model.approval import Approval, Kind
from hive_core.model.hive import Hive
from hive_core.model.machine import Starts
from hive_core.model.settings import NIX_IMAGE
from hive_core.operations.ending import topic
from hive_core.operations.history import updating
from hive_core.plan.state import Trouble, trouble
from hive_core.reconcile.deploy.change import Done
from hive_core.reconcile.deploy.given import Means

Try = tuple[str, str, str]


@dataclass
class FirstBuilds:
    """`_tried`: what this daemon has asked for, and for which start; forgotten with the agents."""

    means: Means
    _tried: dict[Try, int] = field(default_factory=dict)
    _waiting: frozenset[str] = frozenset()

    def look(self) -> None:
        """Ask for what is missing; one transaction, none when nothing is."""
        missing = dict(_without_system(self.means.hive()))
        self._waiting = frozenset(uuid for uuid, *_ in missing)
        self._tried = {each: nonce for each, nonce in self._tried.items() if each in missing}
        wanted = [each for each in missing if self._is_due(each)]
        if wanted:
            names = [missing[each] for each in wanted]
            self.means.perform("build_first", lambda call: _ask(call, names))
            self._tried.update({each: self._nonce(each) for each in wanted})
            self.means.step("asked for first systems")

    def awaits(self, uuid: str) -> bool:
        """Whether another start of this agent, or the end of a request, is to be looked at."""
        return uuid in self._waiting

    def _is_due(self, each: Try) -> bool:
        uuid, ledger = each[0], self.means.ports.ledger
        if ledger.approvals.of_agent(uuid):
            return False  # its end is looked at
        if each not in self._tried:
            return True
        run = ledger.runs.get(uuid)
        parked = run is not None and trouble(run, ledger.starts.get(uuid)) is Trouble.PARKED
        return not parked and self._nonce(each) > self._tried[each]

    def _nonce(self, each: Try) -> int:
        run = self.means.ports.ledger.runs.get(each[0])
        return run.nonce if run is not None else 0


def park(call: Call, approval: Approval, reason: str) -> frozenset[str]:
    """Inside the transaction in which a build came to nothing; the topics to touch."""
    name, ledger = call.hive.name(approval.agent), call.ledger
    run = ledger.runs.get(approval.agent)
    if approval.kind is not Kind.UPDATE or name is None or run is None:
        return frozenset()
    if not _lacks_system(call.hive.spec(name)):
        return frozenset()
    ledger.starts.put(run.agent, replace(
        ledger.starts.get(run.agent) or Starts(), failures=(call.now,), next_at=0.0, parked=True,
        nonce=run.nonce, why=f"cannot be built: {reason}", returns=False,
    ))  # fmt: skip
    return frozenset({f"run:{run.agent}"})


def _lacks_system(spec: AgentSpec) -> bool:
    return spec.image == NIX_IMAGE and spec.system is None


def _without_system(hive: Hive) -> Iterator[tuple[Try, str]]:
    for name, spec in hive.specs.items():
        if _lacks_system(spec) and spec.config is not None:
            yield (spec.id, spec.config, hive.lock_hash), name


def _ask(call: Call, names: list[str]) -> Record[Done]:
    topics = set[str]()
    for name in names:
        if name in call.hive.specs and not call.ledger.approvals.of_agent(call.hive.spec(name).id):
            topics.add(topic(updating(call, name).id))
    return Record(Done(text=", ".join(names)), frozenset(topics), {"agents": len(topics)})
