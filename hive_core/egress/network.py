"""Names, addresses and connections of this host, as hive-egress sees them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Protocol

from hive_core.egress.addresses import Address, parse_address

_RESOLVERS: Final = 32  # threads
_PORT: Final = 9  # of no packet: the socket only shows which way the kernel would take


class Network(Protocol):
    """What resolves names and connects; tests have one in memory."""

    async def resolve(self, name: str) -> Sequence[Address]:
        """The addresses of a name, in order. OSError: it has none, or none is known."""
        ...

    async def connect(self, address: Address, port: int) -> socket.socket:
        """A connected socket. OSError: there is none."""
        ...

    def is_own(self, address: Address) -> bool:
        """Whether the address is one of this host itself."""
        ...


@dataclass(slots=True)
class HostNetwork:
    """The resolver and the interfaces of the host."""

    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_RESOLVERS, "resolve")
    )

    async def resolve(self, name: str) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        rows = await loop.run_in_executor(
            self._threads, lambda: socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        )
        return [parse_address(str(row[4][0])) for row in rows]

    async def connect(self, address: Address, port: int) -> socket.socket:
        connected = socket.socket(_family(address), socket.SOCK_STREAM)
        try:
            connected.settimeout(0)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().sock_connect(connected, (str(address), port))
        except BaseException:
            connected.close()
            raise
        return connected

    def is_own(self, address: Address) -> bool:
        """Whether this host has the address: the kernel then uses it as source. Sends nothing."""
        with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((str(address), _PORT))
            except OSError:  # no route: connecting fails, too
                return False
            return parse_address(probe.getsockname()[0]) == address

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004
