"""What hive-notify asks hived, over a connection of login.sock that is made again."""

from __future__ import annotations

from typing import Protocol

from hive_core.doors.login import LoginConnection, Row, rows_of
from hive_core.notify.links import LinkWish, approval_links, plan_links, question_links
from hive_core.notify.notices import NoticeLink
from hive_core.varlink import Message


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


class LoginSource(LoginConnection):
    """The questions over login.sock."""

    async def todo(self) -> list[Row]:
        return rows_of(await self.call("todo", {}), "todo")

    async def events(self, after: str | None) -> tuple[list[Row], str]:
        kinds = ["task", "budget"]
        if after is None:  # hive-notify sends no notice of earlier events
            params: Message = {"last": 1, "limit": 1}
            rows = rows_of(await self.call("list_events", params), "events")
            return [], str(rows[-1]["seq"]) if rows else "0"
        page = await self.call("list_events", {"after": after, "kinds": kinds, "limit": 500})
        rows = rows_of(page, "events")
        return rows, str(page.get("next") or (rows[-1]["seq"] if rows else after))

    async def links(self, kind: str, id_: str) -> list[NoticeLink]:
        wishes = await self._wishes(kind, id_)
        if not wishes:
            return []
        reply = await self.call("offer_links", {"links": wishes})
        return [
            NoticeLink(label=str(row["label"]), url=str(row["url"]))
            for row in rows_of(reply, "links")
        ]

    async def _wishes(self, kind: str, id_: str) -> list[LinkWish]:
        if kind == "approval":
            return approval_links(id_)
        if kind == "plan":  # it waits under the id of its task
            plans = rows_of(await self.call("list_plans", {"task": id_}), "plans")
            return plan_links(id_, str(plans[0]["plan"])) if plans else []
        return question_links(await self.call("get_question", {"question": id_}), id_)
