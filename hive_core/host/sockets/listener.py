"""One listening socket, and how much all connections to it together may hold of our memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.host.sockets.connection import LITTLE, PeerConnection

# Attack 36. hived has 1 GiB for all agents, and an agent may have 64 connections: what comes in and
# waits for its answer, and what goes out and is not read, is bounded for each party.
UNREAD_MOST: Final = 8 << 20
UNSENT_MOST: Final = 4 << 20


@dataclass(slots=True)
class Listener:
    """A listening socket: its party, its allowed peers and its connections."""

    party: str
    path: Path
    uids: range | None
    most: int
    server: asyncio.Server | None = None
    connections: set[PeerConnection] = field(default_factory=set)
    paused: set[PeerConnection] = field(default_factory=set)
    choked: bool = False

    def admits(self, uid: int) -> bool:
        """The operator's peers are admitted by the mode and group of the file."""
        return self.uids is None or uid in self.uids

    def close(self) -> None:
        for connection in list(self.connections):
            connection.abort()
        if self.server is not None:
            self.server.close()

    def apply_backpressure(self, connection: PeerConnection) -> None:
        """After a change of what a connection holds: hold up a party that holds too much."""
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
        """Something was answered, read or closed: whoever can may go on."""
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
