"""One listening socket, and the limit on memory that all its connections together may hold."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.host.sockets.connection import LITTLE, PeerConnection

log = logging.getLogger(__name__)
# Attack 36. hived has 1 GiB for all agents, and an agent may have 64 connections. So for each
# party, both requests without an answer and replies that are not read are limited.
UNREAD_MOST: Final = 8 << 20
UNSENT_MOST: Final = 4 << 20


@dataclass(slots=True)
class Listener:
    """A listening socket: its party, its allowed peers and its connections.

    `is_kept`: the next daemon serves it too. A sub-agent ends with the daemon, and its socket.
    """

    party: str
    path: Path
    uids: Container[int] | None
    most: int
    is_kept: bool = True
    server: asyncio.Server | None = None
    connections: set[PeerConnection] = field(default_factory=set)
    paused: set[PeerConnection] = field(default_factory=set)
    choked: bool = False

    def admits(self, uid: int) -> bool:
        """Whether a peer may connect.

        For the operator, mode and group of the file decide instead.
        """
        return self.uids is None or uid in self.uids

    def close(self) -> None:
        for connection in list(self.connections):
            connection.abort()
        if self.server is not None:
            self.server.close()

    def apply_backpressure(self, connection: PeerConnection) -> None:
        """Pause the party if it holds too much. Called after a change of one connection."""
        if connection.unread > LITTLE and self._unread > UNREAD_MOST:
            self.paused.add(connection)
            connection.pause_read(together=True)
        if connection.unsent and self._unsent > UNSENT_MOST:
            self.choked = True
            for peer in self.connections:
                peer.pause_calls()
        if self.paused or self.choked:
            self.release_backpressure()
        if not self.choked:
            connection.resume_calls()

    def release_backpressure(self) -> None:
        """Resume paused connections that may continue.

        Called after an answer, a read or a close.
        """
        if self.paused and self._unread <= UNREAD_MOST:
            hushed, self.paused = self.paused, set()
            for connection in hushed & self.connections:
                connection.resume_read(together=True)
        if self.choked and self._unsent <= UNSENT_MOST:
            self.choked = False
            for connection in self.connections:
                connection.resume_calls()

    @property
    def _unread(self) -> int:
        return sum(connection.unread for connection in self.connections)

    @property
    def _unsent(self) -> int:
        return sum(connection.unsent for connection in self.connections)


def remove_socket(path: Path) -> None:
    """Remove a socket that no daemon listens on any longer."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("Cannot remove %s: %s", path, error)
