"""Runs the turns of Codex, as a client of its app server.

Hooks ask the daemon for the grant of each use. Here it is seen to that they do: a use that no hook
of the session has allowed ends the process, and whatever Codex asks its client for is declined.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hive_core.agent.session.runtimes.cli_command import CliCommand
from hive_core.agent.session.runtimes.cli_dialect import CliOutcome, CliTurn, error_kind
from hive_core.agent.session.runtimes.cli_process import TurnWatcher
from hive_core.agent.session.runtimes.codex import CodexDialect
from hive_core.agent.session.runtimes.json_rpc import RpcError
from hive_core.agent.session.runtimes.rpc_driver import RpcDriver, RpcProcess
from hive_core.agent.task_run import mapping
from hive_core.errors import NotAllowed

Fields = Mapping[str, object]
_HELLO: Final[Fields] = {"clientInfo": {"name": "hive", "title": "hive", "version": "1"}}
_DECLINED: Final[Mapping[str, Fields]] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "mcpServer/elicitation/request": {"action": "decline"},
    "execCommandApproval": {"decision": "denied"}, "applyPatchApproval": {"decision": "denied"},
}  # fmt: skip
_HOOK_SOURCE: Final = "sessionFlags"  # the settings that the session gives
_USES: Final = ("commandExecution", "fileChange")
_HARMLESS: Final = frozenset({
    "userMessage", "agentMessage", "reasoning", "plan", "contextCompaction", "hookPrompt",
    "functionCallOutput",
})  # fmt: skip
_USAGE: Final[Mapping[str, str]] = {
    "tokens_in": "inputTokens", "tokens_out": "outputTokens", "cache_read": "cachedInputTokens",
    "cache_write": "cacheWriteInputTokens",
}  # fmt: skip


@dataclass(slots=True)
class CodexTurn:
    """What one turn comes to."""

    watcher: TurnWatcher
    outcome: CliOutcome = field(default_factory=CliOutcome)
    number: str = ""
    running: set[str] = field(default_factory=set)
    _allowed: set[str] = field(default_factory=set)

    def answer(self, method: str, params: Fields) -> Fields | None:
        """Approvals are given by hooks alone, so all that is asked is declined."""
        del params
        return _DECLINED.get(method)

    def note(self, method: str, params: Fields) -> None:
        match method:
            case "item/agentMessage/delta":
                self.watcher.on_text(str(params.get("delta") or ""))
            case "hook/started" | "hook/completed":
                self._note_hook(mapping(params.get("run")))
            case "item/started":
                item = mapping(params.get("item"))
                self._check_use(item)
                self.running |= {str(item.get("id"))} if item.get("type") in _USES else set()
            case "item/completed":
                item = mapping(params.get("item"))
                self.running.discard(str(item.get("id")))
                self._check_use(item)
                self._read_item(item)
            case "thread/tokenUsage/updated":
                self._add_usage(mapping(mapping(params.get("tokenUsage")).get("last")))
            case "turn/completed":
                self._end(mapping(params.get("turn")))
            case _:
                pass

    def close(self) -> None:
        """Nothing to return: the hooks hold the grants."""

    def _note_hook(self, run: Fields) -> None:
        """Note the uses that a hook of the session has allowed. NotAllowed: the hook of another."""
        if run.get("source") != _HOOK_SOURCE:
            raise NotAllowed(f"a hook of {str(run.get('sourcePath'))[:200]} ran")
        if run.get("eventName") == "preToolUse" and run.get("status") == "completed":
            prefix = f"pre-tool-use:{run.get('displayOrder')}:{run.get('sourcePath')}:"
            self._allowed.add(str(run.get("id")).removeprefix(prefix))

    def _check_use(self, item: Fields) -> None:
        """NotAllowed: it is a use that no hook has allowed."""
        kind = str(item.get("type"))
        is_ours = kind == "mcpToolCall" and item.get("server") == "hive"
        if kind in _HARMLESS or is_ours or item.get("status") in ("failed", "declined"):
            return
        if kind not in _USES or str(item.get("id")) not in self._allowed:
            raise NotAllowed(f"no hook allowed {kind[:64]} {str(item.get('id'))[:64]}")

    def _read_item(self, item: Fields) -> None:
        match item.get("type"):
            case "agentMessage":
                self.outcome.text = str(item.get("text") or "")
                self.watcher.on_text("\n")
            case "mcpToolCall" if item.get("tool") == "send":
                letter = mapping(item.get("arguments")).get("reply_to")
                self.outcome.replied += [str(letter)] if letter else []
            case _:
                pass

    def _add_usage(self, used: Fields) -> None:
        self.outcome.requests += 1
        for ours, theirs in _USAGE.items():
            value = used.get(theirs)
            before = self.outcome.usage.get(ours, 0)
            self.outcome.usage[ours] = before + (value if isinstance(value, int) else 0)

    def _end(self, turn: Fields) -> None:
        if turn.get("id") != self.number:
            return
        self.outcome.ended = True
        if turn.get("status") == "failed":
            error = mapping(turn.get("error"))
            self.outcome.error = str(error.get("message") or "no reason")
            self.outcome.error_kind = error_kind(self.outcome.error)


class CodexDriver(RpcDriver[CodexTurn]):
    """Runs turns of one conversation of the app server."""

    def __init__(self, command: CliCommand, dialect: CodexDialect) -> None:
        super().__init__(command)
        self._dialect = dialect
        self._number = ""

    def begin_turn(self, turn: CliTurn, watcher: TurnWatcher) -> CodexTurn:
        del turn
        return CodexTurn(watcher)

    def shake_hands(self, present: RpcProcess) -> None:
        present.connection.call("initialize", _HELLO)
        present.connection.notify("initialized", {})

    def interrupt(self, present: RpcProcess) -> None:
        if self._number:
            turn = {"threadId": present.session, "turnId": self._number}
            present.connection.post("turn/interrupt", turn)

    def run_turn(self, turn: CliTurn, client: CodexTurn) -> None:
        self._number = ""
        turn.url = self._command.forwarder.url
        place = self._command.place
        words = self._dialect.words(str(self._command.program), turn, place)
        thread = self._dialect.thread(turn, place)
        present = self.take(words, turn, [thread, bool(turn.tools)], client.watcher)
        self._open_thread(present, turn, thread, client)
        begun = present.connection.call("turn/start", {
            "threadId": present.session, "sandboxPolicy": self._dialect.sandbox(turn),
            "input": [{"type": "text", "text": turn.prompt}],
        }, client)  # fmt: skip
        client.number = self._number = str(mapping(begun.get("turn")).get("id"))
        if client.watcher.is_cancelled():
            self.interrupt(present)
        present.connection.listen(client, lambda: client.outcome.ended)
        client.outcome.session = present.session
        if client.running:
            self.close()  # what was granted for this turn is not to run on

    def _open_thread(
        self, present: RpcProcess, turn: CliTurn, thread: Fields, client: CodexTurn
    ) -> None:
        """Go on with the conversation of the turn, or begin one."""
        if present.session and present.session == turn.session:
            return
        environment = self.server_environment(present.process)
        server = self._dialect.server(self._command.place, environment)
        servers = {"mcp_servers": {"hive": server}} if turn.tools else {}
        params = {**thread, "config": {**mapping(thread["config"]), **servers}}
        if turn.session:
            params |= {"threadId": turn.session, "excludeTurns": True}
        method = "thread/resume" if turn.session else "thread/start"
        reply = present.connection.call(method, params, client)
        present.session = str(mapping(reply.get("thread")).get("id") or "")
        if not present.session:
            raise RpcError("it opened no conversation")
        if present.session != turn.session:
            client.watcher.on_session(present.session)
