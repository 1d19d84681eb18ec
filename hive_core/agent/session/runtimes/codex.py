"""Codex as a runtime: `codex app-server`, with a hook for each use of a tool.

Its settings are given with the conversation. Its home is a folder in which its user can make no
file of settings, and the workspace is not trusted to have any. While no tool of the agent may run,
its sandbox is read-only besides: two locks, not one.
https://developers.openai.com/codex describes settings, hooks and the app server.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hive_core.agent.session.runtimes.cli_dialect import (
    CliDialect,
    CliPlace,
    CliTurn,
    mcp_server,
    served_names,
)

_SERVER: Final = "mcp__hive."  # its tools stand in a namespace
_HOOK_SECONDS: Final = 60  # more than the gate takes at most: a late hook denies nothing
# What it would do beside its turn, or with tools that no hook judges.
_OFF: Final = (
    "unified_exec", "unified_exec_tty", "multi_agent", "goals", "view_image", "image_generation",
    "apps", "plugins", "browser_use", "computer_use",
)  # fmt: skip
_HOME: Final = "codex"
# What it writes into its home; whatever else is there, settings above all, is not its user's.
_WRITTEN: Final = ("sessions", "log", "tmp", "db", "thread-writer-locks")
_WRITTEN_FILE: Final = "installation_id"


class CodexDialect(CliDialect):
    """Words and settings of Codex 0.169."""

    name = "codex"

    def tool_names(self, kinds: Mapping[str, str]) -> Mapping[str, str]:
        own = {tool: "exec_command" for tool in ("bash", "read") if tool in kinds}
        return {**served_names(kinds, _SERVER), **own}

    def is_known(self, home: Path, session: str) -> bool:
        return any(_folder(home).glob(f"sessions/*/*/*/rollout-*-{session}.jsonl"))

    def prepare(self, place: CliPlace) -> None:
        folder = _folder(place.home)
        for name in _WRITTEN:
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / _WRITTEN_FILE).touch(0o600)
        folder.chmod(0o755)
        if place.uid is not None:
            for name in (*_WRITTEN, _WRITTEN_FILE):
                os.chown(folder / name, place.uid, place.uid)

    def words(self, program: str, turn: CliTurn, place: CliPlace) -> list[str]:
        del turn, place
        off = [word for feature in _OFF for word in ("--disable", feature)]
        settings = ("check_for_update_on_startup=false", 'cli_auth_credentials_store="file"')
        return [program, "app-server", *off, *(word for row in settings for word in ("-c", row))]

    def environment(self, turn: CliTurn, place: CliPlace) -> Mapping[str, str]:
        del turn
        folder = _folder(place.home)
        return {
            "HIVE_KEY": "hive",  # hive-model puts the key in the place of this word
            "CODEX_HOME": str(folder), "CODEX_SQLITE_HOME": str(folder / "db"),
        }  # fmt: skip

    def thread(self, turn: CliTurn, place: CliPlace) -> Mapping[str, object]:
        """What a conversation is opened with; the MCP server of hive comes to it."""
        return {
            "cwd": str(place.workspace), "model": turn.model, "modelProvider": "hive",
            "approvalPolicy": "never", "developerInstructions": turn.system,
            "config": {
                "bypass_hook_trust": True, "web_search": "disabled",
                "model_providers": {"hive": _provider(turn)}, "hooks": _hooks(place),
                "projects": {str(place.workspace): {"trust_level": "untrusted"}},
            },
        }  # fmt: skip

    def server(self, place: CliPlace, environment: Mapping[str, str]) -> Mapping[str, object]:
        """The MCP server of hive; each of its calls is judged by the daemon."""
        program, words = mcp_server(place)
        return {
            "command": program, "args": words, "env": dict(environment), "required": True,
            "default_tools_approval_mode": "approve", "startup_timeout_sec": 60,
            "tool_timeout_sec": 600,
        }  # fmt: skip

    def sandbox(self, turn: CliTurn) -> Mapping[str, object]:
        """The sandbox of a turn: read-only while no tool may run; else only the container."""
        return {"type": "readOnly" if turn.locked or not turn.tools else "dangerFullAccess"}


def _folder(home: Path) -> Path:
    """The folder of Codex: beside the home, because the agent could replace a folder in it."""
    return home.parent / _HOME


def _provider(turn: CliTurn) -> Mapping[str, object]:
    headers = {"x-hive-task": turn.task} if turn.task else {}
    headers |= {"x-hive-hand-back": "1"} if turn.hands_back else {}
    return {
        "name": "hive", "base_url": f"{turn.url}/v1", "wire_api": "responses",
        "env_key": "HIVE_KEY", "request_max_retries": 0, "stream_max_retries": 0,
        "http_headers": headers,
    }  # fmt: skip


def _hooks(place: CliPlace) -> Mapping[str, object]:
    hooks: dict[str, object] = {}
    for event, words in (("PreToolUse", ("begin", "--silent")), ("PostToolUse", ("end",))):
        gate = shlex.join([*place.agent, "gate", *words])
        # Without a word on standard error Codex goes on.
        command = f"{gate} || {{ echo the hook of hive failed >&2; exit 2; }}"
        hook = {"type": "command", "command": command, "timeout": _HOOK_SECONDS}
        hooks[event] = [{"hooks": [hook]}]
    return hooks
