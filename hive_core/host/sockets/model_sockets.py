"""The sockets of hive-model on this host: where it accounts for calls, and those of agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from hive_core.broker.outcome import TREE
from hive_core.host.sockets.egress_sockets import EgressSockets
from hive_core.host.sockets.server import SocketServer
from hive_core.host.sockets.service_sockets import MODEL_SOCKETS, ServiceSockets
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import Paths
from hive_core.model.wire.record import MODEL

USER: Final = MODEL_SOCKETS.user
_TROUBLE: Final = "models"
NO_USER: Final = (
    f"agents have a runtime, but cannot call a model: user {USER} does not exist; `hive setup`"
    " creates it"
)


class BrokerSockets(Protocol):
    """The part of the socket server that serves agents."""

    async def listen(self, uuid: str, path: Path, uid_base: int) -> None: ...
    def close(self, party: str) -> None: ...
    def adopt(self, name: str, fd: int) -> None: ...
    def close_unadopted_sockets(self) -> None: ...
    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class AgentSocketGroup:
    """The sockets of an agent, side by side: to hived, to hive-model, and to hive-egress."""

    broker: BrokerSockets
    service_sockets: ServiceSockets
    name: Callable[[str], str]
    egress: EgressSockets | None = None

    async def listen(self, uuid: str, path: Path, uid_base: int) -> None:
        await self.broker.listen(uuid, path, uid_base)
        self.service_sockets.open(
            uuid, self.name(uuid), path.with_name(self.service_sockets.kind.file), uid_base
        )
        if self.egress is not None:
            self.egress.open(uuid, path.parent, uid_base)

    def close(self, party: str) -> None:
        self.service_sockets.close(party)
        if self.egress is not None:
            self.egress.close(party)
        self.broker.close(party)

    def adopt(self, name: str, fd: int) -> None:
        """Take over a socket of the previous daemon, by what it serves."""
        for service_sockets in self._kinds_of_sockets():
            if name.endswith(service_sockets.kind.suffix):
                service_sockets.adopt(name, fd)
                return
        self.broker.adopt(name, fd)

    def close_unadopted_sockets(self) -> None:
        """Close sockets of the previous daemon whose agents are gone."""
        self.broker.close_unadopted_sockets()
        for service_sockets in self._kinds_of_sockets():
            service_sockets.close_unadopted_sockets()

    def stop(self) -> None:
        """End the daemon's part; the files and the stored descriptors stay."""
        for service_sockets in self._kinds_of_sockets():
            service_sockets.stop()
        self.broker.stop()

    def _kinds_of_sockets(self) -> Iterator[ServiceSockets]:
        yield self.service_sockets
        if self.egress is not None:
            yield self.egress.service_sockets


@dataclass(frozen=True, slots=True)
class ModelSockets:
    """The two sockets of hive-model. Without its user there are none.

    Where an agent has a runtime for models then, `troubles` says so.
    """

    sockets: SocketServer
    service_sockets: ServiceSockets
    paths: Paths
    troubles: MutableMapping[str, str]
    hive: Callable[[], Hive]

    async def listen(self) -> None:
        if self.service_sockets.uid is not None:
            await self.sockets.listen_service(
                MODEL, self.paths.model_control_socket, self.service_sockets.uid
            )
            self.service_sockets.listen(self.paths.hand_model_socket)
        self._report_missing_user()

    def on_topics(self, topics: frozenset[str]) -> None:
        if TREE in topics:
            self._report_missing_user()

    def _report_missing_user(self) -> None:
        specs = self.hive().specs.values() if self.service_sockets.uid is None else ()
        if any(spec.runtime is not None for spec in specs):
            self.troubles[_TROUBLE] = NO_USER
        else:
            self.troubles.pop(_TROUBLE, None)
