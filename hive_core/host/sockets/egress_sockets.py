"""The sockets of hive-egress on this host: where it asks hived, where it gets those of agents."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.broker.outcome import TREE
from hive_core.broker.quarantine import TOPIC, holder_above
from hive_core.host.sockets.server import DescriptorStore, SocketServer
from hive_core.host.sockets.service_sockets import EGRESS_SOCKETS, ServiceSockets, user_id
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.subagent import split_address
from hive_core.model.config.settings import Paths
from hive_core.model.wire.egress import network_profile
from hive_core.model.wire.record import EGRESS
from hive_core.policy.egress import egress_policy

_TROUBLE: Final = "egress"
NO_USER: Final = (
    "agents have a network profile, but cannot connect: user"
    f" {EGRESS_SOCKETS.user} does not exist; `hive setup` creates it"
)


def egress_doors(keeper: DescriptorStore | None) -> ServiceSockets:
    """The sockets of agents for hive-egress, none where this host does not have its user."""
    return ServiceSockets(user_id(EGRESS_SOCKETS.user), keeper, EGRESS_SOCKETS)


@dataclass(frozen=True, slots=True)
class EgressFacts:
    """What decides on sockets: the tree, the rules of the host, and the quarantines."""

    hive: Callable[[], Hive]
    allow: Sequence[str]
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class EgressSockets:
    """The sockets of agents with a network profile, which hive-egress serves.

    An agent that loses its profile loses its socket, and its connections end. They end, too, where
    its rules change or a quarantine holds it. Without the user of hive-egress there are no sockets,
    and `troubles` says so where an agent has a profile.
    """

    sockets: SocketServer
    service_sockets: ServiceSockets
    paths: Paths
    troubles: MutableMapping[str, str]
    facts: EgressFacts
    _places: dict[str, tuple[Path, int]] = field(default_factory=dict)

    async def listen(self) -> None:
        if self.service_sockets.uid is not None:
            await self.sockets.listen_service(
                EGRESS, self.paths.egress_control_socket, self.service_sockets.uid
            )
            self.service_sockets.listen(self.paths.hand_egress_socket)
        self._report_missing_user()

    def open(self, uuid: str, directory: Path, uid_base: int) -> None:
        """Have the agent served in its socket directory, as long as it has a network profile."""
        self._places[uuid] = (directory / self.service_sockets.kind.file, uid_base)
        self._update(uuid, self.facts.hive())

    def open_subagent(self, party: str, directory: Path, uid: int) -> None:
        """Have a sub-agent served beside its agent, for as long as this has a network profile."""
        self.open(party, directory, uid)

    def close(self, uuid: str) -> None:
        self._places.pop(uuid, None)
        self.service_sockets.close(uuid)

    def on_topics(self, topics: frozenset[str]) -> None:
        if TREE in topics or TOPIC in topics:
            hive = self.facts.hive()
            for uuid in self._places:
                self._update(uuid, hive)
            self._report_missing_user()

    def _update(self, party: str, hive: Hive) -> None:
        uuid, sub = split_address(party)
        name = hive.name(uuid)
        if name is None or network_profile(hive.spec(name).capabilities) is None:
            self.service_sockets.close(party)
            return
        held = bool(holder_above(self.facts.ledger.quarantines.agents, hive, uuid))
        policy = egress_policy(hive.spec(name), self.facts.allow, held=held)
        open_socket = self.service_sockets.open_subagent if sub else self.service_sockets.open
        open_socket(party, name, *self._places[party], policy)

    def _report_missing_user(self) -> None:
        specs = self.facts.hive().specs.values() if self.service_sockets.uid is None else ()
        if any(network_profile(spec.capabilities) is not None for spec in specs):
            self.troubles[_TROUBLE] = NO_USER
        else:
            self.troubles.pop(_TROUBLE, None)
