"""Codex as a runtime: `codex exec --json`, with a hook for each call.

Its settings are given on the command line; neither the user's file nor rules of the workspace are
read. While no tool of the agent may run, its sandbox is read-only besides: two locks, not one.
https://developers.openai.com/codex describes settings and hooks.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hive_core.agent.session.runtimes.cli_dialect import (
    CliOutcome,
    CliPlace,
    CliTurn,
    ProcessDialect,
    error_kind,
    mcp_server,
)
from hive_core.agent.task_run import mapping

_SERVER: Final = "mcp__hive."  # its tools stand in a namespace
_HOOK_SECONDS: Final = 60  # more than the gate takes at most: a late hook denies nothing
# What it would do beside its turn, or with tools that no hook judges.
_OFF: Final = (
    "unified_exec", "unified_exec_tty", "multi_agent", "goals", "view_image", "image_generation",
    "apps", "plugins", "browser_use", "computer_use",
)  # fmt: skip
_OF_SERVER: Final = ("HIVE_NAME", "HIVE_RUNTIME", "PATH")


class CodexDialect(ProcessDialect):
    """Words and lines of Codex 0.169."""

    name = "codex"

    def tool_names(self, kinds: Mapping[str, str]) -> Mapping[str, str]:
        served = {tool: f"{_SERVER}{tool}" for tool, kind in kinds.items() if kind == "operation"}
        own = {tool: "exec_command" for tool in ("bash", "read") if tool in kinds}
        return {**served, **own}

    def is_known(self, home: Path, session: str) -> bool:
        return any(home.glob(f".codex/sessions/*/*/*/rollout-*-{session}.jsonl"))

    def words(self, program: str, turn: CliTurn, place: CliPlace) -> list[str]:
        settings = [word for setting in _settings(turn, place) for word in ("-c", setting)]
        off = [word for feature in _OFF for word in ("--disable", feature)]
        sandbox = "read-only" if turn.locked or not turn.tools else "danger-full-access"
        return [
            program, "exec", *(() if turn.is_new else ("resume", turn.session)), "--json",
            "--ignore-user-config", "--ignore-rules", "--skip-git-repo-check",
            "--dangerously-bypass-hook-trust", "-m", turn.model,
            "-c", f"sandbox_mode={json.dumps(sandbox)}", *off, *settings, "-",
        ]  # fmt: skip

    def environment(self, turn: CliTurn, place: CliPlace) -> Mapping[str, str]:
        del turn, place
        return {"HIVE_KEY": "hive"}  # hive-model puts the key in the place of this word

    def stdin(self, turn: CliTurn) -> bytes:
        return turn.prompt.encode(errors="replace")

    def read(self, row: Mapping[str, object], outcome: CliOutcome) -> str:
        match row.get("type"):
            case "thread.started":
                outcome.session = str(row.get("thread_id") or outcome.session)
            case "item.completed":
                return _read_item(mapping(row.get("item")), outcome)
            case "turn.completed":
                outcome.ended = True
                outcome.usage = _usage(mapping(row.get("usage")))
            case "turn.failed":
                outcome.error = str(mapping(row.get("error")).get("message") or "no reason")
                outcome.error_kind = error_kind(outcome.error)
            case _:
                pass
        return ""


def _settings(turn: CliTurn, place: CliPlace) -> Iterator[str]:
    """`key=value` in TOML, which takes strings and tables of these as JSON has them."""
    headers = {"x-hive-task": turn.task} if turn.task else {}
    if turn.hands_back:
        headers["x-hive-hand-back"] = "1"
    provider = {
        "name": "hive", "base_url": f"{turn.url}/v1", "wire_api": "responses",
        "env_key": "HIVE_KEY", "request_max_retries": 0, "stream_max_retries": 0,
        "http_headers": headers,
    }  # fmt: skip
    yield 'model_provider="hive"'
    yield f"model_providers.hive={_toml(provider)}"
    yield f"developer_instructions={_toml(turn.system)}"
    yield 'approval_policy="never"'
    yield 'web_search="disabled"'
    yield 'cli_auth_credentials_store="file"'
    yield "check_for_update_on_startup=false"
    for event, verb in (("PreToolUse", "begin"), ("PostToolUse", "end")):
        gate = shlex.join([*place.agent, "gate", verb])
        # Without a word on standard error Codex goes on.
        command = f"{gate} || {{ echo the hook of hive failed >&2; exit 2; }}"
        hook = {"type": "command", "command": command, "timeout": _HOOK_SECONDS}
        yield f"hooks.{event}={_toml([{'hooks': [hook]}])}"
    if turn.tools:
        yield f"mcp_servers.hive={_toml(_server(turn, place))}"


def _server(turn: CliTurn, place: CliPlace) -> Mapping[str, object]:
    program, words = mcp_server(place)
    own = {key: os.environ[key] for key in _OF_SERVER if key in os.environ}
    return {
        "command": program, "args": words,
        "env": {**own, "HIVE_SOCKET": place.socket, "HIVE_MESSAGE_ID": turn.letter},
        "default_tools_approval_mode": "approve", "required": True, "startup_timeout_sec": 60,
        "tool_timeout_sec": 600,
    }  # fmt: skip


def _toml(value: object) -> str:
    """A value in TOML; the signs that JSON and TOML write differently are escaped."""
    match value:
        case bool() | int():
            return json.dumps(value)
        case Mapping():
            return (
                "{"
                + ",".join(f"{json.dumps(key)}={_toml(row)}" for key, row in value.items())
                + "}"
            )
        case list() | tuple():
            return "[" + ",".join(map(_toml, value)) + "]"
        case _:
            return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _read_item(item: Mapping[str, object], outcome: CliOutcome) -> str:
    match item.get("type"):
        case "agent_message":
            outcome.text = str(item.get("text") or "")
            return f"{outcome.text}\n"
        case "mcp_tool_call" if item.get("tool") == "send":
            letter = mapping(item.get("arguments")).get("reply_to")
            outcome.replied += [str(letter)] if letter else []
        case _:
            pass
    return ""


def _usage(used: Mapping[str, object]) -> dict[str, int]:
    names = {
        "tokens_in": "input_tokens", "tokens_out": "output_tokens",
        "cache_read": "cached_input_tokens", "cache_write": "cache_write_input_tokens",
    }  # fmt: skip
    values = {ours: used.get(theirs) for ours, theirs in names.items()}
    return {key: value for key, value in values.items() if isinstance(value, int)}
