"""`hive-agent mcp`: become the MCP server of this agent, for a CLI in its container."""

from __future__ import annotations

import os
from typing import Final, Never

from hive_core.agent.session.runtimes.builtin import RuntimeCommand, runtime_folder

_MODULE: Final = "hive_core.runtime.mcp"
_KEPT: Final = ("HIVE_NAME", "HIVE_MESSAGE_ID", "HIVE_MESSAGE_FILE", "HOME")


def run_mcp(path: str) -> Never:
    """Replace this process by the server, which speaks on standard input and output."""
    own = {name: value for name in _KEPT if (value := os.environ.get(name))}
    # A CLI starts it in a workspace, whose files must not be taken for modules.
    runtime = RuntimeCommand(
        folder=runtime_folder(),
        environment={**own, "HIVE_SOCKET": path, "PYTHONSAFEPATH": "1"},
    )
    runtime.check()
    words = runtime.words(_MODULE)
    os.execve(words[0], words, runtime.variables)  # noqa: S606
