"""What the parts of a session share: the broker, the settings, and where things are."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.agent.crash_report import report_text
from hive_core.agent.reconnect import BatchedCall, Link
from hive_core.agent.session.calls import ToolPlace
from hive_core.agent.session.judge_settings import JudgeSettings
from hive_core.agent.session.memory.settings import MemorySettings
from hive_core.agent.session.runtimes.builtin import RuntimeCommand
from hive_core.agent.session.runtimes.cli_command import CliCommand
from hive_core.agent.session.runtimes.fork_server import ForkServerClient
from hive_core.agent.session.servers import McpServers
from hive_core.agent.session.settings_table import (
    Reader,
    fraction,
    number,
    read_agent_table,
    read_values,
)
from hive_core.agent.session.toolset import KnownTools
from hive_core.errors import HiveError, MethodNotFound, TimedOut, Unreachable
from hive_core.varlink import Message

POLL: Final = 50.0
TRY_AGAIN: Final = 75
_AWAY: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
_TRIES: Final = 8


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """`[session]` of agent.toml. `rounds` 0: by the profile of the agent."""

    rounds: int = 0
    compact_at: float = 0.75
    idle: float = 60.0

    @classmethod
    def read(cls, file: Path) -> SessionSettings:
        """The settings in the deployed configuration; InvalidArgument names a wrong one."""
        return cls.of(read_agent_table(file, "session"))

    @classmethod
    def of(cls, table: Mapping[str, object]) -> SessionSettings:
        """The settings in a parsed table."""
        return cls(**read_values("session", table, _READERS))  # type: ignore[arg-type]  # readers know the types


_READERS: Final[Mapping[str, Reader]] = {
    "rounds": number(1, 1000), "compact_at": fraction(0.1, 0.95), "idle": fraction(0, 86_400),
}  # fmt: skip


@dataclass(slots=True)
class SessionServices:
    """The services of one session. `stop` is set when it ends.

    `tools`: those that it has read last. `cli`: where a CLI runs its model. `forks`: what opens
    its built-in runtimes; None: each is started by itself. `depth`, `clone_depth`: those of the
    sub-agent that this process is, as the daemon wrote them.
    """

    name: str
    socket: str
    folder: Path
    place: ToolPlace
    runtime: RuntimeCommand
    settings: SessionSettings = field(default_factory=SessionSettings)
    cli: CliCommand | None = None
    forks: ForkServerClient | None = None
    servers: McpServers | None = None
    memory: MemorySettings = field(default_factory=MemorySettings)
    tools: KnownTools = field(default_factory=KnownTools)
    judge: JudgeSettings = field(default_factory=JudgeSettings)
    stop: threading.Event = field(default_factory=threading.Event)
    depth: int = 0
    clone_depth: int = 0

    def open_link(self) -> Link:
        """A connection to the broker, for one thread."""
        return Link(self.socket, answer=POLL)

    def ask(self, link: Link, operation: str, /, **params: object) -> Message:
        """Call until an answer comes, while the daemon restarts or is busy."""
        tries = 0
        while True:
            try:
                return link.ask(operation, **params)
            except (Unreachable, TimedOut):
                link.close()
                if self.stop.is_set():
                    raise
            except HiveError as error:
                if error.exit_code != TRY_AGAIN or tries >= _TRIES or self.stop.is_set():
                    raise
            self.stop.wait(_AWAY[min(tries, len(_AWAY) - 1)])
            tries += 1

    def try_ask(self, link: Link, operation: str, /, **params: object) -> Message:
        """Call; a refusal is logged, and gives an empty answer."""
        try:
            return self.ask(link, operation, **params)
        except (Unreachable, TimedOut):
            raise  # the session ends, and the daemon has not answered: it is not refused
        except HiveError as error:
            return _note_refusal(operation, error)

    def ask_together(self, link: Link, calls: Sequence[BatchedCall]) -> list[Message]:
        """Call all at once until each has an answer; raises the first refusal of a needed one.

        They are reads, or have idempotency keys, and none depends on the answer to another.
        """
        try:
            outcomes = link.ask_together(calls)
        except (Unreachable, TimedOut) as error:
            link.close()
            outcomes = [error] * len(calls)
        return [
            self._answer(link, call, outcome) for call, outcome in zip(calls, outcomes, strict=True)
        ]

    def _answer(self, link: Link, call: BatchedCall, outcome: Message | HiveError) -> Message:
        """The answer to one of several calls; asks again where the daemon is away or busy."""
        if not isinstance(outcome, HiveError):
            return outcome
        if isinstance(outcome, Unreachable | TimedOut) or outcome.exit_code == TRY_AGAIN:
            ask = self.try_ask if call.optional else self.ask
            return ask(link, call.operation, **call.params)
        if not call.optional:
            raise outcome
        return _note_refusal(call.operation, outcome)


def _note_refusal(operation: str, error: HiveError) -> Message:
    """Log why nothing came of a call that nothing depends on."""
    if not isinstance(error, MethodNotFound):  # a daemon of an earlier version
        say(f"cannot {operation}: {error.reason}")
    return {}


def fault_text(error: HiveError | OSError) -> str:
    """What went wrong, as a line says it."""
    return error.reason if isinstance(error, HiveError) else error.strerror or str(error)


def describe_fault(error: Exception) -> str:
    """The same; for any other fault, the report with its traceback."""
    if isinstance(error, HiveError | OSError):
        return fault_text(error)
    return report_text("hive-agent", error)


def say(text: str) -> None:
    """Write a line to the log of the agent."""
    sys.stderr.write(f"hive-agent: {text}\n")
    sys.stderr.flush()
