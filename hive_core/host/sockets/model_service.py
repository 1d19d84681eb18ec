"""The sockets of hive-model on this host: where it accounts for calls, and where it gets doors."""

from __future__ import annotations

import pwd
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from hive_core.host.sockets.model_doors import ModelDoors
from hive_core.host.sockets.server import SocketServer
from hive_core.model.config.settings import Paths

USER: Final = "hive-model"
MODEL_SOCKET: Final = "model.sock"
NO_USER: Final = (
    f"no agent can call a model: there is no user {USER}; `hive setup` creates it and starts the"
    " service"
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


async def listen_model_service(sockets: SocketServer, doors: ModelDoors, paths: Paths) -> str:
    """Open the two sockets of hive-model; return why there are none, or an empty text."""
    if doors.uid is None:
        return NO_USER
    await sockets.listen_model_service(paths.model_control_socket, doors.uid)
    doors.listen(paths.hand_model_socket)
    return ""
