"""Claude Code as a runtime: `claude -p` with JSON both ways, and a hook for every call.

Its settings are given on the command line and no file adds to them, so that nothing that the agent
writes into its home or its workspace changes them. Calls that no hook allows are denied.
https://code.claude.com/docs/en/headless and https://code.claude.com/docs/en/hooks describe it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

from hive_core.agent.session.runtimes.cli_dialect import (
    CliOutcome,
    CliPlace,
    CliTurn,
    ProcessDialect,
    mcp_server,
    served_names,
)
from hive_core.agent.task_run import mapping

# Its own tools, by the tools of execution that stand for them.
TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("Bash",), "edit": ("Edit", "Write"), "list": ("Glob",), "read": ("Read",),
    "search": ("Grep",),
}  # fmt: skip
# What it takes a name of its own for (`sonnet`), which may be the alias of a model of hive.
_OWN_ALIASES: Final = tuple(
    f"ANTHROPIC_DEFAULT_{name}_MODEL" for name in ("SONNET", "OPUS", "HAIKU", "FABLE")
)
_SERVER: Final = "mcp__hive__"
_FAILS: Final = "{ echo the hook of hive failed >&2; exit 2; }"
_HOOK_SECONDS: Final = 60  # more than the gate takes at most: a late hook denies nothing
_EVENTS: Final[Mapping[str, str]] = {
    "PreToolUse": "begin", "PostToolUse": "end", "PostToolUseFailure": "fail",
}  # fmt: skip


class ClaudeDialect(ProcessDialect):
    """Words and lines of Claude Code 2.1."""

    name = "claude"
    keeps = True

    def tool_names(self, kinds: Mapping[str, str]) -> Mapping[str, str]:
        own = {tool: names[0] for tool, names in TOOLS.items() if tool in kinds}
        return {**served_names(kinds, _SERVER), **own}

    def new_session(self) -> str:
        return str(uuid4())

    def is_known(self, home: Path, session: str) -> bool:
        return any(home.glob(f".claude/projects/*/{session}.jsonl"))

    def words(self, program: str, turn: CliTurn, place: CliPlace) -> list[str]:
        own = [name for tool, names in TOOLS.items() if tool in turn.tools for name in names]
        return [
            program, "-p", "--output-format", "stream-json", "--input-format", "stream-json",
            "--verbose", "--include-partial-messages", "--model", turn.model,
            "--setting-sources", "", "--settings", json.dumps(_settings(place)),
            "--strict-mcp-config", "--mcp-config", json.dumps(_servers(turn, place)),
            "--tools", ",".join(own), "--permission-mode", "dontAsk",
            "--permission-prompts", "none", "--disable-slash-commands", "--no-chrome",
            "--system-prompt", turn.system,
            *(("--session-id",) if turn.is_new else ("--resume",)), turn.session,
        ]  # fmt: skip

    def environment(self, turn: CliTurn, place: CliPlace) -> Mapping[str, str]:
        del place
        headers = [f"x-hive-task: {turn.task}"] if turn.task else []
        headers += ["x-hive-hand-back: 1"] if turn.hands_back else []
        size = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(turn.max_output)} if turn.max_output else {}
        return {
            "ANTHROPIC_BASE_URL": turn.url,
            "ANTHROPIC_API_KEY": "hive",  # hive-model puts the key in its place
            "ANTHROPIC_SMALL_FAST_MODEL": turn.model, **dict.fromkeys(_OWN_ALIASES, turn.model),
            "ANTHROPIC_CUSTOM_HEADERS": "\n".join(headers),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1", "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1", "MCP_TIMEOUT": "60000", "MCP_TOOL_TIMEOUT": "600000",
            **size,
        }  # fmt: skip

    def stdin(self, turn: CliTurn) -> bytes:
        row = {"type": "user", "message": {"role": "user", "content": turn.prompt}}
        return json.dumps(row).encode(errors="replace") + b"\n"

    def read(self, row: Mapping[str, object], outcome: CliOutcome) -> str:
        match row.get("type"):
            case "system":
                outcome.session = str(row.get("session_id") or outcome.session)
            case "stream_event":
                return _delta(row, outcome)
            case "assistant":
                outcome.requests += 1
                _note_replies(row, outcome)
            case "result":
                _read_result(row, outcome)
            case _:
                pass
        return ""


def _settings(place: CliPlace) -> Mapping[str, object]:
    """The hooks; one that fails for whatever reason denies the call."""
    gate = shlex.join([*place.agent, "gate"])

    def hook(verb: str) -> object:
        row = {"type": "command", "command": f"{gate} {verb} || {_FAILS}", "timeout": _HOOK_SECONDS}
        return [{"matcher": "*", "hooks": [row]}]

    return {
        "hooks": {event: hook(verb) for event, verb in _EVENTS.items()},
        "includeCoAuthoredBy": False, "permissions": {"disableBypassPermissionsMode": "disable"},
    }  # fmt: skip


def _servers(turn: CliTurn, place: CliPlace) -> Mapping[str, object]:
    if not turn.tools:
        return {"mcpServers": {}}
    program, words = mcp_server(place)
    return {"mcpServers": {"hive": {"command": program, "args": words}}}


def _delta(row: Mapping[str, object], outcome: CliOutcome) -> str:
    event = mapping(row.get("event"))
    ttft = row.get("ttft_ms")
    if outcome.ttft_ms is None and isinstance(ttft, int | float):
        outcome.ttft_ms = float(ttft)
    delta = mapping(event.get("delta"))
    return str(delta.get("text") or "") if delta.get("type") == "text_delta" else ""


def _note_replies(row: Mapping[str, object], outcome: CliOutcome) -> None:
    """Which letters the model has answered itself."""
    content = mapping(row.get("message")).get("content")
    for part in map(mapping, content if isinstance(content, list) else []):
        if part.get("name") == f"{_SERVER}send":
            letter = mapping(part.get("input")).get("reply_to")
            outcome.replied += [str(letter)] if letter else []


def _read_result(row: Mapping[str, object], outcome: CliOutcome) -> None:
    outcome.ended = True
    outcome.text = str(row.get("result") or "")
    used = mapping(row.get("usage"))
    names = {
        "tokens_in": "input_tokens", "tokens_out": "output_tokens",
        "cache_read": "cache_read_input_tokens", "cache_write": "cache_creation_input_tokens",
    }  # fmt: skip
    outcome.usage = {ours: _number(used.get(theirs)) for ours, theirs in names.items()}
    models = mapping(row.get("modelUsage"))
    outcome.model = next(iter(models), "")
    if row.get("is_error") is True or row.get("subtype") != "success":
        status = _number(row.get("api_error_status"))
        outcome.error = outcome.text or str(row.get("errors") or row.get("subtype"))
        outcome.error_kind = {402: "budget", 429: "rate"}.get(status, "")


def _number(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
