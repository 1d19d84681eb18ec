"""Calls that survive a restart of the daemon: reconnect, and repeat the call.

Only reads and calls under an idempotency key are repeated.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from itertools import repeat as forever
from typing import Final, NamedTuple, TypeVar

from hive_core.errors import HIVE, HiveError, TimedOut, Unreachable
from hive_core.varlink import Client, Message

PATIENCE: Final = 15.0  # a daemon restarts within seconds
_MARGIN: Final = 10.0
_PAUSES: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
T = TypeVar("T")


class BatchedCall(NamedTuple):
    """One call of several that are sent together. `optional`: nothing depends on its answer."""

    operation: str
    params: Message
    optional: bool = False


def wire_name(operation: str) -> str:
    """The name of `get_logs` on the wire: `org.hive.Broker.GetLogs`."""
    return HIVE + "".join(part.capitalize() for part in operation.split("_"))


def new_key() -> str:
    """A new idempotency key."""
    return os.urandom(16).hex()


class Link:
    """One connection to the broker behind `path`; the first call opens it."""

    def __init__(self, path: str, patience: float = PATIENCE, answer: float = 60.0) -> None:
        self.path = path
        self._patience = patience
        self._answer = answer
        self._client: Client | None = None

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def ask(self, operation: str, /, **params: object) -> Message:
        """Call an operation by its name; parameters that are None are omitted."""
        return self.call(wire_name(operation), _present(params), repeat=True)

    def ask_together(self, calls: Sequence[BatchedCall]) -> list[Message | HiveError]:
        """Send calls at once, and wait for all answers; all are repeated after a lost connection.

        So each is a read or has an idempotency key. None depends on the answer to another.
        """
        rows = [(wire_name(call.operation), _present(call.params)) for call in calls]
        return self._with_client(lambda client: client.call_together(rows), repeat=True)

    def tell(self, operation: str, /, **params: object) -> None:
        """Call an operation and wait for no answer; a lost connection loses the call."""
        method, present = wire_name(operation), _present(params)
        self._with_client(lambda client: client.tell(method, present), repeat=False)

    def change(self, operation: str, /, **params: object) -> Message:
        """Call an operation that changes something, under a new idempotency key."""
        return self.ask(operation, **{"idempotency_key": new_key(), **params})

    def call(self, method: str, params: Message, *, repeat: bool = False) -> Message:
        """Call a full method name; with `repeat`, repeat the call after a lost connection."""
        return self._with_client(lambda client: client.call(method, params), repeat=repeat)

    def stream(self, method: str, params: Message) -> Iterator[Message]:
        """The replies of a `more` call, on a connection of its own, without a time limit."""
        with Client(self.path, wait=None) as client:
            yield from client.stream(method, params)

    def _with_client(self, use: Callable[[Client], T], *, repeat: bool) -> T:
        client = self._connection()
        try:
            return use(client)
        except TimedOut:
            self.close()
            raise
        except Unreachable:
            self.close()
            if not repeat:
                raise
        return self._repeat(use)

    def _repeat(self, use: Callable[[Client], T]) -> T:
        """Repeat calls whose connection broke until the daemon is back or patience ends."""
        ends = time.monotonic() + self._patience
        pauses = chain(_PAUSES, forever(_PAUSES[-1]))
        while True:
            time.sleep(next(pauses))
            try:
                return use(self._connection())
            except Unreachable:
                self.close()
                if time.monotonic() >= ends:
                    raise

    def _connection(self) -> Client:
        if self._client is None:
            self._client = Client(self.path, wait=self._answer + _MARGIN)
        return self._client


def _present(params: Message) -> Message:
    return {key: value for key, value in params.items() if value is not None}
