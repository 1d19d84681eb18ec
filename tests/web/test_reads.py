"""Reads that pages share are never older than the change of which the pages were told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from types import SimpleNamespace
from typing import cast

from fixtures.dashboard import FakeBrowser, RunningDashboard
from fixtures.event_streams import events, newest
from fixtures.tasks import give

from hive_core.errors import Unreachable
from hive_core.varlink import Message
from hive_core.web.logins import BrowserLogin
from hive_core.web.reads import SharedReads


def test_a_read_that_was_on_its_way_before_a_change_answers_no_later_reader() -> None:
    async def read_around_a_change() -> list[Message]:
        answers = [asyncio.get_running_loop().create_future() for _ in range(2)]
        calls = iter(answers)
        connection = SimpleNamespace(call=lambda *_: next(calls))
        login = cast("BrowserLogin", SimpleNamespace(connection=connection))
        reads = SharedReads(lambda: 5.0)

        first = asyncio.create_task(reads.read(login, "get_task"))
        await asyncio.sleep(0)
        reads.forget()
        second = asyncio.create_task(reads.read(login, "get_task"))
        await asyncio.sleep(0)
        answers[1].set_result({"state": "done"})
        answers[0].set_result({"state": "queued"})
        return [await first, await second, await reads.read(login, "get_task")]

    replies = asyncio.run(read_around_a_change())
    assert replies == [{"state": "queued"}, {"state": "done"}, {"state": "done"}]


class Ending:
    """Whether a connection has ended, for so many looks: who looks on and on waits for nothing."""

    def __init__(self) -> None:
        self._is_set = False
        self._looks = 0

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        self._looks += 1
        assert self._looks < 100, "it asks for the same failed read again and again"
        return self._is_set


def logins_with(answers: Sequence[asyncio.Future[Message]]) -> list[BrowserLogin]:
    """Logins whose call is answered with one of these each."""
    connections = [
        SimpleNamespace(call=lambda *_, answer=answer: answer, closed=Ending())
        for answer in answers
    ]
    return [cast("BrowserLogin", SimpleNamespace(connection=one)) for one in connections]


def test_a_login_that_ends_in_a_shared_read_fails_for_itself_alone() -> None:
    async def end_the_first_login() -> list[Message | BaseException]:
        answers = [asyncio.get_running_loop().create_future() for _ in range(2)]
        first, second = logins_with(answers)
        reads = SharedReads(lambda: 5.0)
        pages = [
            asyncio.create_task(reads.read(login, "get_task")) for login in (first, second, second)
        ]
        await asyncio.sleep(0)
        first.connection.closed.set()
        answers[0].set_exception(Unreachable("the connection to hived is closed"))
        answers[1].set_result({"state": "done"})
        return await asyncio.gather(*pages, return_exceptions=True)

    ended, *others = asyncio.run(end_the_first_login())
    assert isinstance(ended, Unreachable)
    assert others == [{"state": "done"}, {"state": "done"}]


def test_a_page_that_asks_as_the_read_of_a_login_fails_asks_for_itself() -> None:
    """In the same round of the event loop: an entry that is still there would be asked for ever."""

    async def ask_in_the_same_round() -> Sequence[Message | BaseException]:
        answers = [asyncio.get_running_loop().create_future() for _ in range(2)]
        first, second = logins_with(answers)
        reads = SharedReads(lambda: 5.0)
        ended = asyncio.create_task(reads.read(first, "get_task"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # its call is on its way
        first.connection.closed.set()
        answers[0].set_exception(Unreachable("the connection to hived is closed"))
        other = asyncio.create_task(reads.read(second, "get_task"))
        answers[1].set_result({"state": "done"})
        return await asyncio.gather(ended, other, return_exceptions=True)

    ended, other = asyncio.run(ask_in_the_same_round())
    assert isinstance(ended, Unreachable)
    assert other == {"state": "done"}


def test_a_page_that_is_told_of_a_change_reads_what_is_so_now(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    reads = web.app.web.reads
    clock, reads.clock = reads.clock, lambda: 5.0  # a reply is kept until it is forgotten
    try:
        task = web.hived.do(lambda world: give(world, "operator", "carl", title="Oil it"))
        rows = f"/tasks/{task}/rows"
        with closing(web.connect()) as connection:
            path = f"/live?topics=tasks&after={newest(browser)}"
            connection.sendall(
                web.request("GET", path, cookie=browser.cookie, accept_encoding="identity")
            )
            assert "the upper hinge" not in browser.get(rows).text
            web.hived.call("carl", "report_progress", task=task, text="the upper hinge")
            frames = (
                event for event in events(connection, packed=False) if event.get("event") == "tasks"
            )
            # The first frame may be about the task alone.
            assert any("the upper hinge" in browser.get(rows).text for _ in islice(frames, 2))
    finally:
        reads.clock = clock
