"""The text of a running turn for those who watch it: at most four times a second."""

from __future__ import annotations

import time
from typing import Final

from hive_core.agent.reconnect import Link
from hive_core.errors import HiveError

_PAUSE: Final = 0.25
_TEXT_MOST: Final = 16 * 1024
_PENDING_MOST: Final = 64 * 1024


class LiveText:
    """Sends new text of a turn, and waits for no answer; what cannot be sent is dropped.

    Without a link nothing is sent.
    """

    def __init__(self, link: Link | None, conversation: str) -> None:
        self._link = link
        self._conversation = conversation
        self._pending = ""
        self._sent = 0.0

    def add(self, turn: int, text: str) -> None:
        """Add text, and send what is there when it is time."""
        self._pending = (self._pending + text)[-_PENDING_MOST:]
        if time.monotonic() - self._sent >= _PAUSE:
            self.flush(turn)

    def flush(self, turn: int) -> None:
        """Send what is there."""
        if not self._pending:
            return
        if self._link is None:
            self._pending = ""
            return
        self._sent = time.monotonic()
        part = self._pending.encode(errors="replace")[:_TEXT_MOST].decode(errors="ignore")
        try:
            self._link.tell("stream_turn", conversation=self._conversation, turn=turn, text=part)
        except HiveError:
            self._link.close()  # the text stays in the log
        self._pending = self._pending[len(part) :]
