"""The pages say that they are old as long as they are, and no longer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from typing_extensions import override

from hive_core.errors import TimedOut
from hive_core.varlink import Message
from hive_core.web.hub import Hub, Renderers
from hive_core.web.logins import BrowserLogin, Logins
from hive_core.web.reads import SharedReads

ITEM: Message = {"kind": "question", "id": "q1"}


class OneLogin(Logins):
    """Somebody has logged in; `replies` are what hived answers to `todo`, one after the other.

    `ask_again` is called before each.
    """

    def __init__(self, folder: Path, *replies: Message | Exception) -> None:
        super().__init__(folder, time.monotonic)
        self.replies, self.answered = list(replies), asyncio.Event()
        self.ask_again: Callable[[], None] = lambda: None
        connection = SimpleNamespace(call=self._call)
        self.login = cast("BrowserLogin", SimpleNamespace(connection=connection))

    @override
    def any(self) -> BrowserLogin:
        return self.login

    async def _call(self, _operation: str) -> Message:
        if not self.replies:
            self.answered.set()
            return await asyncio.Future()
        self.ask_again()
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def draw_item(item: object) -> tuple[str, str]:
    row = cast("Message", item)
    return str(row["id"]), str(row["kind"])


async def follow_todo(logins: OneLogin) -> Hub:
    """The hub after all replies, with the agents followed as well."""
    renderers = Renderers(str, draw_item, draw_item)
    hub = Hub(logins, renderers, SharedReads(time.monotonic).forget, fault_pause=0.0)
    hub._apply({"rows": [], "gone": [], "reset": True, "synced": True})
    logins.ask_again = hub.refresh_todo
    task = asyncio.create_task(hub._keep("todo", hub._follow_todo))
    async with asyncio.timeout(20):
        await logins.answered.wait()
    task.cancel()
    return hub


def test_a_call_that_failed_once_leaves_no_page_without_a_beat(tmp_path: Path) -> None:
    """A hive in which nothing happens sends nothing that would show it."""

    async def main() -> Hub:
        return await follow_todo(OneLogin(tmp_path, TimedOut("no answer"), {"todo": [ITEM]}))

    hub = asyncio.run(main())
    assert hub._is_live
    assert hub.waiting == 1


def test_what_nobody_expects_is_logged_and_followed_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> Hub:
        return await follow_todo(OneLogin(tmp_path, {"todo": [{"id": "x"}]}, {"todo": [ITEM]}))

    with caplog.at_level(logging.ERROR):
        hub = asyncio.run(main())
    assert "Cannot follow todo" in caplog.text
    assert (hub._is_live, hub.waiting) == (True, 1)


def test_without_what_waits_the_pages_are_not_live(tmp_path: Path) -> None:
    async def main() -> Hub:
        return await follow_todo(OneLogin(tmp_path, TimedOut("no answer")))

    assert not asyncio.run(main())._is_live


def test_an_event_that_cannot_be_drawn_ends_no_page_of_the_audit_log(tmp_path: Path) -> None:
    drawn = asyncio.Event()

    def draw_event(event: object) -> tuple[str, str]:
        drawn.set()
        return draw_item(event)

    async def main() -> list[bytes]:
        renderers = Renderers(str, draw_item, draw_event)
        hub = Hub(OneLogin(tmp_path), renderers, lambda: None, fault_pause=0.0)
        task = asyncio.create_task(hub._repeat(hub._tell_events))
        async with asyncio.timeout(20):
            for event in ({"seq": 1}, {"seq": 2, "id": "e-2", "kind": "record"}):
                hub._feed.add([event])
                hub._came.set()
                await drawn.wait()
                drawn.clear()
        task.cancel()
        after = f"{hub.frames.epoch}-0"
        return [frame.plain for frame in hub.frames.after(after, frozenset({"audit"}))]

    (frame,) = asyncio.run(main())
    assert b"e-2" in frame
