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


def _spin(text: str, done: threading.Event) -> None:
    if done.wait(_DELAY):
        return
    for frame in itertools.cycle(_FRAMES):
        sys.stderr.write(f"{_CLEAR}{frame} {text}")
        sys.stderr.flush()
        if done.wait(_FRAME):
            break
    sys.stderr.write(_CLEAR)
    sys.stderr.flush()


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show `text` while the body runs."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_spin, args=(text, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
