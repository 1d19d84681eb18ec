"""A Varlink client that shares nothing with ours, and runs in any container: plain Python only."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator
from typing import Any

SOCKET = "/run/hive/broker.sock"
INTERFACE = "org.hive.Broker."


class Wire:
    """One connection."""

    def __init__(self, path: str = SOCKET, wait: float = 60.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(wait)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise
        self._rest = b""

    def close(self) -> None:
        self._socket.close()

    @property
    def ended(self) -> bool:
        """Whether the other side has closed it."""
        look = select.poll()
        look.register(self._socket, 0)
        return bool(look.poll(0))

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self) -> dict[str, Any]:
        """One reply; ConnectionError when there is none to come."""
        while b"\0" not in self._rest:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError("closed")
            self._rest += data
        frame, _, self._rest = self._rest.partition(b"\0")
        document: dict[str, Any] = json.loads(frame)
        return document

    def ask(self, method: str, parameters: object, *, more: bool = False) -> dict[str, Any]:
        name = method if method.startswith("org.") else INTERFACE + method
        message = {"method": name, "parameters": parameters, **({"more": True} if more else {})}
        self.write(json.dumps(message).encode() + b"\0")
        return self.read()

    def stream(self, method: str, parameters: object, most: int) -> Iterator[dict[str, Any]]:
        """At most this many replies of a call with `more`."""
        reply = self.ask(method, parameters, more=True)
        yield reply
        for _ in range(most - 1):
            if not reply.get("continues"):
                return
            reply = self.read()
            yield reply
