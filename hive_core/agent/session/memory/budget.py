"""The tokens that recall and reflection may take in a day, beside the budget that pays for them."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_DAY = 86_400


class DailyTokens:
    """Counts in a file. A request is counted before it is made: a crash never gives tokens back."""

    def __init__(self, file: Path, most: int, clock: Callable[[], float] = time.time) -> None:
        self._file = file
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()

    def take(self, tokens: int) -> bool:
        """Count tokens, where the day has so many left. OSError: they cannot be counted."""
        with self._lock:
            tokens_today = self._tokens_today()
            if tokens_today + tokens > self._most:
                return False
            self._write(tokens_today + tokens)
            return True

    def settle(self, taken: int, used: int) -> None:
        """Count what a request used in place of what was taken for it.

        Where that cannot be written, what was taken stays counted.
        """
        with self._lock, suppress(OSError):
            self._write(max(0, self._tokens_today() - taken + used))

    def _day(self) -> int:
        return int(self._clock() // _DAY)

    def _tokens_today(self) -> int:
        try:
            row = json.loads(self._file.read_bytes())
            return int(row["tokens"]) if row["day"] == self._day() else 0
        except (OSError, ValueError, LookupError, TypeError):
            return 0

    def _write(self, tokens: int) -> None:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        spare = self._file.with_suffix(".new")
        with spare.open("w", encoding="utf-8") as file:
            json.dump({"day": self._day(), "tokens": tokens}, file)
            file.flush()
            os.fsync(file.fileno())
        spare.replace(self._file)
