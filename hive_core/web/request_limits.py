"""What a client may send, whether it is a browser or a program: requests a second, and a body."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from starlette.types import Receive, Scope

from hive_core.errors import LimitReached
from hive_core.web.guard import single_header

BODY_MOST: Final = 128 * 1024
REQUESTS_A_SECOND: Final = 20.0
BURST: Final = 60.0
_BODY_SECONDS: Final = 10.0


@dataclass(slots=True)
class RequestBucket:
    """The requests of one login or token. `whose` is for the refusal: "login", "token"."""

    whose: str
    _left: float = BURST
    _counted: float = 0.0

    def count_request(self, now: float) -> None:
        """LimitReached: it has sent too many."""
        self._left = min(BURST, self._left + (now - self._counted) * REQUESTS_A_SECOND)
        self._counted = now
        if self._left < 1:
            reason = f"{REQUESTS_A_SECOND:.0f} requests/s of one {self.whose} reached"
            raise LimitReached(reason, retry_after=1)
        self._left -= 1


class BodyTooLarge(Exception):
    """A body of more than BODY_MOST bytes."""

    def __init__(self) -> None:
        super().__init__(f"more than {BODY_MOST} bytes")


class BodyIncomplete(Exception):
    """The client ended the connection before all of its body had come."""

    def __init__(self) -> None:
        super().__init__("its body did not come whole")


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """The whole body. BodyTooLarge, also where it only says so; TimeoutError after 10 seconds.

    BodyIncomplete: a part of a form would be another form, and no body at all the call of an
    operation with its defaults.
    """
    length = single_header(scope["headers"], b"content-length") or "0"
    if len(length) > len(str(BODY_MOST)) or int(length) > BODY_MOST:
        raise BodyTooLarge
    body = bytearray()
    async with asyncio.timeout(_BODY_SECONDS):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise BodyIncomplete
            body += message.get("body", b"")
            if len(body) > BODY_MOST:
                raise BodyTooLarge
            if not message.get("more_body"):
                return bytes(body)
