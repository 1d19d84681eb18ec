"""opencode as a runtime: `opencode acp`, which asks before each use of a tool.

`opencode run` can only allow or deny a kind of tool for a whole turn, and starts anew for each one.
Over ACP each use is judged, and a process goes on from turn to turn. Its settings are an
environment variable; no file of the home or the workspace adds to them.
https://opencode.ai/docs/config and https://opencode.ai/docs/acp describe it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from typing import Final

from hive_core.agent.session.runtimes.cli_dialect import AcpDialect, CliPlace, CliTurn, served_names

_SERVER: Final = "hive_"
# Its permissions, by the tools of execution that stand for them.
_TOOLS: Final[Mapping[str, str]] = {
    "bash": "bash", "edit": "edit", "list": "glob", "read": "read", "search": "grep",
}  # fmt: skip
# Milliseconds that a call over MCP may take, such as one that runs a sub-agent; else half a minute.
_SERVER_WAIT: Final = 600_000
_NEEDS_RIPGREP: Final = ("list", "search")
_LOCKED: Final = ("bash", "edit")
_NO_SETTINGS: Final = "no-settings"  # of its package: without the folder it does not start
_MODEL_PACKAGE: Final = "@ai-sdk/openai-compatible"  # inside the program


class OpencodeDialect(AcpDialect):
    """Words and settings of opencode 1.18."""

    name = "opencode"
    harmless = frozenset({"invalid"})  # the answer to a call of a tool that there is not

    def tool_names(self, kinds: Mapping[str, str]) -> Mapping[str, str]:
        return {
            **served_names(kinds, _SERVER),
            **{tool: _TOOLS[tool] for tool in _own_tools(kinds)},
        }

    def words(self, program: str, turn: CliTurn, place: CliPlace) -> list[str]:
        del turn
        return [program, "acp", "--pure", "--cwd", str(place.workspace)]

    def environment(self, turn: CliTurn, place: CliPlace) -> Mapping[str, str]:
        home, nothing = place.home, str(place.folder / _NO_SETTINGS)
        return {
            "OPENCODE_CONFIG_CONTENT": json.dumps(_settings(turn)),
            "OPENCODE_PERMISSION": json.dumps(_permissions(turn)),
            # Settings and plugins of these places would add to those above.
            "XDG_CONFIG_HOME": nothing, "OPENCODE_TEST_HOME": nothing, "OPENCODE_PURE": "1",
            "XDG_DATA_HOME": str(home / ".local/share"), "XDG_CACHE_HOME": str(home / ".cache"),
            "XDG_STATE_HOME": str(home / ".local/state"),
            **{f"OPENCODE_DISABLE_{name}": "1" for name in _OFF},
        }  # fmt: skip


# What it would read, fetch or start besides.
_OFF: Final = (
    "PROJECT_CONFIG", "EXTERNAL_SKILLS", "CLAUDE_CODE", "DEFAULT_PLUGINS", "AUTOUPDATE",
    "MODELS_FETCH", "LSP_DOWNLOAD", "SHARE", "TERMINAL_TITLE", "EMBEDDED_WEB_UI",
)  # fmt: skip


def _own_tools(kinds: Mapping[str, str]) -> list[str]:
    has_ripgrep = shutil.which("rg") is not None
    return [
        tool for tool in _TOOLS if tool in kinds and (has_ripgrep or tool not in _NEEDS_RIPGREP)
    ]


def _permissions(turn: CliTurn) -> Mapping[str, str]:
    """Each use is asked about. What may not run at the beginning of the turn is not offered."""
    own = [tool for tool in _own_tools(turn.tools) if not (turn.locked and tool in _LOCKED)]
    asked = {_TOOLS[tool]: "ask" for tool in own}
    served = {f"{_SERVER}*": "allow"} if turn.tools else {}
    return {"*": "deny", **served, **asked, "external_directory": "ask" if own else "deny"}


def _settings(turn: CliTurn) -> Mapping[str, object]:
    model = f"hive/{turn.model}"
    headers = {"x-hive-task": turn.task} if turn.task else {}
    headers |= {"x-hive-hand-back": "1"} if turn.hands_back else {}
    size = {"limit": {"context": turn.context, "output": turn.max_output}}
    provider = {
        "npm": _MODEL_PACKAGE, "name": "hive",
        "options": {"baseURL": f"{turn.url}/v1", "apiKey": "hive", "headers": headers},
        "models": {turn.model: {"name": turn.model, **(size if turn.max_output else {})}},
    }  # fmt: skip
    agent = {"mode": "primary", "prompt": turn.system, "permission": _permissions(turn)}
    return {
        "model": model, "small_model": model, "enabled_providers": ["hive"],
        "provider": {"hive": provider}, "default_agent": "hive",
        "agent": {"hive": agent, "title": {"disable": True}},
        "permission": _permissions(turn), "share": "disabled", "autoupdate": False,
        "experimental": {"mcp_timeout": _SERVER_WAIT},
        "snapshot": False, "lsp": False, "formatter": False, "mcp": {}, "plugin": [],
    }  # fmt: skip
