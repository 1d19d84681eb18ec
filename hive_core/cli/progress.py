"""A line on standard error that says what is waited for; only on a terminal, gone at the end."""

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
_line: Final = threading.Lock()  # there is one: who waits within a wait says nothing


def _spin(text: str, done: threading.Event, after: float) -> None:
    if done.wait(after):
        return
    for frame in itertools.cycle(_FRAMES):
        sys.stderr.write(f"{_CLEAR}{frame} {text}")
        sys.stderr.flush()
        if done.wait(_FRAME):
            break
    sys.stderr.write(_CLEAR)
    sys.stderr.flush()


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
