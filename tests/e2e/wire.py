"""A Varlink client that shares nothing with ours, and runs in any container: plain Python only.

As a program it makes the calls that it reads, one in a line, and prints the replies; told to whom,
it sends for ever and prints what was acknowledged.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

SOCKET = "/run/hive/broker.sock"
INTERFACE = "org.hive.Broker."


class Wire:
    """One connection."""

    def __init__(self, path: str = SOCKET, wait: float = 60.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(wait)
        self._socket.connect(path)
        self._rest = b""

    def close(self) -> None:
        self._socket.close()

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
        found: dict[str, Any] = json.loads(frame)
        return found

    def ask(self, method: str, parameters: object, *, more: bool = False) -> dict[str, Any]:
        name = method if method.startswith("org.") else INTERFACE + method
        message = {"method": name, "parameters": parameters, **({"more": True} if more else {})}
        self.write(json.dumps(message).encode() + b"\0")
        return self.read()

    def stream(self, method: str, parameters: object, most: int) -> Iterator[dict[str, Any]]:
        """At most so many replies of a call with `more`."""
        reply = self.ask(method, parameters, more=True)
        yield reply
        for _ in range(most - 1):
            if not reply.get("continues"):
                return
            reply = self.read()
            yield reply


def insist(path: str, to: str, name: str, *, keyed: bool) -> Iterator[tuple[str, str]]:
    """Send message after message for ever; gives body and id of those that were acknowledged.

    When the connection breaks it is not known whether the message arrived: with a key it is sent
    again, without one the next has its turn.
    """
    number = 0
    while True:
        try:
            with closing(Wire(path)) as wire:
                while True:
                    body = f"{name}-{number}"
                    key = {"idempotency_key": body} if keyed else {}
                    number += 0 if keyed else 1
                    reply = wire.ask("Send", {"to": to, "body": body, **key})
                    if "error" in reply:
                        raise ValueError(reply)
                    number += 1 if keyed else 0
                    yield body, reply["parameters"]["id"]
        except OSError:
            time.sleep(0.02)  # nobody listens for a moment, and nothing tells when somebody does


def main() -> None:
    if sys.argv[1:]:
        to, name, keyed = sys.argv[1:]
        for acked in insist(SOCKET, to, name, keyed=keyed == "keyed"):
            sys.stdout.write(" ".join(acked) + "\n")
            sys.stdout.flush()
    wire = Wire()
    for line in sys.stdin:
        order = json.loads(line)
        if "most" in order:
            other = Wire()
            replies = list(other.stream(order["method"], order["parameters"], order["most"]))
            other.close()
        else:
            replies = [wire.ask(order["method"], order["parameters"])]
        sys.stdout.write(json.dumps(replies) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
