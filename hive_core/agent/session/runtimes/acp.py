"""A program of the Agent Client Protocol as a runtime: one process, kept from turn to turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hive_core.agent.session.runtimes.acp_gate import AcpGate, AcpTools
from hive_core.agent.session.runtimes.cli_command import CliCommand, CliProcess
from hive_core.agent.session.runtimes.cli_dialect import (
    AcpDialect,
    CliOutcome,
    CliTurn,
    mcp_server,
)
from hive_core.agent.session.runtimes.cli_process import TurnWatcher
from hive_core.agent.session.runtimes.json_rpc import RpcError
from hive_core.agent.session.runtimes.rpc_driver import RpcDriver, RpcProcess
from hive_core.agent.task_run import mapping

_VERSION: Final = 1
_HELLO: Final[Mapping[str, object]] = {
    "protocolVersion": _VERSION, "clientInfo": {"name": "hive", "version": "1"},
    "clientCapabilities": {
        "fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False,
    },
}  # fmt: skip
_FOLLOW_UPS: Final = 3
_ENDS: Final[Mapping[str, str]] = {
    "max_tokens": "the answer is longer than the model may write", "refusal": "the model refused",
    "max_turn_requests": "the program made as many requests as it may in a turn",
}  # fmt: skip
_USAGE: Final[Mapping[str, str]] = {
    "tokens_in": "inputTokens", "tokens_out": "outputTokens", "cache_read": "cachedReadTokens",
    "cache_write": "cachedWriteTokens",
}  # fmt: skip


@dataclass(slots=True)
class AcpTurn:
    """What one turn comes to. The text is that behind the last use of a tool."""

    gate: AcpGate
    watcher: TurnWatcher
    outcome: CliOutcome = field(default_factory=CliOutcome)
    ends_in_refusal: bool = False

    def answer(self, method: str, params: Mapping[str, object]) -> Mapping[str, object] | None:
        """Files and terminals are the agent's own: hive has said that it offers none."""
        if method != "session/request_permission":
            return None
        before = len(self.gate.refusals)
        answer = self.gate.decide(params)
        self.ends_in_refusal = len(self.gate.refusals) > before
        return answer

    def note(self, method: str, params: Mapping[str, object]) -> None:
        update = mapping(params.get("update")) if method == "session/update" else {}
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

    def close(self) -> None:
        self.gate.close()


class AcpDriver(RpcDriver[AcpTurn]):
    """Runs turns as prompts."""

    def __init__(self, command: CliCommand, dialect: AcpDialect) -> None:
        super().__init__(command)
        self._dialect = dialect

    def begin_turn(self, turn: CliTurn, watcher: TurnWatcher) -> AcpTurn:
        place = self._command.place
        tools = AcpTools(turn.tools, self._dialect.server, self._dialect.harmless)
        return AcpTurn(AcpGate(place.socket, place.workspace, turn.task, tools), watcher)

    def interrupt(self, present: RpcProcess) -> None:
        if present.session:
            present.connection.notify("session/cancel", {"sessionId": present.session})

    def shake_hands(self, present: RpcProcess) -> None:
        hello = present.connection.call("initialize", _HELLO)
        if hello.get("protocolVersion") != _VERSION:
            raise RpcError(
                f"it speaks version {hello.get('protocolVersion')} of ACP, hive speaks 1"
            )
        present.capabilities = mapping(hello.get("agentCapabilities"))

    def run_turn(self, turn: CliTurn, client: AcpTurn) -> None:
        words = self._dialect.words(str(self._command.program), turn, self._command.place)
        # A last call without tools is not to have the server that was opened before.
        present = self.take(words, turn, bool(turn.tools), client.watcher)
        self._open_session(present, turn, client.watcher)
        text = self._dialect.prompt(turn)
        for _ in range(_FOLLOW_UPS):
            client.outcome.text = ""
            refusal_count = len(client.gate.refusals)
            prompt = [{"type": "text", "text": text}]
            result = present.connection.call(
                "session/prompt", {"sessionId": present.session, "prompt": prompt}, client
            )
            _read_result(result, client.outcome)
            if client.outcome.error or not client.ends_in_refusal:
                break
            text = _refusal_text(client.gate.refusals[refusal_count:])
            client.ends_in_refusal = False
        client.outcome.session = present.session
        client.outcome.ended = True

    def _open_session(self, present: RpcProcess, turn: CliTurn, watcher: TurnWatcher) -> None:
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
        own = self.server_environment(process)
        rows = [{"name": key, "value": value} for key, value in own.items()]
        return {"name": self._dialect.server, "command": program, "args": words, "env": rows}


def _resume(present: RpcProcess, params: Mapping[str, object]) -> bool:
    """Whether the agent still has the conversation."""
    can_resume = "resume" in mapping(present.capabilities.get("sessionCapabilities"))
    if not can_resume and present.capabilities.get("loadSession") is not True:
        return False
    try:
        present.connection.call("session/resume" if can_resume else "session/load", params)
    except RpcError:
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
