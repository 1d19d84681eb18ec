"""The text of running turns, for the pages of agents that somebody looks at.

hived is asked for the turns of an agent while at least one stream follows it. Their text is not
kept among the frames: who comes later gets what there is of it as a whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hive_core.errors import HiveError, Unreachable
from hive_core.plan.printable import escape
from hive_core.services.daemon_connection import DaemonConnection
from hive_core.varlink import Message
from hive_core.web.frames import Frame, passing_frame
from hive_core.web.logins import Logins
from hive_core.web.stream import EventStream

log = logging.getLogger(__name__)
# Each one has a connection of its own to hived.
FOLLOWED_MOST: Final = 64
TEXT_MOST: Final = 64 * 1024
WAIT_SECONDS: Final = 10.0  # that a call waits for text
_RETRY: Final = 1.0
_EVENT: Final = "turn"


@dataclass(slots=True)
class RunningTurn:
    """The newest text of a turn; `size` is how many characters the whole of it has."""

    conversation: str
    turn: int
    text: str = ""
    size: int = 0

    @property
    def title(self) -> str:
        return escape(f"Turn {self.turn} of {self.conversation}")

    def add(self, at: int, text: str) -> bool:
        """Add text that begins at this character of the turn; whether it follows what is here."""
        follows = 0 < self.size == at
        self.text = (self.text + text if follows else text)[-TEXT_MOST:]
        self.size = at + len(text)
        return follows

    def frame_values(self, text: str, *, is_whole: bool, is_ended: bool = False) -> Message:
        return {
            "title": self.title, "text": printable(text), "whole": is_whole,
            "ended": is_ended,
        }  # fmt: skip


@dataclass(slots=True)
class TurnFollowers:
    """`offer` gives a frame to the streams that follow its topic.

    The next agent takes over a connection that its agent has released, because hived records a
    login for each new connection. After an unexpected fault an agent is followed again in
    `fault_pause` seconds.
    """

    logins: Logins
    offer: Callable[[Frame], None]
    fault_pause: float = 10.0
    _wanted: set[str] = field(default_factory=set)
    _turns: dict[str, dict[str, RunningTurn]] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _free: list[DaemonConnection] = field(default_factory=list)

    @property
    def followed(self) -> frozenset[str]:
        """The agents whose turns are read."""
        return frozenset(self._tasks)

    def has_viewer(self, name: str) -> bool:
        """Whether somebody looks at the agent."""
        return name in self._wanted

    def join(self, stream: EventStream) -> None:
        """Follow the agent of a stream, which first gets what there is of its turns."""
        name = stream.agent
        if not name:
            return
        self._wanted.add(name)
        for turn in self._turns.get(name, {}).values():
            stream.replay(_frame(name, turn.frame_values(turn.text, is_whole=True)))
        if name not in self._tasks and len(self._tasks) < FOLLOWED_MOST:
            self._tasks[name] = asyncio.create_task(self._follow(name), name=f"turns of {name}")

    def leave(self, name: str) -> None:
        """Stop following an agent that no stream shows; the call that runs is the last one."""
        self._wanted.discard(name)

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for connection in self._free:
            connection.close()

    async def _follow(self, name: str) -> None:
        try:
            while self.has_viewer(name):
                try:
                    await self._read(name)
                except HiveError as error:
                    log.debug("Cannot follow the turns of %s: %s", name, error)
                    await asyncio.sleep(_RETRY)
                except Exception:
                    log.exception("Cannot follow the turns of %s", name)
                    await asyncio.sleep(self.fault_pause)
        finally:
            self._tasks.pop(name, None)
            self._turns.pop(name, None)

    async def _read(self, name: str) -> None:
        """Read on one connection, which is free again at the end and after a refusal of hived."""
        connection = await self._connect()
        turns = self._turns[name] = {}
        parameters: Message = {"agent": name, "wait": WAIT_SECONDS}
        try:
            while self.has_viewer(name):
                page = await connection.call("watch_turn", parameters)
                parameters["after"] = page["next"]
                for values in take_parts(turns, page):
                    self.offer(_frame(name, values))
        finally:
            if not connection.closed.is_set():
                self._free.append(connection)

    async def _connect(self) -> DaemonConnection:
        while self._free:
            connection = self._free.pop()
            if not connection.closed.is_set():
                return connection
        login = self.logins.any()
        if login is None:
            raise Unreachable("no login is active")
        return await self.logins.open_stream_connection(login)


def take_parts(turns: dict[str, RunningTurn], page: Message) -> list[Message]:
    """Add a page of `watch_turn` to the running turns; the values of the frames that say it."""
    parts = page.get("parts")
    values = []
    for part in parts if isinstance(parts, list) else []:
        turn = RunningTurn(str(part["conversation"]), int(part["turn"]))
        turn = turns.setdefault(turn.title, turn)
        text, is_ended = str(part["text"]), bool(part["ended"])
        follows = turn.add(int(part["at"]), text)
        values.append(turn.frame_values(text, is_whole=not follows, is_ended=is_ended))
        if is_ended:
            del turns[turn.title]
    return values


def turn_topic(agent: str) -> str:
    """The topic of the running turns of an agent."""
    return f"turn of {agent}"


def printable(text: str) -> str:
    """Text with its line breaks, and all that is invisible written out."""
    return "\n".join(map(escape, text.split("\n")))


def _frame(agent: str, values: Mapping[str, object]) -> Frame:
    return passing_frame(turn_topic(agent), _EVENT, values)
