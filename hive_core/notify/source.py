"""What hive-notify asks hived on login.sock; it reconnects when the connection breaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

from hive_core.errors import Conflict, InvalidArgument, MethodNotFound, NotFound
from hive_core.notify.links import (
    LinkedThing,
    WantedLink,
    approval_links,
    cancel_links,
    plan_links,
    question_links,
    stop_links,
)
from hive_core.notify.notices import NoticeLink
from hive_core.notify.outcomes import EVENT_KINDS, SETTLED, SettledItem, describe_end
from hive_core.services.login import LoginConnection
from hive_core.services.replies import Row, rows_of
from hive_core.varlink import Message

# Kinds of events that people are told of, or after which other things may wait.
WATCHED: Final = ("task", "budget", "question", "escalation", "crash", "approval")
_PAGES: Final = 10  # of the log, for the call that settled something; each is 1,000 events
_EARLIER: Final = 60.0
_NAME_MOST: Final = 64
_REASON_MOST: Final = 2000


class NoticeSource(Protocol):
    """What hive-notify asks."""

    async def todo(self) -> Sequence[Row]:
        """What waits for the operator."""
        ...

    async def report(self, faults: Mapping[str, str]) -> None:
        """Say by which routes nothing can be sent, and why."""
        ...

    async def events(self, after: str | None) -> tuple[Sequence[Row], str]:
        """Events after a position, and the next position; without one only the position."""
        ...

    async def links(self, thing: LinkedThing) -> list[NoticeLink]:
        """The links that act on this thing."""
        ...

    async def outcome(self, item: SettledItem) -> str:
        """By whom it was settled, in words."""
        ...


class LoginSource(LoginConnection):
    """The questions over login.sock."""

    async def todo(self) -> Sequence[Row]:
        return rows_of(await self.call("todo", {}), "todo")

    async def report(self, faults: Mapping[str, str]) -> None:
        rows = {_printable(name): reason[:_REASON_MOST] for name, reason in faults.items()}
        with suppress(MethodNotFound):  # a hived of an earlier version
            await self.call("note_routes", {"faults": rows})

    async def events(self, after: str | None) -> tuple[Sequence[Row], str]:
        if after is None:  # hive-notify sends no notice of earlier events
            params: Message = {"last": 1, "limit": 1}
            rows = rows_of(await self.call("list_events", params), "events")
            return [], str(rows[-1]["seq"]) if rows else "0"
        page = await self.call("list_events", {"after": after, "kinds": [*WATCHED], "limit": 500})
        rows = rows_of(page, "events")
        return rows, str(page.get("next") or (rows[-1]["seq"] if rows else after))

    async def links(self, thing: LinkedThing) -> list[NoticeLink]:
        """Each is offered by itself: one that has nothing to act on takes no other one away."""
        return [link for wish in await self._wishes(thing) for link in await self._offer(wish)]

    async def _offer(self, wish: WantedLink) -> list[NoticeLink]:
        try:
            reply = await self.call("offer_links", {"links": [wish]})
        except (Conflict, InvalidArgument, NotFound):
            return []
        return [
            NoticeLink(label=str(row["label"]), url=str(row["url"]))
            for row in rows_of(reply, "links")
        ]

    async def outcome(self, item: SettledItem) -> str:
        newest = rows_of(await self.call("list_events", {"last": 1, "limit": 1}), "events")
        before = str(int(str(newest[-1]["seq"])) + 1) if newest else ""
        for _ in range(_PAGES):
            if not before or not item.is_logged:
                break
            # What it waits for may have come while it was being sent.
            params: Message = {"before": before, "kinds": [*EVENT_KINDS], "limit": 200,
                               "since": item.since - _EARLIER}  # fmt: skip
            page = await self.call("list_events", params)
            described = describe_end(item, rows_of(page, "events"))
            if described:
                return described
            before = str(page.get("next") or "")
        return SETTLED

    async def _wishes(self, thing: LinkedThing) -> list[WantedLink]:
        if thing.kind == "approval":
            return approval_links(thing.id)
        cancel = cancel_links(thing.task)
        if thing.kind == "plan":  # it waits under the id of its task
            plans = rows_of(await self.call("list_plans", {"task": thing.id}), "plans")
            return [*plan_links(thing.id, str(plans[0]["plan"])), *cancel] if plans else []
        if thing.kind == "question":
            details = await self.call("get_question", {"question": thing.id})
            return question_links(details, thing.id)
        return [*cancel, *(stop_links(thing.agent) if thing.kind != "judgement" else [])]


def _printable(name: str) -> str:
    """A name of a route as hived takes it: the fault of a route may be its name."""
    return ascii(name)[1:-1][:_NAME_MOST] or "''"
