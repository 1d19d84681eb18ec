"""Where a program of the agent finds the tools that its session runs itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

LIST: Final = "list_server_tools"
CALL: Final = "call_server_tool"
SOCKET_NAME: Final = "servers.sock"
ANSWER_SECONDS: Final = 580.0  # more than a call or a sub-agent may take


def socket_path() -> Path | None:
    """The socket of the session, beside the file with its message; None: it has none."""
    file = os.environ.get("HIVE_MESSAGE_FILE")
    path = Path(file).with_name(SOCKET_NAME) if file else None
    return path if path is not None and path.exists() else None
