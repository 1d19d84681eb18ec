"""Starting a sub-agent: by the session itself, or by a request to it.

The session starts the processes of its own sub-agents and of those that they open. A sub-agent has
the session start them: no process in the container but the session can take another user.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hive_core.agent.session.subagents.channel import RULE, StartRequest, ask_start
from hive_core.agent.session.subagents.order import ForkOrder
from hive_core.errors import NotAllowed
from hive_core.varlink import Message


@dataclass(frozen=True, slots=True)
class GrantedSubagent:
    """A sub-agent as the daemon opened it. `uid` None: it runs as its session does."""

    id: str
    name: str
    kind: str
    uid: int | None
    depth: int
    clone_depth: int


@dataclass(frozen=True, slots=True)
class Launch:
    """A sub-agent that is to be started. `hydration`: the log that it begins with."""

    opened: GrantedSubagent
    order: ForkOrder
    hydration: bytes
    seconds: int
    keeps_files: bool


class Launcher(Protocol):
    """Starts sub-agents, one after the other; another thread may end the present one."""

    def workspace_of(self, id_: str) -> Path:
        """Where a sub-agent works."""
        ...

    def run(self, launch: Launch) -> Message:
        """Start it, and return its result; a HiveError says why there is none."""
        ...

    def kill(self) -> None:
        """End the sub-agent that runs now; none is started after it."""
        ...


class AskingLauncher:
    """Has the session start the sub-agents of this one. `channel` None: it cannot be asked."""

    def __init__(self, channel: socket.socket | None, workspace: Path) -> None:
        self._channel = channel
        self._folder = workspace.parent

    def workspace_of(self, id_: str) -> Path:
        return self._folder / id_

    def run(self, launch: Launch) -> Message:
        if self._channel is None:
            raise NotAllowed(
                "cannot fork a sub-agent: this process has no channel to the session of its agent",
                rule=RULE,
            )
        request = StartRequest(launch.opened.id, launch.seconds, launch.hydration)
        return ask_start(self._channel, request)

    def kill(self) -> None:
        """The session ends the sub-agents of one that hangs up."""
        if self._channel is not None:
            with suppress(OSError):  # the session has hung up already
                self._channel.shutdown(socket.SHUT_RDWR)


def read_channel(option: str) -> socket.socket | None:
    """The end of the channel that the session gave to this process; None where it gave none."""
    if not option:
        return None
    channel = socket.socket(fileno=int(option))
    channel.set_inheritable(False)  # no tool of the sub-agent needs it
    return channel
