"""The message in whose turn a program of the agent runs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def current_message() -> str:
    """The id of that message; empty: none. A file has it where a program outlives a turn."""
    file = os.environ.get("HIVE_MESSAGE_FILE")
    if file:
        with suppress(OSError, ValueError):
            return Path(file).read_text("utf-8").strip()
    return os.environ.get("HIVE_MESSAGE_ID", "")
