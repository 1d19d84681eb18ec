"""The sockets on which agents call models: hived binds them, hive-model serves them.

hived keeps each listening socket, also over its own restarts, and hands it to hive-model over a
SEQPACKET socket. So the connections of an agent queue while either of the two is away, and are
served when it is back. hived accepts none of them and never waits for hive-model.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.host.sockets.connection import peer
from hive_core.host.sockets.server import BACKLOG, UID_RANGE, Access, DescriptorStore, bind_socket

log = logging.getLogger(__name__)

# What systemd's store calls the socket of an agent.
SUFFIX: Final = ".model"
# hive-model and its successor, while one takes over from the other.
_RECEIVERS: Final = 4
# Seconds until a packet is tried again whose descriptors the kernel did not take.
_RETRY: Final = 0.2
_PACKET: Final = 4096


@dataclass(slots=True, eq=False)
class AgentModelSocket:
    """The model socket of one agent. `is_open` is false once it is closed."""

    uuid: str
    name: str
    path: Path
    uid_base: int
    listening: socket.socket
    is_open: bool = True

    @property
    def packet(self) -> bytes:
        return _encode(
            {"agent": self.uuid, "name": self.name, "sub": "", "uids": [self.uid_base, UID_RANGE]}
        )

    def close(self) -> None:
        self.is_open = False
        self.listening.close()
        self.path.unlink(missing_ok=True)


def _encode(packet: Mapping[str, object]) -> bytes:
    return json.dumps(packet, separators=(",", ":")).encode()


@dataclass(slots=True, eq=False)
class HandOverConnection:
    """One connected hive-model, and the packets that it has still to get."""

    loop: asyncio.AbstractEventLoop
    connected: socket.socket
    on_end: Callable[[HandOverConnection], None]
    queue: deque[bytes | AgentModelSocket] = field(default_factory=deque)
    is_waiting: bool = False
    is_closed: bool = False

    def start(self) -> None:
        self.loop.add_reader(self.connected, self._read)
        self.pump()

    def put(self, packet: bytes | AgentModelSocket) -> None:
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

    def _send(self, packet: bytes | AgentModelSocket) -> None:
        if isinstance(packet, bytes):
            self.connected.send(packet)
        elif packet.is_open:  # otherwise it was closed before its turn came
            socket.send_fds(self.connected, [packet.packet], [packet.listening.fileno()])

    def _stop_waiting(self) -> None:
        if self.is_waiting and not self.is_closed:
            self.loop.remove_writer(self.connected)
        self.is_waiting = False

    def _read(self) -> None:
        """hive-model has nothing to say here: an empty packet is its end."""
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


class ModelDoors:
    """The model sockets of all agents.

    `keeper` holds them while hived restarts. Without a `uid` of hive-model there are none: nothing
    would serve them.
    """

    def __init__(self, uid: int | None, keeper: DescriptorStore | None = None) -> None:
        self.uid, self._keeper = uid, keeper
        self._doors: dict[str, AgentModelSocket] = {}
        self._adopted: dict[str, socket.socket] = {}
        self.receivers: set[HandOverConnection] = set()
        self._hand: socket.socket | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def is_served(self) -> bool:
        """Whether a hive-model is connected."""
        return bool(self.receivers)

    @property
    def agents(self) -> frozenset[str]:
        return frozenset(self._doors)

    # Sockets of agents

    def adopt(self, name: str, fd: int) -> None:
        """Take over the socket that the previous daemon stored under this name."""
        self._adopted[name.removesuffix(SUFFIX)] = socket.socket(fileno=fd)

    def close_unadopted_sockets(self) -> None:
        """Close sockets of the previous daemon whose agents are gone."""
        for uuid, left in self._adopted.items():
            left.close()
            self._drop(uuid)
        self._adopted.clear()

    def open(self, uuid: str, name: str, path: Path, uid_base: int) -> None:
        """Have hive-model serve the agent on `path`; only peers of its uid range are served."""
        if self.uid is None:
            return
        known = self._doors.get(uuid)
        same = known is not None and (known.path, known.uid_base) == (path, uid_base)
        if same and path.is_socket():
            return
        self.close(uuid)
        listening = self._take_adopted_socket(uuid, path) or bind_socket(path, Access(0o666))
        listening.settimeout(0)
        listening.listen(BACKLOG)
        if self._keeper is not None:
            self._keeper.store(f"{uuid}{SUFFIX}", listening.fileno())
        door = self._doors[uuid] = AgentModelSocket(uuid, name, path, uid_base, listening)
        for receiver in list(self.receivers):
            receiver.put(door)

    def _take_adopted_socket(self, uuid: str, path: Path) -> socket.socket | None:
        """The socket of the previous daemon, if its file is still in place."""
        adopted = self._adopted.pop(uuid, None)
        if adopted is not None and not (adopted.getsockname() == str(path) and path.is_socket()):
            adopted.close()
            return None
        return adopted

    def close(self, uuid: str) -> None:
        """Have hive-model end the agent's connections, and remove the socket file."""
        door = self._doors.pop(uuid, None)
        if door is None:
            return
        door.close()
        self._drop(uuid)
        for receiver in list(self.receivers):
            receiver.put(_encode({"gone": uuid, "sub": ""}))

    def _drop(self, uuid: str) -> None:
        if self._keeper is not None:
            self._keeper.drop(f"{uuid}{SUFFIX}")

    # hive-model

    def listen(self, path: Path) -> None:
        """Accept hive-model on `path`. Each connection gets all sockets, then every change."""
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
                log.warning("Cannot accept hive-model: %s", error)
            return
        uid, pid = peer(connected)
        if uid != self.uid or len(self.receivers) >= _RECEIVERS:
            log.warning("Peer %d with uid %d is not hive-model: refused", pid, uid)
            connected.close()
            return
        connected.settimeout(0)
        receiver = HandOverConnection(self._loop, connected, self.receivers.discard)
        receiver.queue.extend(self._doors.values())
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
        for door in self._doors.values():
            door.listening.close()
