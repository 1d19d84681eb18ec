"""Codes of an app (TOTP, RFC 6238: SHA-1, 30 seconds, 6 digits), as all apps make them."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

STEP: Final = 30
_DIGITS: Final = 6
# Steps before and after now whose codes count, for a clock that is a little off.
_WINDOW: Final = 1


def totp_code(key: bytes, step: int) -> str:
    """The code of one step."""
    digest = hmac.new(key, step.to_bytes(8, "big"), hashlib.sha1).digest()
    at = digest[-1] & 15
    number = int.from_bytes(digest[at : at + 4], "big") & 0x7FFFFFFF
    return f"{number % 10**_DIGITS:0{_DIGITS}}"


def matching_step(key: bytes, code: str, now: float, last: int) -> int | None:
    """The step of a code; None where it is wrong, or not later than the last that counted."""
    middle = int(now) // STEP
    for step in range(middle - _WINDOW, middle + _WINDOW + 1):
        if step > last and hmac.compare_digest(totp_code(key, step).encode(), code.encode()):
            return step
    return None
