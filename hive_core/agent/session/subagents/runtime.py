"""The runtime of a sub-agent: its parent has it forked, and gives it to the new process.

A sub-agent cannot reach the fork server, which runs processes of any user. It gets two descriptors:
its end of the connection to its runtime, and that of the process. Where it has none, or where this
runtime dies, it starts one itself.
"""

from __future__ import annotations

import os
import queue
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from hive_core.agent.output import complaint
from hive_core.agent.session.runtimes.builtin import BuiltinRuntime, RuntimeCommand, RuntimeGone
from hive_core.agent.session.runtimes.fork_server import ForkedEnd
from hive_core.agent.session.runtimes.processes import ForkedProcess
from hive_core.agent.session.services import SessionServices
from hive_core.agent.session.subagents.order import ForkOrder
from hive_core.errors import InvalidArgument

OPTION: Final = "--runtime"


@dataclass(frozen=True, slots=True)
class SubagentRuntime:
    """What a new sub-agent is given. `forked` None: nothing."""

    forked: ForkedEnd | None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What its process inherits."""
        if self.forked is None:
            return ()
        return (self.forked.end.fileno(), self.forked.process.handle)

    @property
    def words(self) -> list[str]:
        """The option that names them."""
        return [OPTION, ",".join(map(str, self.descriptors))] if self.forked else []

    def give(self) -> None:
        """Close the end that the sub-agent has now: it alone speaks to its runtime."""
        if self.forked is not None:
            self.forked.end.close()


@contextmanager
def forked_runtime(
    services: SessionServices, order: ForkOrder, uid: int | None, model_socket: Path
) -> Iterator[SubagentRuntime]:
    """A runtime that runs as the sub-agent does, and ends with it."""
    runtime = SubagentRuntime(_fork(services, order, uid, model_socket))
    try:
        yield runtime
    finally:
        if runtime.forked is not None:
            runtime.forked.end.close()
            runtime.forked.process.end()


def _fork(
    services: SessionServices, order: ForkOrder, uid: int | None, model_socket: Path
) -> ForkedEnd | None:
    if services.forks is None:
        return None
    own = services.runtime
    command = replace(own, model_socket=str(model_socket), uid=own.uid if uid is None else uid)
    try:
        return services.forks.fork(command, order.model_info.wire)
    except RuntimeGone as error:
        complaint(f"{error.reason}; the sub-agent starts its own")
        return None


class GivenRuntime:
    """The runtime that the parent gave, once; then runtimes that this process starts."""

    def __init__(self, command: RuntimeCommand, option: str) -> None:
        self._command = command
        self._descriptors = _descriptors(option) if option else None

    def open(self, events: queue.SimpleQueue[tuple[str, object]], wire: str) -> BuiltinRuntime:
        """A runtime whose lines go into `events`."""
        descriptors, self._descriptors = self._descriptors, None
        if descriptors is None:
            return self._command.open(events, wire)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no keyword
        end, handle = descriptors
        return BuiltinRuntime(socket.socket(fileno=end), ForkedProcess(handle), events)


def _descriptors(text: str) -> tuple[int, int]:
    match [part for part in text.split(",") if part.isdecimal()]:
        case [end, handle]:
            return int(end), int(handle)
        case _:
            raise InvalidArgument(f"{OPTION} needs two descriptors: {text[:64]}", field="runtime")
