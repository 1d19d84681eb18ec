"""The sockets of hive-model on this host: where it accounts for calls, and where it gets doors."""

from __future__ import annotations

import pwd
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from hive_core.broker.outcome import TREE
from hive_core.host.sockets.model_doors import ModelDoors
from hive_core.host.sockets.server import SocketServer
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import Paths

USER: Final = "hive-model"
MODEL_SOCKET: Final = "model.sock"
_TROUBLE: Final = "models"
NO_USER: Final = (
    f"agents have a runtime, but none can call a model: there is no user {USER}; `hive setup`"
    " creates it"
)


def user_id(user: str = USER) -> int | None:
    """The uid of hive-model; None where the host does not have its user."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


class BrokerSockets(Protocol):
    """The part of the socket server that serves agents."""

    async def listen(self, uuid: str, path: Path, uid_base: int) -> None: ...
    def close(self, party: str) -> None: ...


@dataclass(frozen=True, slots=True)
class AgentSocketPair:
    """Both sockets of an agent, side by side: to hived, and to hive-model."""

    broker: BrokerSockets
    doors: ModelDoors
    name: Callable[[str], str]

    async def listen(self, uuid: str, path: Path, uid_base: int) -> None:
        await self.broker.listen(uuid, path, uid_base)
        self.doors.open(uuid, self.name(uuid), path.with_name(MODEL_SOCKET), uid_base)

    def close(self, party: str) -> None:
        self.doors.close(party)
        self.broker.close(party)


@dataclass(frozen=True, slots=True)
class ModelSockets:
    """The two sockets of hive-model. Without its user there are none.

    Where an agent has a runtime for models then, `troubles` says so.
    """

    sockets: SocketServer
    doors: ModelDoors
    paths: Paths
    troubles: MutableMapping[str, str]
    hive: Callable[[], Hive]

    async def listen(self) -> None:
        if self.doors.uid is not None:
            await self.sockets.listen_model_service(self.paths.model_control_socket, self.doors.uid)
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
