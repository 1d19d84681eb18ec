"""The daemon's sockets: one for each agent and one for the operator.

The socket is the caller's identity.
"""

from __future__ import annotations

import asyncio
import grp
import logging
import os
import socket
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from hive_core.broker.call import SlowReadSources
from hive_core.broker.connection import ClientConnection, SlowRead
from hive_core.broker.core import Broker
from hive_core.broker.operation import Result
from hive_core.errors import BadFrame, Busy, HiveError, Internal
from hive_core.host.sockets.connection import PATIENCE, PeerConnection, PeerTimeouts
from hive_core.host.sockets.listener import Listener
from hive_core.model.agents.subagent import SUBAGENT_UIDS, split_address
from hive_core.model.operator.account import LoginSeat
from hive_core.model.wire.record import LOGIN, OPERATOR

log = logging.getLogger(__name__)

UID_RANGE: Final = 65536
BACKLOG: Final = 128
# Connections accepted at once from each socket, so that many new ones do not delay other sockets.
_ACCEPTED: Final = 4
# From 3.13 on, a server that closes removes its socket file, which the next daemon needs.
_KEEP_FILE: Final[dict[str, Any]] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
_OPERATOR_CONNECTIONS: Final = 256
_SERVICE_CONNECTIONS: Final = 8
_SUBAGENT_CONNECTIONS: Final = 16
_LOGIN_CONNECTIONS: Final = 512
_READS_AT_ONCE: Final = 4
_READ_SECONDS: Final = 45.0


class DescriptorStore(Protocol):
    """Keeps listening sockets while the daemon restarts: systemd's file descriptor store."""

    def store(self, name: str, fd: int) -> None: ...

    def drop(self, name: str) -> None: ...


class SocketServer:
    """Opens and closes listeners, limits connections, and runs one batch for all new frames.

    `keeper` holds the listening sockets while the daemon restarts, so that clients queue; `adopt`
    takes them back. `fatal` must end the process: nothing is served after it.
    """

    def __init__(
        self, broker: Broker, reads: SlowReadSources, fatal: Callable[[BaseException], None],
        keeper: DescriptorStore | None = None, patience: PeerTimeouts = PATIENCE,
    ) -> None:  # fmt: skip
        self._broker = broker
        self._reads = reads
        self._fatal = fatal
        self._keeper = keeper
        self.patience = patience
        self._loop = asyncio.get_running_loop()
        self._woken = self._turning = self._dead = False
        self._listeners: dict[str, Listener] = {}
        self.pressed: set[str] = set()
        self._adopted: dict[str, socket.socket] = {}
        self._deadlines: dict[PeerConnection, float] = {}
        self._endings: set[PeerConnection] = set()
        self._tasks: dict[ClientConnection, asyncio.Task[None]] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._sweeping = False
        broker.attach(self)

    @property
    def parties(self) -> frozenset[str]:
        """The parties that have a listening socket: UUIDs of agents, and the operator."""
        return frozenset(self._listeners)

    # Listening

    def adopt(self, name: str, fd: int) -> None:
        """Take over a listening socket of the previous daemon; `listen` uses it for its party."""
        self._adopted[name] = socket.socket(fileno=fd)

    def close_unadopted_sockets(self) -> None:
        """Close sockets of the previous daemon that were not adopted.

        Call when all parties are served.
        """
        for name, left in self._adopted.items():
            left.close()
            if self._keeper is not None:
                self._keeper.drop(name)
        self._adopted.clear()

    async def listen(self, uuid: str, path: Path, uid_base: int) -> None:
        """Serve the agent on `path`; only peers of its uid range are served (attacks 33, 34)."""
        most = self._broker.services.settings.limits.connections
        uids = AgentUids(uid_base)
        # They may all connect. The directory is mounted in no other container.
        await self._listen(Listener(uuid, path, uids, most), Access(0o666))

    async def listen_subagent(self, party: str, path: Path, uid: int) -> None:
        """Serve a sub-agent, `UUID/ID`: only peers with its own uid."""
        uids = range(uid, uid + 1)
        listener = Listener(party, path, uids, _SUBAGENT_CONNECTIONS, is_kept=False)
        await self._listen(listener, Access(0o666))

    async def listen_operator(self, path: Path, group: str = "") -> None:
        """Serve the operator: every peer that the file's mode and group let in."""
        listener = Listener(OPERATOR, path, None, _OPERATOR_CONNECTIONS)
        await self._listen(listener, Access(0o660, group))

    async def listen_service(self, party: str, path: Path, uid: int) -> None:
        """Serve a service beside hived: the only peers of this user."""
        listener = Listener(party, path, range(uid, uid + 1), _SERVICE_CONNECTIONS)
        await self._listen(listener, Access(0o666))

    async def listen_logins(self, path: Path, group: str, uids: Collection[int]) -> None:
        """Serve logins: only peers of these users, who act on behalf of accounts."""
        listener = Listener(LOGIN, path, uids, _LOGIN_CONNECTIONS)
        await self._listen(listener, Access(0o660, group))

    def close_connections_of_ended_logins(self, is_open: Callable[[str], bool]) -> None:
        """Close the connections whose login has ended, once their replies are sent."""
        listener = self._listeners.get(LOGIN)
        for connection in list(listener.connections) if listener is not None else ():
            connection.close_without_login(is_open)

    async def _listen(self, listener: Listener, access: Access) -> None:
        party, known = listener.party, self._listeners.get(listener.party)
        if known is not None and (known.path, known.uids) == (listener.path, listener.uids):
            return
        self.close(party)
        bound = self._take_adopted_socket(party, listener.path) or bind_socket(
            listener.path, access
        )
        self._listeners[party] = listener
        if self._keeper is not None and listener.is_kept:
            self._keeper.store(party, bound.fileno())
        admit = partial(self._admit, listener)
        server = await self._loop.create_unix_server(
            lambda: PeerConnection(self, admit), sock=bound, backlog=_ACCEPTED, **_KEEP_FILE
        )
        bound.listen(BACKLOG)  # asyncio has one parameter for both numbers
        if self._listeners.get(party) is listener:
            listener.server = server
        else:
            server.close()

    def _take_adopted_socket(self, party: str, path: Path) -> socket.socket | None:
        """The listening socket of the previous daemon, if its file is still in place."""
        adopted = self._adopted.pop(party, None)
        if adopted is not None and not (adopted.getsockname() == str(path) and path.is_socket()):
            adopted.close()
            return None
        return adopted

    def close(self, party: str) -> None:
        """Stop serving the party: abort its connections and remove its socket file."""
        listener = self._listeners.pop(party, None)
        if listener is None:
            return
        listener.close()
        self.pressed.discard(party)
        listener.path.unlink(missing_ok=True)
        if self._keeper is not None and listener.is_kept:
            self._keeper.drop(party)
        self._slots.pop(party, None)
        self._broker.audit.forget(party)

    def stop(self) -> None:
        """Close all connections at the daemon's end. The socket files stay for the next daemon."""
        self._dead = True
        for listener in self._listeners.values():
            listener.close()
        for task in self._tasks.values():
            task.cancel()

    # Called by connections

    def _admit(
        self, listener: Listener, connection: PeerConnection, uid: int, pid: int
    ) -> ClientConnection | None:
        if not listener.admits(uid):
            if self._broker.reject_peer(listener.party, uid):
                log.warning("peer %d with uid %d refused on %s", pid, uid, listener.path)
            return None
        if self._dead or len(listener.connections) >= listener.most:
            return None
        listener.connections.add(connection)
        agent, sub = split_address(listener.party)
        seat = LoginSeat() if listener.party == LOGIN else None
        return ClientConnection(agent, uid, connection.send, sub, seat)

    def feed(self, line: ClientConnection, frames: Sequence[bytes | BadFrame]) -> None:
        self._broker.receive(line, frames)

    def on_drained(self, line: ClientConnection) -> None:
        self._broker.on_write_resumed(line)

    def on_memory_change(self, connection: PeerConnection, line: ClientConnection) -> None:
        if (listener := self._listeners.get(line.caller)) is not None:
            listener.apply_backpressure(connection)
            self._note_pressure(listener)

    def _note_pressure(self, listener: Listener) -> None:
        if listener.paused or listener.choked:
            self.pressed.add(listener.party)
        else:
            self.pressed.discard(listener.party)

    def on_ending(self, connection: PeerConnection) -> None:
        self._endings.add(connection)
        self.wake()

    def on_closed(self, connection: PeerConnection, line: ClientConnection) -> None:
        self._broker.drop(line)
        self._endings.discard(connection)
        if (listener := self._listeners.get(line.caller)) is not None:
            listener.connections.discard(connection)
            listener.release_backpressure()
            self._note_pressure(listener)
        if (task := self._tasks.pop(line, None)) is not None:
            task.cancel()

    def set_deadline(self, connection: PeerConnection, seconds: float | None) -> None:
        if seconds is None:
            self._deadlines.pop(connection, None)
            return
        self._deadlines[connection] = self._loop.time() + seconds
        if not self._sweeping:
            self._sweeping = True
            self._loop.call_later(self.patience.look, self._sweep)

    def _sweep(self) -> None:
        """Abort connections whose deadline has passed.

        One check a second is cheaper than many timers.
        """
        now, deadlines = self._loop.time(), self._deadlines.items()
        for connection in [peer for peer, due in deadlines if due <= now or peer.gone]:
            connection.abort()
            self._deadlines.pop(connection, None)
        self._sweeping = bool(self._deadlines)
        if self._sweeping:
            self._loop.call_later(self.patience.look, self._sweep)

    # Called by the broker

    def wake(self) -> None:
        if not self._woken and not self._dead:
            self._woken = True
            self._loop.call_soon(self._look_first if self._turning else self._turn)

    def _look_first(self) -> None:
        """Let the loop read once more before a batch that follows another one."""
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._woken = False
        if self._dead:
            return
        self._turning = True
        try:
            self._broker.serve_batch()
        except BaseException as error:  # noqa: BLE001 - asyncio would log it and carry on
            # Memory and disk may differ now: only a restart is safe.
            self.stop()
            self._fatal(error)
            return
        finally:
            self._turning = False
        for connection in list(self._endings):
            connection.finish()

    def read(self, line: ClientConnection, read: SlowRead) -> None:
        task = self._loop.create_task(self._run_read(line, read))
        self._tasks[line] = task
        task.add_done_callback(partial(self._read_done, line))

    def _read_done(self, line: ClientConnection, task: asyncio.Task[None]) -> None:
        """Forget the task of a read, unless the connection has a newer one already."""
        if self._tasks.get(line) is task:
            del self._tasks[line]

    def _reader(self, line: ClientConnection) -> str:
        """The party whose slow reads are counted; on login.sock the account."""
        if line.seat is None:
            return line.party
        login = self._broker.services.ledger.logins.get(line.seat.login)
        return f"{line.party} {login.account if login is not None else ''}"

    async def _run_read(self, line: ClientConnection, read: SlowRead) -> None:
        """Run a slow read. Each party has a few at once, so that one cannot block the others."""
        slots = self._slots.setdefault(self._reader(line), asyncio.Semaphore(_READS_AT_ONCE))
        outcome: Result | HiveError
        try:
            async with slots, asyncio.timeout(_READ_SECONDS):
                outcome = await read(self._reads)
        except HiveError as error:
            outcome = error
        except TimeoutError:
            outcome = Busy(f"the read took more than {_READ_SECONDS:.0f} s; try again")
        except Exception:
            log.exception("Cannot complete a slow read")
            outcome = Internal("a fault of the daemon")
        self._broker.on_read_completed(line, outcome)


@dataclass(frozen=True, slots=True)
class AgentUids:
    """The uids of a container that may use the sockets of its agent: not those of sub-agents."""

    base: int

    def __contains__(self, uid: object) -> bool:
        if not isinstance(uid, int):
            return False
        inside = uid - self.base
        return 0 <= inside < UID_RANGE and inside not in SUBAGENT_UIDS


@dataclass(frozen=True, slots=True)
class Access:
    """Which users may open a socket file."""

    mode: int
    group: str = ""


def bind_socket(
    path: Path, access: Access, kind: socket.SocketKind = socket.SOCK_STREAM
) -> socket.socket:
    """A socket bound to `path`, replacing the file of a dead daemon. It does not listen yet."""
    listening = socket.socket(socket.AF_UNIX, kind)
    try:
        path.unlink(missing_ok=True)
        listening.bind(str(path))
        if access.group:
            os.chown(path, -1, grp.getgrnam(access.group).gr_gid)
        # Before listen(), so that no client connects under the mode of the umask.
        path.chmod(access.mode)
    except (OSError, KeyError) as error:  # KeyError: the group does not exist
        listening.close()
        raise Internal(f"cannot listen on {path}: {error}") from error
    return listening
