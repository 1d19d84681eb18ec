"""What hive-notify asks hived, over a connection of login.sock that is made again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from hive_core import varlink
from hive_core.errors import HIVE, Unreachable, from_wire
from hive_core.notify.links import LinkWish, approval_links, plan_links, question_links
from hive_core.notify.notices import NoticeLink
from hive_core.varlink import FrameReader, Message

_ANSWER: Final = 10.0
_READ: Final = 1 << 16
Row = Mapping[str, object]


class NoticeSource(Protocol):
    """The two questions of hive-notify."""

    async def todo(self) -> list[Row]:
        """What waits for the operator."""
        ...

    async def events(self, after: str | None) -> tuple[list[Row], str]:
        """Events after a position, and the next position; without one only the position."""
        ...

    async def links(self, kind: str, id_: str) -> list[NoticeLink]:
        """The links of a question, an approval, or the plan of a task."""
        ...


class LoginSource:
    """The questions over login.sock, with the token that `hive setup` made."""

    def __init__(self, socket: Path, token: str) -> None:
        self._socket, self._token = socket, token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._frames = FrameReader()

    async def todo(self) -> list[Row]:
        return _rows(await self.call("Todo", {}), "todo")

    async def events(self, after: str | None) -> tuple[list[Row], str]:
        kinds = ["task", "budget"]
        if after is None:  # hive-notify sends no notice of earlier events
            params: Message = {"last": 1, "limit": 1}
            rows = _rows(await self.call("ListEvents", params), "events")
            return [], str(rows[-1]["seq"]) if rows else "0"
        page = await self.call("ListEvents", {"after": after, "kinds": kinds, "limit": 500})
        rows = _rows(page, "events")
        return rows, str(page.get("next") or (rows[-1]["seq"] if rows else after))

    async def links(self, kind: str, id_: str) -> list[NoticeLink]:
        wishes = await self._wishes(kind, id_)
        if not wishes:
            return []
        reply = await self.call("OfferLinks", {"links": wishes})
        return [
            NoticeLink(label=str(row["label"]), url=str(row["url"]))
            for row in _rows(reply, "links")
        ]

    async def _wishes(self, kind: str, id_: str) -> list[LinkWish]:
        if kind == "approval":
            return approval_links(id_)
        if kind == "plan":  # it waits under the id of its task
            plans = _rows(await self.call("ListPlans", {"task": id_, "limit": 1}), "plans")
            return plan_links(str(plans[0]["plan"])) if plans else []
        return question_links(await self.call("GetQuestion", {"question": id_}), id_)

    async def call(self, method: str, parameters: Message) -> Message:
        """One call; a connection that breaks or is silent is closed and made again by the next."""
        try:
            async with asyncio.timeout(_ANSWER):
                if self._streams is None:
                    await self._open()
                return await self._ask(method, parameters)
        except (OSError, TimeoutError) as error:
            self.close()
            raise Unreachable(f"cannot reach hived at {self._socket}: {error}") from error
        except Unreachable:
            self.close()
            raise

    def close(self) -> None:
        if self._streams is not None:
            with suppress(OSError):
                self._streams[1].close()
        self._streams, self._frames = None, FrameReader()

    async def end(self) -> None:
        """Close the connection, and wait until it is closed."""
        writer = self._streams[1] if self._streams is not None else None
        self.close()
        if writer is not None:
            with suppress(OSError):
                await writer.wait_closed()

    async def _open(self) -> None:
        self._streams = await asyncio.open_unix_connection(str(self._socket))
        await self._ask("OpenLogin", {"credential": self._token})

    async def _ask(self, method: str, parameters: Message) -> Message:
        if self._streams is None:
            raise Unreachable("the connection is closed")
        reader, writer = self._streams
        writer.write(varlink.encode({"method": HIVE + method, "parameters": parameters}))
        await writer.drain()
        frames: list[bytes] = []
        while not frames:
            data = await reader.read(_READ)
            if not data:
                raise Unreachable("hived closed the connection")
            frames = self._frames.feed(data)
        reply = varlink.decode(frames[0])
        values = reply.get("parameters")
        answer = values if isinstance(values, dict) else {}
        if error := reply.get("error"):
            raise from_wire(str(error), answer)
        return answer


def _rows(reply: Message, field: str) -> list[Row]:
    value = reply.get(field)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
