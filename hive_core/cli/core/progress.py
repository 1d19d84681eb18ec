"""The spinner: a line on standard error that shows what the command waits for, only on a terminal.

Other output gets its own lines: `clear_line` removes the spinner first, and it is drawn again
below.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_DELAY: Final = 0.3  # a shorter wait shows nothing
_FRAME: Final = 0.1
_CLEAR: Final = "\r\x1b[K"
_line: Final = threading.Lock()  # only one at a time: a wait within a wait shows nothing


class _Terminal:
    """Whether the spinner is on the last line, and the lock for writing there."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.drawn = False

    def draw(self, text: str) -> None:
        with self.lock:
            sys.stderr.write(_CLEAR + text)
            sys.stderr.flush()
            self.drawn = True

    def clear(self) -> None:
        with self.lock:
            if self.drawn:
                sys.stderr.write(_CLEAR)
                sys.stderr.flush()
                self.drawn = False


_terminal: Final = _Terminal()


@contextmanager
def clear_line() -> Iterator[None]:
    """Remove the spinner while the body prints."""
    with _terminal.lock:
        _terminal.clear()
        yield


def _spin(text: str, done: threading.Event, after: float) -> None:
    if done.wait(after):
        return
    for frame in itertools.cycle(_FRAMES):
        _terminal.draw(f"{frame} {text}")
        if done.wait(_FRAME):
            break
    _terminal.clear()


@contextmanager
def working(text: str, after: float = _DELAY) -> Iterator[None]:
    """Show `text` while the body runs, once it has run for `after` seconds."""
    if not sys.stderr.isatty() or not _line.acquire(blocking=False):
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_spin, args=(text, done, after), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        _line.release()
