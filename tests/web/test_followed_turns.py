"""The connections on which hive-web reads running turns, also where hived refuses them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hive_core.errors import NotFound
from hive_core.services.daemon_connection import wire_method
from hive_core.varlink import FrameReader, Message, decode, encode
from hive_core.web.frames import Frame
from hive_core.web.live_turns import TurnFollowers
from hive_core.web.logins import Logins
from hive_core.web.stream import EventStream

GONE: Message = {"error": NotFound.wire, "parameters": {"reason": "no agent named 'gone'"}}


def page(*parts: Message) -> Message:
    return {"parameters": {"next": "1", "parts": list(parts)}}


@dataclass(slots=True)
class ScriptedDaemon:
    """A hived that knows no agent, once it has given `pages` of turns.

    `was_asked`: three times about the turns of one.
    """

    pages: list[Message] = field(default_factory=list)
    logins: int = 0
    questions: int = 0
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    serving: set[asyncio.Task[None]] = field(default_factory=set)

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader()
        while data := await reader.read(1 << 16):
            for frame in frames.feed(data):
                writer.write(encode(self._answer(str(decode(frame)["method"]))))
        writer.close()
        await writer.wait_closed()

    def _answer(self, method: str) -> Message:
        if method == wire_method("open_login"):
            self.logins += 1
            return {"parameters": {"credential": "login_x", "account": "alice", "scopes": []}}
        self.questions += 1
        if self.questions == 3:
            self.was_asked.set()
        return self.pages.pop(0) if self.pages else GONE


async def follow(daemon: ScriptedDaemon, path: Path) -> list[Frame]:
    """What a page of the agent is shown until hived was asked often enough."""
    server = await asyncio.start_unix_server(daemon.serve, str(path))
    logins, frames = Logins(path, time.monotonic), list[Frame]()
    await logins.open({"credential": "link_x"}, "::1")
    followers = TurnFollowers(logins, frames.append, fault_pause=0.0)
    followers.join(EventStream(frozenset(), False, lambda: None, "gone"))  # noqa: FBT003
    async with asyncio.timeout(30):
        await daemon.was_asked.wait()
    await followers.stop()
    logins.close_all()
    server.close()
    await asyncio.gather(*daemon.serving)
    return frames


def test_an_agent_that_is_gone_costs_one_connection(tmp_path: Path) -> None:
    """Its page stays open, so hived is asked again: on the same connection, not in a new login."""
    daemon = ScriptedDaemon()
    asyncio.run(follow(daemon, tmp_path / "login.sock"))
    assert daemon.logins == 2  # of the person, and of what is read for all


def test_a_page_of_turns_that_cannot_be_read_is_logged_and_the_next_one_is_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    part: Message = {"conversation": "main", "turn": 1, "at": 0, "text": "hello", "ended": False}
    daemon = ScriptedDaemon([page({**part, "turn": "one"}), page(part)])
    frames = asyncio.run(follow(daemon, tmp_path / "login.sock"))
    assert "Cannot follow the turns of gone" in caplog.text
    assert [b"hello" in frame.plain for frame in frames] == [True]
