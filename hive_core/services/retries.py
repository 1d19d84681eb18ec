"""When a receiver of HTTP is tried again."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Final

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 300.0
_DOUBLINGS: Final = 9


def pause_after(attempts: int) -> float:
    """1 s after the first attempt, twice as long after each next one, at most 5 min."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * float(1 << min(attempts, _DOUBLINGS)))


def retry_after(text: str | None, now: float) -> float:
    """Seconds of a header Retry-After: a number or a date; 0 where it says nothing.

    A receiver may write there whatever it wants.
    """
    if not text:
        return 0.0
    if text.strip().isdecimal():
        return float(text.strip()[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return 0.0
