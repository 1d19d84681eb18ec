"""The client of the root helper: one connection, one action at a time, with a timeout for each."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import TypeVar

from hive_core.errors import Internal, TimedOut, Unreachable, from_wire
from hive_core.plan.actions import Action, ObserveStorage, ObserveUnit
from hive_core.plan.fields import Malformed
from hive_core.plan.results import Result, encode, read
from hive_core.varlink import encode as frame

R = TypeVar("R")
METHOD = "org.hive.Privd.Apply"
REPLY_MOST = 1 << 24  # the list of everything on disk is the longest reply; root is trusted


class Privd:
    """A connection to the root helper, which does one action at a time, in order.

    An observation waits for at most one other action.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        self._path = path
        self._seconds = seconds
        self._turn, self._deeds = asyncio.Lock(), asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def apply(self, action: Action) -> Result:
        """Apply the action; return its report, or raise its refusal."""
        if isinstance(action, ObserveUnit | ObserveStorage):
            return await self._request(action)
        async with self._deeds:
            return await self._request(action)

    async def _request(self, action: Action) -> Result:
        async with self._turn:
            try:
                async with asyncio.timeout(self._seconds):
                    reply = json.loads(await self._exchange(action))
            except TimeoutError as error:
                self.close()
                raise TimedOut(f"the root helper did not answer in {self._seconds} s") from error
            except BaseException:
                self.close()  # a reply may still arrive; it must not be taken for the next one
                raise
        return _result(action, reply)

    async def ask(self, action: Action, kind: type[R]) -> R:
        """Apply the action; return its report, which must have the type `kind`."""
        result = await self.apply(action)
        if not isinstance(result, kind):
            raise Internal(f"the root helper sent an unexpected reply to {type(action).__name__}")
        return result

    async def _exchange(self, action: Action) -> bytes:
        data = frame({"method": METHOD, "parameters": {"action": encode(action)}})
        try:
            reader, writer = self._streams or await self._connect()
            writer.write(data)
            await writer.drain()
            return (await reader.readuntil(b"\0"))[:-1]
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise Unreachable(f"cannot reach the root helper: {error}") from error

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._streams = await asyncio.open_unix_connection(self._path, limit=REPLY_MOST)
        return self._streams

    def close(self) -> None:
        if self._streams is not None:
            with contextlib.suppress(OSError):
                self._streams[1].close()
            self._streams = None


def _result(action: Action, reply: dict[str, object]) -> Result:
    parameters = reply.get("parameters")
    values = parameters if isinstance(parameters, dict) else {}
    if (error := reply.get("error")) is not None:
        raise from_wire(str(error), values)
    try:
        return read(action, values.get("result"))
    except Malformed as fault:
        raise Internal(f"the root helper sent an invalid reply: {fault}") from fault
