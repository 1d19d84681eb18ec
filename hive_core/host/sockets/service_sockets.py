"""The sockets of agents that another service serves: hived binds them and hands them over.

hived keeps each listening socket, also over its own restarts, and hands it to the service over a
SEQPACKET socket. So the connections of an agent queue while either of the two is away, and are
served when it is back. hived accepts none of them and never waits for the service.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import pwd
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.host.sockets.connection import peer
from hive_core.host.sockets.server import BACKLOG, UID_RANGE, Access, DescriptorStore, bind_socket
from hive_core.model.agents.subagent import SUBAGENT_UIDS, split_address

log = logging.getLogger(__name__)

# A service and its successor, while one takes over from the other.
_RECEIVERS: Final = 4
# Seconds until a packet is tried again whose descriptors the kernel did not take.
_RETRY: Final = 0.2
_PACKET: Final = 4096


@dataclass(frozen=True, slots=True)
class SocketKind:
    """The sockets of agents that one service serves.

    `user` is its name and its user, `file` that of the socket in the directory of an agent, and
    `suffix` is what systemd's store calls it.
    """

    user: str
    file: str
    suffix: str


MODEL_SOCKETS: Final = SocketKind("hive-model", "model.sock", ".model")
EGRESS_SOCKETS: Final = SocketKind("hive-egress", "egress.sock", ".egress")


def user_id(user: str) -> int | None:
    """The uid of the user of a service; None where the host does not have it."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


@dataclass(slots=True, eq=False)
class AgentServiceSocket:
    """The socket of one agent, or of a sub-agent. `is_open` is false once it is closed.

    `party` is a UUID, or `UUID/ID` of a sub-agent, whose only uid is `uid_base`. `policy` stands
    for what its connections may do: those of another one are ended.
    """

    party: str
    name: str
    path: Path
    uid_base: int
    policy: str
    listening: socket.socket
    is_open: bool = True

    @property
    def packet(self) -> bytes:
        agent, sub = split_address(self.party)
        packet: dict[str, object] = {"agent": agent, "name": self.name, "sub": sub}
        if sub:
            packet["uids"] = [self.uid_base, 1]
        else:
            packet["uids"] = [self.uid_base, UID_RANGE]
            packet["refused"] = [self.uid_base + SUBAGENT_UIDS.start, len(SUBAGENT_UIDS)]
        return _encode({**packet, "policy": self.policy} if self.policy else packet)

    def close(self) -> None:
        self.is_open = False
        self.listening.close()
        self.path.unlink(missing_ok=True)


def _encode(packet: Mapping[str, object]) -> bytes:
    return json.dumps(packet, separators=(",", ":")).encode()


@dataclass(slots=True, eq=False)
class HandOverConnection:
    """One connected service, and the packets that it has still to get."""

    loop: asyncio.AbstractEventLoop
    connected: socket.socket
    on_end: Callable[[HandOverConnection], None]
    queue: deque[bytes | AgentServiceSocket] = field(default_factory=deque)
    is_waiting: bool = False
    is_closed: bool = False

    def start(self) -> None:
        self.loop.add_reader(self.connected, self._read)
        self.pump()

    def put(self, packet: bytes | AgentServiceSocket) -> None:
        self.queue.append(packet)
        if not self.is_waiting:
            self.pump()

    def pump(self) -> None:
        """Send what the socket takes; go on when it takes more. It never blocks."""
        self._stop_waiting()
        while self.queue and not self.is_closed:
            try:
                self._send(self.queue[0])
            except BlockingIOError:
                self.is_waiting = True
                self.loop.add_writer(self.connected, self.pump)
                return
            except OSError as error:
                if error.errno != errno.ETOOMANYREFS:
                    self.close()
                    return
                self.is_waiting = True  # the peer has not read those on the way yet
                self.loop.call_later(_RETRY, self.pump)
                return
            self.queue.popleft()

    def _send(self, packet: bytes | AgentServiceSocket) -> None:
        if isinstance(packet, bytes):
            self.connected.send(packet)
        elif packet.is_open:  # otherwise it was closed before its turn came
            socket.send_fds(self.connected, [packet.packet], [packet.listening.fileno()])

    def _stop_waiting(self) -> None:
        if self.is_waiting and not self.is_closed:
            self.loop.remove_writer(self.connected)
        self.is_waiting = False

    def _read(self) -> None:
        """The service has nothing to say here: an empty packet is its end."""
        try:
            data = self.connected.recv(_PACKET)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()

    def close(self) -> None:
        if self.is_closed:
            return
        self._stop_waiting()
        self.is_closed = True
        self.loop.remove_reader(self.connected)
        self.connected.close()
        self.queue.clear()
        self.on_end(self)


class ServiceSockets:
    """The sockets of all agents that one service serves.

    `keeper` holds them while hived restarts. Without a `uid` of the service there are none: nothing
    would serve them.
    """

    def __init__(
        self, uid: int | None, keeper: DescriptorStore | None = None,
        kind: SocketKind = MODEL_SOCKETS,
    ) -> None:  # fmt: skip
        self.uid, self._keeper, self.kind = uid, keeper, kind
        self._agent_sockets: dict[str, AgentServiceSocket] = {}
        self._adopted: dict[str, socket.socket] = {}
        self.receivers: set[HandOverConnection] = set()
        self._hand: socket.socket | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def is_served(self) -> bool:
        """Whether the service is connected."""
        return bool(self.receivers)

    @property
    def agents(self) -> frozenset[str]:
        return frozenset(self._agent_sockets)

    # Sockets of agents

    def adopt(self, name: str, fd: int) -> None:
        """Take over the socket that the previous daemon stored under this name."""
        self._adopted[name.removesuffix(self.kind.suffix)] = socket.socket(fileno=fd)

    def close_unadopted_sockets(self) -> None:
        """Close sockets of the previous daemon whose agents are gone."""
        for uuid, left in self._adopted.items():
            left.close()
            self._drop(uuid)
        self._adopted.clear()

    def open(self, uuid: str, name: str, path: Path, uid_base: int, policy: str = "") -> None:
        """Have the service serve the agent on `path`; only peers of its uid range are served.

        Another `policy` than before ends the connections that there are.
        """
        if self.uid is None:
            return
        known = self._agent_sockets.get(uuid)
        if (
            known is not None
            and (known.path, known.uid_base) == (path, uid_base)
            and path.is_socket()
        ):
            self._set_policy(known, policy)
            return
        self.close(uuid)
        listening = self._take_adopted_socket(uuid, path) or bind_socket(path, Access(0o666))
        listening.settimeout(0)
        listening.listen(BACKLOG)
        if self._keeper is not None:
            self._keeper.store(f"{uuid}{self.kind.suffix}", listening.fileno())
        self._announce(AgentServiceSocket(uuid, name, path, uid_base, policy, listening))

    def open_subagent(self, party: str, name: str, path: Path, uid: int, policy: str = "") -> None:
        """Have the service serve a sub-agent of the agent `name`; only peers of this uid.

        Its socket is in no store: the next daemon does not serve it. Another `policy` than before
        ends the connections that there are.
        """
        if self.uid is None:
            return
        if (known := self._agent_sockets.get(party)) is not None:
            self._set_policy(known, policy)
            return
        listening = bind_socket(path, Access(0o666))
        listening.settimeout(0)
        listening.listen(BACKLOG)
        self._announce(AgentServiceSocket(party, name, path, uid, policy, listening))

    def _set_policy(self, agent_socket: AgentServiceSocket, policy: str) -> None:
        if agent_socket.policy != policy:
            agent_socket.policy = policy
            self._announce(agent_socket)

    def _announce(self, agent_socket: AgentServiceSocket) -> None:
        self._agent_sockets[agent_socket.party] = agent_socket
        for receiver in list(self.receivers):
            receiver.put(agent_socket)

    def _take_adopted_socket(self, uuid: str, path: Path) -> socket.socket | None:
        """The socket of the previous daemon, if its file is still in place."""
        adopted = self._adopted.pop(uuid, None)
        if adopted is not None and not (adopted.getsockname() == str(path) and path.is_socket()):
            adopted.close()
            return None
        return adopted

    def close(self, uuid: str) -> None:
        """Have the service end the party's connections, and remove the socket file."""
        agent_socket = self._agent_sockets.pop(uuid, None)
        if agent_socket is None:
            return
        agent_socket.close()
        self._drop(uuid)
        agent, sub = split_address(uuid)
        for receiver in list(self.receivers):
            receiver.put(_encode({"gone": agent, "sub": sub}))

    def _drop(self, uuid: str) -> None:
        if self._keeper is not None and not split_address(uuid)[1]:
            self._keeper.drop(f"{uuid}{self.kind.suffix}")

    # The service

    def listen(self, path: Path) -> None:
        """Accept the service on `path`. Each connection gets all sockets, then every change."""
        if self.uid is None:
            return
        self._hand = bind_socket(path, Access(0o666), socket.SOCK_SEQPACKET)
        self._hand.settimeout(0)
        self._hand.listen(_RECEIVERS)
        self._loop.add_reader(self._hand, self._accept, self._hand)

    def _accept(self, hand: socket.socket) -> None:
        try:
            connected, _ = hand.accept()
        except OSError as error:
            if not isinstance(error, BlockingIOError):
                log.warning("Cannot accept %s: %s", self.kind.user, error)
            return
        uid, pid = peer(connected)
        if uid != self.uid or len(self.receivers) >= _RECEIVERS:
            log.warning("Peer %d with uid %d is not %s: refused", pid, uid, self.kind.user)
            connected.close()
            return
        connected.settimeout(0)
        receiver = HandOverConnection(self._loop, connected, self.receivers.discard)
        receiver.queue.extend(self._agent_sockets.values())
        receiver.queue.append(_encode({"synced": True}))
        self.receivers.add(receiver)
        receiver.start()

    def stop(self) -> None:
        """End the daemon's part. The socket files and the stored descriptors stay."""
        if self._hand is not None:
            self._loop.remove_reader(self._hand)
            self._hand.close()
            self._hand = None
        for receiver in list(self.receivers):
            receiver.close()
        for agent_socket in self._agent_sockets.values():
            agent_socket.listening.close()
