"""The connections on which hive-web reads running turns, also where hived refuses them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path

from hive_core.errors import NotFound
from hive_core.services.daemon_connection import wire_method
from hive_core.varlink import FrameReader, Message, decode, encode
from hive_core.web.live_turns import TurnFollowers
from hive_core.web.logins import Logins
from hive_core.web.stream import EventStream


@dataclass(slots=True)
class RefusingDaemon:
    """A hived that knows no agent. `was_asked`: three times about the turns of one."""

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
        return {"error": NotFound.wire, "parameters": {"reason": "no agent named 'gone'"}}


def test_an_agent_that_is_gone_costs_one_connection(tmp_path: Path) -> None:
    """Its page stays open, so hived is asked again: on the same connection, not in a new login."""

    async def follow() -> None:
        daemon, path = RefusingDaemon(), tmp_path / "login.sock"
        server = await asyncio.start_unix_server(daemon.serve, str(path))
        logins = Logins(path, time.monotonic)
        await logins.open({"credential": "link_x"}, "::1")
        followers = TurnFollowers(logins, lambda _: None)
        followers.join(EventStream(frozenset(), False, lambda: None, "gone"))  # noqa: FBT003
        async with asyncio.timeout(30):
            await daemon.was_asked.wait()
        assert daemon.logins == 2  # of the person, and of what is read for all
        await followers.stop()
        logins.close_all()
        server.close()
        await asyncio.gather(*daemon.serving)

    asyncio.run(follow())
