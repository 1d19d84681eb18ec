"""What programs and pages ask of hived at once, and what hive-web keeps of the replies."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

from hive_core.errors import LimitReached
from hive_core.services.daemon_connection import DaemonConnection
from hive_core.varlink import Message
from hive_core.web.logins import BrowserLogin
from hive_core.web.reads import KEPT_SECONDS, SharedReads
from hive_core.web.tokens import CALLS_OF_TOKEN, TokenLogins


def test_calls_that_come_at_once_open_no_more_connections_than_a_token_may_have() -> None:
    opened = 0

    async def connect_at_once() -> list[object]:
        hived_answers, end_calls = asyncio.Event(), asyncio.Event()

        async def call(*_: object) -> Message:
            await hived_answers.wait()
            return {}

        async def open_connection() -> DaemonConnection:
            nonlocal opened
            opened += 1
            made = SimpleNamespace(call=call, closed=asyncio.Event(), close=lambda: None)
            return cast("DaemonConnection", made)

        tokens = TokenLogins(open_connection, lambda: 1000.0)

        async def call_once() -> None:
            async with tokens.connect("token_x", "203.0.113.9"):
                await end_calls.wait()

        calls = [asyncio.create_task(call_once()) for _ in range(3 * CALLS_OF_TOKEN)]
        done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED, timeout=10)
        refused = [task.exception() for task in done]
        hived_answers.set()
        end_calls.set()
        await asyncio.gather(*calls, return_exceptions=True)
        await call_once()  # and then it may call again
        return [type(error) for error in refused]

    assert set(asyncio.run(connect_at_once())) == {LimitReached}
    assert opened == CALLS_OF_TOKEN


def test_a_reply_that_is_too_old_to_be_shared_is_not_kept() -> None:
    now = 1000.0

    async def call(operation: str, _: object) -> Message:
        return {"of": operation}

    connection = SimpleNamespace(call=call, closed=asyncio.Event())
    login = cast("BrowserLogin", SimpleNamespace(connection=connection))
    reads = SharedReads(lambda: now)

    async def read(*pages: str) -> None:
        for page in pages:
            await reads.read(login, page)

    asyncio.run(read("list_events", "todo"))
    assert [reply["of"] for _, reply in reads._kept.values()] == ["list_events", "todo"]
    now += KEPT_SECONDS
    asyncio.run(read("get_usage"))
    assert [reply["of"] for _, reply in reads._kept.values()] == ["get_usage"]
