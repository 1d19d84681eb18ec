"""Calls of the broker: several at a time, each on a connection of its own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import chain, repeat
from typing import Final, Self

from hive_core.agent.reconnect import wire_name
from hive_core.errors import BadFrame, Internal, InvalidArgument, TimedOut, Unreachable, from_wire
from hive_core.varlink import FRAME_LIMIT, Message, decode, encode

PATIENCE: Final = 15.0  # a daemon restarts within seconds
ANSWER: Final = 50.0  # CLIs end a call after a minute
_IDLE_MOST: Final = 4
_PAUSES: Final = (0.05, 0.1, 0.2, 0.5, 1.0)

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class BrokerConnections:
    """Connections to one broker socket, opened when they are needed and used again."""

    def __init__(self, path: str, patience: float = PATIENCE, answer: float = ANSWER) -> None:
        self._path = path
        self._patience = patience
        self._answer = answer
        self._idle: list[_Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections that nothing uses."""
        for _reader, writer in self._idle:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        self._idle.clear()

    async def call(self, operation: str, params: Message) -> Message:
        """Call an operation, and repeat the call where the connection breaks.

        A caller sets an idempotency key with everything that changes something.
        """
        frame = _frame({"method": wire_name(operation), "parameters": params})
        now = asyncio.get_running_loop().time
        ends = now() + self._patience
        for pause in chain(_PAUSES, repeat(_PAUSES[-1])):
            try:
                return _result(await self._exchange(frame))
            except FileNotFoundError:
                raise Unreachable(f"cannot reach {self._path}: it does not exist") from None
            except (OSError, EOFError) as error:
                if now() >= ends:
                    raise Unreachable(f"cannot reach {self._path}: {error}") from None
            await asyncio.sleep(pause)
        raise AssertionError  # pauses never end

    async def _exchange(self, frame: bytes) -> Message:
        """Send a frame and read the answer; the connection is kept only if both succeed."""
        connection = self._idle.pop() if self._idle else await self._open()
        reader, writer = connection
        is_whole = False
        try:
            async with asyncio.timeout(self._answer):
                writer.write(frame)
                await writer.drain()
                answer = decode((await reader.readuntil(b"\0"))[:-1])
            is_whole = True
        except TimeoutError:
            raise TimedOut(f"no answer within {self._answer:g} seconds") from None
        except (asyncio.LimitOverrunError, BadFrame) as error:
            raise Internal(f"the daemon sent what is not an answer: {error}") from None
        finally:
            if is_whole and len(self._idle) < _IDLE_MOST:
                self._idle.append(connection)
            else:
                writer.close()
        return answer

    async def _open(self) -> _Connection:
        return await asyncio.open_unix_connection(self._path, limit=FRAME_LIMIT + 1)


def _frame(call: Message) -> bytes:
    """Encode a call; InvalidArgument if no frame can hold it."""
    try:
        frame = encode(call)
        decode(frame[:-1])
    except BadFrame as error:
        raise InvalidArgument(
            f"no message can hold the arguments: {error}", field="arguments"
        ) from None
    return frame


def _result(answer: Message) -> Message:
    """The parameters of an answer; the error that it names."""
    parameters = answer.get("parameters")
    fields = parameters if isinstance(parameters, dict) else {}
    if "error" in answer:
        raise from_wire(str(answer["error"]), fields)
    return fields
