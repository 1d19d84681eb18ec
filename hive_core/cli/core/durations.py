"""Durations as people read them. `hive top` loads this before its first screen, so it is small."""

from __future__ import annotations

from typing import Final

SECONDS: Final = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}
_SHORT: Final = 10  # seconds: a shorter duration has a digit after the point


def format_duration(seconds: float, parts: int = 2) -> str:
    """Write seconds as `1h30m`, with at most `parts` units; `parse_duration` reads it."""
    if seconds < 0:
        return f"-{format_duration(-seconds, parts)}"
    if 0 < seconds < _SHORT:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    left, words = round(seconds), list[str]()
    for unit, size in SECONDS.items():
        if unit == "w":  # weeks are read but not written: 10d is clearer than 1w3d
            continue
        number, left = divmod(left, size)
        if number or words:
            words.append(f"{number}{unit}" if number else "")
    return "".join(words[:parts]) or "0s"
