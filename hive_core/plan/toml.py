"""`agent.toml` as plain JSON values, whatever somebody wrote there.

Standard library only: jobs import this file.
"""

from __future__ import annotations

import math
import tomllib
from datetime import date, time
from typing import Final

FILE: Final = "agent.toml"
BYTES_MOST: Final = 64 << 10
DEPTH_MOST: Final = 16
_NUMBER_MOST: Final = 1 << 53  # what every reader of JSON agrees on


def parse(data: bytes) -> dict[str, object]:
    """The tables of the file; ValueError says in one line why there are none.

    Dates become text. Deep nesting ends tomllib with a RecursionError, a long number with a
    ValueError of Python's own.
    """
    if len(data) > BYTES_MOST:
        raise ValueError(f"larger than {BYTES_MOST} bytes")
    try:
        found = tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    except ValueError as error:
        raise ValueError(" ".join(str(error).split())[:200]) from error
    return {key: _plain(value, key, 1) for key, value in found.items()}


def _plain(value: object, where: str, depth: int) -> object:
    if depth > DEPTH_MOST:
        raise ValueError("nested too deep")
    match value:
        case dict():
            return {key: _plain(below, f"{where}.{key}", depth + 1) for key, below in value.items()}
        case list():
            return [_plain(each, where, depth + 1) for each in value]
        case date() | time():
            return value.isoformat()
        case int() if abs(value) > _NUMBER_MOST:
            raise ValueError(f"{where[:100]!r}: a number is too large")
        case float() if not math.isfinite(value):
            raise ValueError(f"{where[:100]!r}: a number is not finite")
    return value
