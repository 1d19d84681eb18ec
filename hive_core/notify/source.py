"""What hive-notify asks hived, over a connection of login.sock that is made again."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from hive_core.doors.daemon_connection import DaemonConnection
from hive_core.notify.links import LinkWish, approval_links, plan_links, question_links
from hive_core.notify.notices import NoticeLink
from hive_core.varlink import Message

_ANSWER: Final = 10.0
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
        self._connection: DaemonConnection | None = None

    async def todo(self) -> list[Row]:
        return _rows(await self.call("todo", {}), "todo")

    async def events(self, after: str | None) -> tuple[list[Row], str]:
        kinds = ["task", "budget"]
        if after is None:  # hive-notify sends no notice of earlier events
            params: Message = {"last": 1, "limit": 1}
            rows = _rows(await self.call("list_events", params), "events")
            return [], str(rows[-1]["seq"]) if rows else "0"
        page = await self.call("list_events", {"after": after, "kinds": kinds, "limit": 500})
        rows = _rows(page, "events")
        return rows, str(page.get("next") or (rows[-1]["seq"] if rows else after))

    async def links(self, kind: str, id_: str) -> list[NoticeLink]:
        wishes = await self._wishes(kind, id_)
        if not wishes:
            return []
        reply = await self.call("offer_links", {"links": wishes})
        return [
            NoticeLink(label=str(row["label"]), url=str(row["url"]))
            for row in _rows(reply, "links")
        ]

    async def _wishes(self, kind: str, id_: str) -> list[LinkWish]:
        if kind == "approval":
            return approval_links(id_)
        if kind == "plan":  # it waits under the id of its task
            plans = _rows(await self.call("list_plans", {"task": id_, "limit": 1}), "plans")
            return plan_links(str(plans[0]["plan"])) if plans else []
        return question_links(await self.call("get_question", {"question": id_}), id_)

    async def call(self, operation: str, parameters: Message) -> Message:
        """One call; a connection that breaks or is silent is closed and made again by the next."""
        connection = self._connection
        if connection is None or connection.closed.is_set():
            connection = await self._open()
        return await connection.call(operation, parameters, _ANSWER)

    async def end(self) -> None:
        """Close the connection, and wait until it is closed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            with suppress(OSError):
                await connection.writer.wait_closed()

    async def _open(self) -> DaemonConnection:
        connection = await DaemonConnection.open(self._socket)
        try:
            await connection.call("open_login", {"credential": self._token}, _ANSWER)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection


def _rows(reply: Message, field: str) -> list[Row]:
    value = reply.get(field)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
