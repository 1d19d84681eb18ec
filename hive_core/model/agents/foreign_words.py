"""Words of other programs in definitions of agents: their tools, models and fields.

Claude Code, Codex, opencode and Gemini have similar files with different words. What hive has too
is translated; for everything else this page has the reason that a person is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Their names, in lower case, of the tools that hive has under another name. `find_tool` knows more.
TOOL_NAMES: Final[Mapping[str, str]] = MappingProxyType({
    "apply_patch": "edit", "glob": "list", "grep_search": "search", "multiedit": "edit",
    "patch": "edit", "read_many_files": "read", "replace": "edit", "ripgrep": "search",
    "run_shell_command": "bash", "search_file_content": "search", "shell": "bash",
    "view": "read",
})  # fmt: skip
_NO_NETWORK: Final = "no tool of hive reads the network"
_BY_CAPABILITY: Final = "agents create agents by the capability spawn, no list of tools does"
_BY_TASKS: Final = "agents plan their tasks with the daemon, no list of tools restricts that"
_BY_MAIL: Final = "agents ask and answer by mail, no list of tools restricts that"
_BY_DAEMON: Final = "the daemon wakes agents, and lists and ends what they run"
_NO_SUCH: Final = "hive has no such tool"
MISSING_TOOLS: Final[Mapping[str, str]] = MappingProxyType({
    "agent": _BY_CAPABILITY, "task": _BY_CAPABILITY, "workflow": _BY_CAPABILITY,
    "askuserquestion": _BY_MAIL, "ask_user": _BY_MAIL, "question": _BY_MAIL,
    "sendmessage": _BY_MAIL,
    "bashoutput": _BY_DAEMON, "croncreate": _BY_DAEMON, "crondelete": _BY_DAEMON,
    "cronlist": _BY_DAEMON, "killbash": _BY_DAEMON, "killshell": _BY_DAEMON,
    "schedulewakeup": _BY_DAEMON, "taskoutput": _BY_DAEMON, "taskstop": _BY_DAEMON,
    "enterplanmode": _BY_TASKS, "exitplanmode": _BY_TASKS, "taskcreate": _BY_TASKS,
    "taskget": _BY_TASKS, "tasklist": _BY_TASKS, "taskupdate": _BY_TASKS,
    "todoread": _BY_TASKS, "todowrite": _BY_TASKS, "write_todos": _BY_TASKS,
    "google_web_search": _NO_NETWORK, "web_fetch": _NO_NETWORK, "webfetch": _NO_NETWORK,
    "web_search": _NO_NETWORK, "websearch": _NO_NETWORK,
    "doom_loop": "a session notices turns that go in circles",
    "external_directory": "paths of tools are below the workspace",
    "codesearch": _NO_SUCH, "lsp": _NO_SUCH, "notebookedit": _NO_SUCH, "notebookread": _NO_SUCH,
    "skill": "the tool read_skill is not on lists of tools; every agent with skills has it",
    "slashcommand": _NO_SUCH, "toolsearch": _NO_SUCH,
})  # fmt: skip
MCP_PREFIX: Final = "mcp_"

# Fields that hive does not have, and where it has the same thing instead.
MISSING_FIELDS: Final[Mapping[str, str]] = MappingProxyType({
    "background": "every agent of hive runs by itself",
    "color": "hive shows no colours of agents",
    "developer_instructions": "the text of the file is for the agent",
    "disable": "a definition that is loaded can be used; remove it with hive definition rm",
    "effort": "models.toml says how a model is called",
    "hidden": "every agent can read every definition",
    "hooks": "hooks are programs of Claude Code; grants and plans decide before each tool",
    "initialPrompt": "assign a task instead",
    "isolation": "every agent of hive has a container and a workspace of its own",
    "mcp_servers": "an agent's servers stand in [mcp.NAME] of its agent.toml",
    "mcpServers": "an agent's servers stand in [mcp.NAME] of its agent.toml",
    "memory": "what an agent of hive is to remember stands in its state and its artifacts",
    "mode": "place and role say who works with an agent",
    "model_reasoning_effort": "models.toml says how a model is called",
    "nickname_candidates": "an agent has one name",
    "skills": "an agent's skills stand in the folder skills of its configuration",
    "temperature": "models.toml says how a model is called",
    "timeout_mins": "a task has a deadline instead",
    "top_p": "models.toml says how a model is called",
    "topP": "models.toml says how a model is called",
    "display_name": "name is the only name; hive.title is free text",
    "displayName": "name is the only name; hive.title is free text",
})  # fmt: skip
# Names of models that other programs have built in.
_MODEL_WORDS: Final = frozenset({
    "best", "default", "fable", "haiku", "opus", "opusplan", "sonnet",
})  # fmt: skip
_MODEL_BEGINNINGS: Final = ("claude-", "gemini-", "gpt-", "o1", "o3", "o4")


def is_foreign_model(name: str) -> bool:
    """Whether another program would know this model: `sonnet`, `gpt-5`, `anthropic/claude-x`."""
    base = name.lower().partition("[")[0]
    return base in _MODEL_WORDS or base.startswith(_MODEL_BEGINNINGS) or "/" in base
