"""The spinner: a line on standard error that says what the command waits for, on a terminal only.

Whatever else is printed meanwhile stands in a line of its own: `clear_line` takes the spinner away
first, and it is drawn again below.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_DELAY: Final = 0.3  # what is done sooner needs no words
_FRAME: Final = 0.1
_CLEAR: Final = "\r\x1b[K"
_line: Final = threading.Lock()  # there is one: a wait within a wait shows nothing


class _Terminal:
    """Whether the spinner stands in the last line, and the lock of those that write there."""

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
    """Take the spinner away while the body prints."""
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
