"""Parses an untrusted `agent.toml` into plain JSON values.

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
_NUMBER_MOST: Final = 1 << 53  # every reader of JSON supports integers up to this


def parse(data: bytes) -> dict[str, object]:
    """The tables of the file; ValueError with a one-line reason if it cannot be parsed.

    Dates become text. tomllib raises RecursionError for deep nesting, and Python raises ValueError
    for a long number.
    """
    if len(data) > BYTES_MOST:
        raise ValueError(f"larger than {BYTES_MOST} bytes")
    try:
        tables = tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    except ValueError as error:
        raise ValueError(" ".join(str(error).split())[:200]) from error
    return {key: _plain(value, key, 1) for key, value in tables.items()}


def _plain(value: object, where: str, depth: int) -> object:
    if depth > DEPTH_MOST:
        raise ValueError("nested too deep")
    match value:
        case dict():
            return {key: _plain(below, f"{where}.{key}", depth + 1) for key, below in value.items()}
        case list():
            return [_plain(item, where, depth + 1) for item in value]
        case date() | time():
            return value.isoformat()
        case int() if abs(value) > _NUMBER_MOST:
            raise ValueError(f"{where[:100]!r}: a number is too large")
        case float() if not math.isfinite(value):
            raise ValueError(f"{where[:100]!r}: a number is not finite")
    return value
