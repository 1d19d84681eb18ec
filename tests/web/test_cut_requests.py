"""A request whose client goes away before all of it has come does nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import pytest
from fixtures.dashboard import FakeBrowser, RunningDashboard, read_answer

from hive_core.services.replies import rows_of
from hive_core.web.request_limits import BodyIncomplete, read_body

Message = dict[str, Any]


def _receive(*messages: Message) -> Callable[[], Awaitable[Message]]:
    coming = iter(messages)

    async def receive() -> Message:
        return next(coming)

    return receive


@pytest.mark.parametrize("parts", [[], [b"form_token=x&reason=begin"]])
def test_a_body_of_which_a_part_is_lost_is_no_body(parts: list[bytes]) -> None:
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    receive = _receive(*messages, {"type": "http.disconnect"})
    with pytest.raises(BodyIncomplete):
        asyncio.run(read_body({"headers": []}, receive))


def test_a_form_that_is_cut_off_is_not_sent_to_the_agent(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    def letters() -> list[str]:
        listed = web.hived.call("operator", "list_messages", agent="carl")
        return [str(letter["body"]) for letter in rows_of(listed, "messages")]

    def send(body: bytes, length: int) -> None:
        request = web.request(
            "POST", "/agents/carl/say", body, cookie=browser.cookie, content_length=str(length)
        )
        with web.connect() as connection, suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request)
            connection.shutdown(1)  # nothing more is sent
            read_answer(connection)

    whole = urlencode({"form_token": browser.token(), "body": "remove the lock"}).encode()
    send(whole[: -len("+the+lock")], len(whole))
    send(whole.replace(b"remove", b"mend"), len(whole) - len("remove") + len("mend"))
    assert letters()[-1:] == ["mend the lock"]
    assert not any(letter.startswith("remove") for letter in letters())
