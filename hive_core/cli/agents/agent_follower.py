"""All agents as hived shows them, read in a thread of `hive top`.

In a file of its own: what it loads is enough to ask hived, which answers while the screen is
loaded.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Final

from hive_core.agent.output import plain
from hive_core.errors import HIVE, HiveError
from hive_core.varlink import Client, Message

_WATCH: Final = f"{HIVE}WatchAgents"
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0)
_READ: Final = 1024


class AgentFollower:
    """Follows `watch_agents` in a thread, over restarts of the daemon.

    `wake` is readable when a page or an error came. Further pages wait until the first one is
    `shown`: to read them would delay it, as of two threads one runs at a time.
    """

    def __init__(self, socket: str, every: float) -> None:
        self._socket, self._every = socket, every
        self._pages: deque[Message | str] = deque()
        self.wake, self._waker = os.pipe()
        self._cursor: object = None
        self._is_over = False
        self.shown = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._follow, daemon=True).start()

    def stop(self) -> None:
        """Forget the thread; it ends with the process."""
        self._is_over = True

    def note(self) -> None:
        """Make `wake` readable."""
        with suppress(BlockingIOError, OSError):
            os.write(self._waker, b".")

    def take(self) -> list[Message | str]:
        """Pages that came, and texts of errors."""
        os.read(self.wake, _READ)
        return [self._pages.popleft() for _ in range(len(self._pages))]

    def _follow(self) -> None:
        failures = 0
        while not self._is_over:
            try:
                with Client(self._socket, wait=None) as client:
                    for page in client.stream(_WATCH, self._params()):
                        failures, self._cursor = 0, page.get("next")
                        self._add(page)
                        self.shown.wait()
            except HiveError as error:
                self._add(plain(str(error)))
            time.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
            failures += 1

    def _params(self) -> Message:
        params: Message = {"every": self._every, "figures": True}
        return {**params, "after": self._cursor} if self._cursor else params

    def _add(self, page: Message | str) -> None:
        self._pages.append(page)
        self.note()
