"""The internet in memory: names and addresses that a test sets, led to servers of the test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from hive_core.egress.addresses import Address, parse_address


@dataclass
class MemoryNetwork:
    """`names`: the answers of the resolver, one after the other, the last one again and again.

    `servers`: which Unix socket stands for an address and a port. `own`: addresses of the host.
    `resolved` and `connected`: what was asked for.
    """

    names: dict[str, list[Sequence[str]]] = field(default_factory=dict)
    servers: dict[tuple[str, int], str] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    resolved: list[str] = field(default_factory=list)
    connected: list[tuple[str, int]] = field(default_factory=list)
    is_silent: bool = False  # no name is ever resolved

    async def resolve(self, name: str) -> Sequence[Address]:
        self.resolved.append(name)
        if self.is_silent:
            await asyncio.get_running_loop().create_future()
        answers = self.names.get(name)
        if not answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return [parse_address(text) for text in answer]

    async def connect(self, address: Address, port: int) -> socket.socket:
        self.connected.append((str(address), port))
        path = self.servers.get((str(address), port))
        if path is None:
            raise ConnectionRefusedError(111, "Connection refused")
        connected = socket.socket(socket.AF_UNIX)
        connected.settimeout(0)
        await asyncio.get_running_loop().sock_connect(connected, path)
        return connected

    def is_own(self, address: Address) -> bool:
        return str(address) in self.own
