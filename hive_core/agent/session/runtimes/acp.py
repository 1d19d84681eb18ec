"""A program of the Agent Client Protocol as a runtime: one process, kept from turn to turn."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from hive_core.agent.session.runtimes.acp_connection import AcpConnection, AcpError
from hive_core.agent.session.runtimes.acp_gate import AcpGate, AcpTools
from hive_core.agent.session.runtimes.builtin import RuntimeGone
from hive_core.agent.session.runtimes.cli_command import CliCommand, CliProcess
from hive_core.agent.session.runtimes.cli_dialect import (
    AcpDialect,
    CliOutcome,
    CliTurn,
    error_kind,
    mcp_server,
)
from hive_core.agent.session.runtimes.cli_process import TurnWatcher
from hive_core.agent.task_run import mapping
from hive_core.errors import HiveError

_VERSION: Final = 1
_HELLO: Final[Mapping[str, object]] = {
    "protocolVersion": _VERSION, "clientInfo": {"name": "hive", "version": "1"},
    "clientCapabilities": {
        "fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False,
    },
}  # fmt: skip
_CANCEL: Final = 2.0  # seconds that an agent has to end a turn by itself
_FOLLOW_UPS: Final = 3
_OF_SERVER: Final = (
    "HIVE_NAME", "HIVE_RUNTIME", "HIVE_SOCKET", "HIVE_MESSAGE_FILE", "PATH", "HOME",
)  # fmt: skip
_ENDS: Final[Mapping[str, str]] = {
    "max_tokens": "the answer is longer than the model may write", "refusal": "the model refused",
    "max_turn_requests": "the program made as many requests as it may in a turn",
}  # fmt: skip
_USAGE: Final[Mapping[str, str]] = {
    "tokens_in": "inputTokens", "tokens_out": "outputTokens", "cache_read": "cachedReadTokens",
    "cache_write": "cachedWriteTokens",
}  # fmt: skip


@dataclass(slots=True)
class AcpProcess:
    """A process with its connection, what it said of itself, and the conversation it has open."""

    process: CliProcess
    connection: AcpConnection
    capabilities: Mapping[str, object]
    session: str = ""


@dataclass(slots=True)
class AcpTurn:
    """What one turn comes to. The text is that behind the last use of a tool."""

    gate: AcpGate
    watcher: TurnWatcher
    outcome: CliOutcome = field(default_factory=CliOutcome)
    ends_in_refusal: bool = False

    def decide(self, params: Mapping[str, object]) -> Mapping[str, object]:
        before = len(self.gate.refusals)
        answer = self.gate.decide(params)
        self.ends_in_refusal = len(self.gate.refusals) > before
        return answer

    def note(self, update: Mapping[str, object]) -> None:
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                text = str(mapping(update.get("content")).get("text") or "")
                self.outcome.text += text
                self.ends_in_refusal = False
                self.watcher.on_text(text)
            case "tool_call" | "tool_call_update":
                self.outcome.text = ""
                use = self.gate.note(update)
                letter = str(mapping(use.get("rawInput")).get("reply_to") or "")
                has_ended = update.get("status") == "completed"
                if has_ended and self.gate.called_operation(use) == "send":
                    self.outcome.replied += [letter] if letter else []
            case _:
                pass


class AcpDriver:
    """Runs turns as prompts of one process, which is started anew where its settings differ."""

    def __init__(self, command: CliCommand, dialect: AcpDialect) -> None:
        self._command = command
        self._dialect = dialect
        self._open: AcpProcess | None = None
        self._killer: threading.Timer | None = None

    @property
    def pid(self) -> int:
        present = self._open
        return 0 if present is None else present.process.pid

    @property
    def is_alive(self) -> bool:
        present = self._open
        return present is not None and present.process.is_alive

    def run(self, turn: CliTurn, watcher: TurnWatcher) -> CliOutcome:
        place = self._command.place
        tools = AcpTools(turn.tools, self._dialect.server, self._dialect.harmless)
        gate = AcpGate(place.socket, place.workspace, turn.task, tools)
        run = AcpTurn(gate, watcher)
        try:
            self._prompt(turn, run)
        except AcpError as error:
            run.outcome.error = error.reason
            run.outcome.error_kind = error_kind(error.reason)
        except RuntimeGone as error:
            run.outcome.error = self._end_reason(error)
        except (HiveError, OSError) as error:
            self.close()  # it did what it may not, or the daemon is away
            run.outcome.error = f"{self._dialect.name} used a tool without asking: {error}"
        finally:
            if self._killer is not None:
                self._killer.cancel()
            _close_gate(gate)
        return run.outcome

    def cancel(self) -> None:
        present = self._open
        if present is not None:
            if present.session:
                present.connection.notify("session/cancel", {"sessionId": present.session})
            self._killer = threading.Timer(_CANCEL, present.process.kill)
            self._killer.daemon = True
            self._killer.start()

    def close(self) -> None:
        present, self._open = self._open, None
        if present is not None:
            present.process.end()

    def _prompt(self, turn: CliTurn, run: AcpTurn) -> None:
        present = self._take(turn)
        if run.watcher.is_cancelled():
            present.process.kill()
        self._open_session(present, turn, run.watcher)
        text = self._dialect.prompt(turn)
        for _ in range(_FOLLOW_UPS):
            run.outcome.text = ""
            refusal_count = len(run.gate.refusals)
            prompt = [{"type": "text", "text": text}]
            result = present.connection.call(
                "session/prompt", {"sessionId": present.session, "prompt": prompt}, run
            )
            _read_result(result, run.outcome)
            if run.outcome.error or not run.ends_in_refusal:
                break
            text = _refusal_text(run.gate.refusals[refusal_count:])
            run.ends_in_refusal = False
        run.outcome.session = present.session
        run.outcome.ended = True

    def _take(self, turn: CliTurn) -> AcpProcess:
        """The process of the turn before, where it has the settings of this one; else a new one."""
        words = [*self._dialect.words(str(self._command.program), turn, self._command.place)]
        # A last call without tools is not to have the server that was opened before.
        key = self._command.key([*words, "" if turn.tools else "no tools"], turn)
        present = self._open
        if present is not None and present.process.is_alive and present.process.key == key:
            present.process.letter.write(turn.letter)
            return present
        self.close()
        process = self._command.start(words, turn, key)
        present = self._open = AcpProcess(process, AcpConnection(process), {})
        hello = present.connection.call("initialize", _HELLO)
        if hello.get("protocolVersion") != _VERSION:
            raise AcpError(
                f"it speaks version {hello.get('protocolVersion')} of ACP, hive speaks 1"
            )
        present.capabilities = mapping(hello.get("agentCapabilities"))
        return present

    def _open_session(self, present: AcpProcess, turn: CliTurn, watcher: TurnWatcher) -> None:
        """Go on with the conversation of the turn, or begin one."""
        if present.session and present.session == turn.session:
            return
        servers = [self._server(present.process)] if turn.tools else []
        params = {"cwd": str(self._command.place.workspace), "mcpServers": servers}
        if turn.session and _resume(present, {**params, "sessionId": turn.session}):
            present.session = turn.session
            return
        turn.is_new = True
        result = present.connection.call("session/new", params)
        present.session = str(result.get("sessionId") or "")
        watcher.on_session(present.session)

    def _server(self, process: CliProcess) -> Mapping[str, object]:
        program, words = mcp_server(self._command.place)
        own = {
            **os.environ, "HIVE_SOCKET": self._command.place.socket,
            "HIVE_MESSAGE_FILE": str(process.letter.path), "HOME": str(self._command.place.home),
        }  # fmt: skip
        rows = [{"name": key, "value": own[key]} for key in _OF_SERVER if key in own]
        return {"name": self._dialect.server, "command": program, "args": words, "env": rows}

    def _end_reason(self, error: RuntimeGone) -> str:
        """Why the process ended."""
        present, self._open = self._open, None
        if present is None:
            return error.reason
        said = present.process.end()
        status = present.process.popen.returncode
        return f"{self._dialect.name} ended with {status}: {said or 'no output'}"


def _resume(present: AcpProcess, params: Mapping[str, object]) -> bool:
    """Whether the agent still has the conversation."""
    can_resume = "resume" in mapping(present.capabilities.get("sessionCapabilities"))
    if not can_resume and present.capabilities.get("loadSession") is not True:
        return False
    try:
        present.connection.call("session/resume" if can_resume else "session/load", params)
    except AcpError:
        return False
    return True


def _read_result(result: Mapping[str, object], outcome: CliOutcome) -> None:
    used = mapping(result.get("usage"))
    for ours, theirs in _USAGE.items():
        value = used.get(theirs)
        outcome.usage[ours] = outcome.usage.get(ours, 0) + (value if isinstance(value, int) else 0)
    outcome.requests += 1
    outcome.error = _ENDS.get(str(result.get("stopReason")), "")


def _refusal_text(refusals: list[str]) -> str:
    rows = "\n".join(f"- {row}" for row in refusals)
    return (
        f"<reminder>\nhive refused what you were about to do:\n{rows}\nGo on without it, or say"
        " what you need.\n</reminder>"
    )


def _close_gate(gate: AcpGate) -> None:
    """Return what is open; a grant that cannot be returned expires by itself."""
    with suppress(HiveError, OSError):
        gate.close()
