"""The sockets of hive-model on this host: where it accounts for calls, and where it gets doors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from hive_core.broker.outcome import TREE
from hive_core.host.sockets.egress_sockets import EgressSockets
from hive_core.host.sockets.server import SocketServer
from hive_core.host.sockets.service_doors import MODEL_SOCKETS, ServiceDoors
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
    doors: ServiceDoors
    name: Callable[[str], str]
    egress: EgressSockets | None = None

    async def listen(self, uuid: str, path: Path, uid_base: int) -> None:
        await self.broker.listen(uuid, path, uid_base)
        self.doors.open(uuid, self.name(uuid), path.with_name(self.doors.kind.file), uid_base)
        if self.egress is not None:
            self.egress.open(uuid, path.parent, uid_base)

    def close(self, party: str) -> None:
        self.doors.close(party)
        if self.egress is not None:
            self.egress.close(party)
        self.broker.close(party)

    def adopt(self, name: str, fd: int) -> None:
        """Take over a socket of the previous daemon, by what it serves."""
        for doors in self._service_doors():
            if name.endswith(doors.kind.suffix):
                doors.adopt(name, fd)
                return
        self.broker.adopt(name, fd)

    def close_unadopted_sockets(self) -> None:
        """Close sockets of the previous daemon whose agents are gone."""
        self.broker.close_unadopted_sockets()
        for doors in self._service_doors():
            doors.close_unadopted_sockets()

    def stop(self) -> None:
        """End the daemon's part; the files and the stored descriptors stay."""
        for doors in self._service_doors():
            doors.stop()
        self.broker.stop()

    def _service_doors(self) -> Iterator[ServiceDoors]:
        yield self.doors
        if self.egress is not None:
            yield self.egress.doors


@dataclass(frozen=True, slots=True)
class ModelSockets:
    """The two sockets of hive-model. Without its user there are none.

    Where an agent has a runtime for models then, `troubles` says so.
    """

    sockets: SocketServer
    doors: ServiceDoors
    paths: Paths
    troubles: MutableMapping[str, str]
    hive: Callable[[], Hive]

    async def listen(self) -> None:
        if self.doors.uid is not None:
            await self.sockets.listen_service(
                MODEL, self.paths.model_control_socket, self.doors.uid
            )
            self.doors.listen(self.paths.hand_model_socket)
        self._report_missing_user()

    def on_topics(self, topics: frozenset[str]) -> None:
        if TREE in topics:
            self._report_missing_user()

    def _report_missing_user(self) -> None:
        specs = self.hive().specs.values() if self.doors.uid is None else ()
        if any(spec.runtime is not None for spec in specs):
            self.troubles[_TROUBLE] = NO_USER
        else:
            self.troubles.pop(_TROUBLE, None)
