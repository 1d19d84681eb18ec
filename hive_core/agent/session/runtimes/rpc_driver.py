"""Runs turns by JSON-RPC: one process for a conversation, kept from turn to turn."""

from __future__ import annotations

import json
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from hive_core.agent.session.runtimes.builtin import RuntimeGone
from hive_core.agent.session.runtimes.cli_command import CliCommand, CliProcess
from hive_core.agent.session.runtimes.cli_dialect import UNGRANTED, CliOutcome, CliTurn, error_kind
from hive_core.agent.session.runtimes.cli_process import TurnWatcher
from hive_core.agent.session.runtimes.json_rpc import RpcClient, RpcConnection, RpcError
from hive_core.errors import HiveError, TimedOut, Unreachable

_CANCEL: Final = 2.0  # seconds that a program has to end a turn by itself
_OF_SERVER: Final = ("HIVE_NAME", "HIVE_RUNTIME", "PATH")


@dataclass(slots=True)
class RpcProcess:
    """A process with its connection, what it said of itself, and the conversation it has open."""

    process: CliProcess
    connection: RpcConnection
    capabilities: Mapping[str, object] = field(default_factory=dict)
    session: str = ""


class RpcTurn(RpcClient, Protocol):
    """What one turn comes to."""

    outcome: CliOutcome
    watcher: TurnWatcher

    def close(self) -> None:
        """Return what the turn still holds."""
        ...


Turn = TypeVar("Turn", bound=RpcTurn)


class RpcDriver(ABC, Generic[Turn]):
    """Runs turns with one process, which is started anew where its settings differ."""

    def __init__(self, command: CliCommand) -> None:
        self._command = command
        self._open: RpcProcess | None = None
        self._killer: threading.Timer | None = None

    @property
    def pid(self) -> int:
        present = self._open
        return 0 if present is None else present.process.pid

    @property
    def is_alive(self) -> bool:
        present = self._open
        return present is not None and present.process.is_alive

    @abstractmethod
    def begin_turn(self, turn: CliTurn, watcher: TurnWatcher) -> Turn:
        """Create the object that receives the messages of the process in this turn."""

    @abstractmethod
    def run_turn(self, turn: CliTurn, client: Turn) -> None:
        """Run the turn to its end."""

    @abstractmethod
    def shake_hands(self, present: RpcProcess) -> None:
        """Make the first calls to a new process."""

    @abstractmethod
    def interrupt(self, present: RpcProcess) -> None:
        """Ask the process to end its turn. It comes from another thread."""

    def run(self, turn: CliTurn, watcher: TurnWatcher) -> CliOutcome:
        client, name = self.begin_turn(turn, watcher), self._command.dialect.name
        outcome = client.outcome
        try:
            self.run_turn(turn, client)
        except RpcError as error:
            outcome.error, outcome.error_kind = error.reason, error_kind(error.reason)
        except RuntimeGone as error:
            outcome.error = self._end_reason(error)
        except (HiveError, OSError) as error:
            self.close()  # it did what it may not, or the daemon is away
            outcome.error = f"{name} used a tool without asking: {error}"
            if not isinstance(error, OSError | Unreachable | TimedOut):
                outcome.error_kind = UNGRANTED
        finally:
            if self._killer is not None:
                self._killer.cancel()
            if (present := self._open) is not None:
                present.process.files.end_turn(turn)
            with suppress(HiveError, OSError):  # a grant that cannot be returned expires by itself
                client.close()
        return outcome

    def cancel(self) -> None:
        present = self._open
        if present is not None:
            self.interrupt(present)
            self._killer = threading.Timer(_CANCEL, present.process.kill)
            self._killer.daemon = True
            self._killer.start()

    def close(self) -> None:
        present, self._open = self._open, None
        if present is not None:
            present.process.end()

    def take(
        self, words: Sequence[str], turn: CliTurn, settings: object, watcher: TurnWatcher
    ) -> RpcProcess:
        """The process of the previous turn if its settings are equal; else a new process."""
        key = json.dumps([self._command.key(words, turn), settings], sort_keys=True)
        present = self._open
        if present is None or not present.process.is_alive or present.process.key != key:
            self.close()
            process = self._command.start(words, turn, key)
            present = self._open = RpcProcess(process, RpcConnection(process))
            self.shake_hands(present)
        else:
            present.process.files.begin_turn(turn)
        if watcher.is_cancelled():
            present.process.kill()
        return present

    def server_environment(self, process: CliProcess) -> Mapping[str, str]:
        """What the MCP server of hive needs of this process."""
        place = self._command.place
        own = {key: os.environ[key] for key in _OF_SERVER if key in os.environ}
        return {
            **own, "HIVE_SOCKET": place.socket, "HIVE_MESSAGE_FILE": str(process.files.letter.path),
            "HOME": str(place.home),
        }  # fmt: skip

    def _end_reason(self, error: RuntimeGone) -> str:
        """Why the process ended."""
        present, self._open = self._open, None
        if present is None:
            return error.reason
        said = present.process.end()
        status = present.process.popen.returncode
        return f"{self._command.dialect.name} ended with {status}: {said or 'no output'}"
