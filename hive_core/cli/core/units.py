"""Durations, sizes and times as users write and read them, the same in all commands."""

from __future__ import annotations

import re
import time
from typing import Final

from hive_core.cli.core.durations import SECONDS, format_duration
from hive_core.model.config.sizes import parse_percent, parse_size

__all__ = [
    "format_duration",
    "format_size",
    "format_time",
    "parse_duration",
    "parse_percent",
    "parse_size",
    "quantity",
]  # fmt: skip

_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([wdhms])", re.ASCII)
_NUMBER: Final = re.compile(r"\d{1,15}(?:\.\d+)?", re.ASCII)
_SUFFIXES: Final = ("", "K", "M", "G", "T")
_KIBI: Final = 1024


def parse_duration(text: str) -> float:
    """Read `90`, `90s`, `2h` or `1h30m` as seconds; raise ValueError for anything else."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text[:60]!r} is not a duration; write 90, 90s, 5m, 2h, 3d, 1w or 1h30m")
    return sum(float(number) * SECONDS[unit] for number, unit in parts)


def quantity(number: object, noun: str) -> str:
    """A number with its noun: `1 message`, `2 messages`."""
    return f"{number} {noun}" if str(number) == "1" else f"{number} {noun}s"


def format_size(number: int) -> str:
    """Write bytes as `512M` where that is exact, else with one digit after the point."""
    power = 0
    while power + 1 < len(_SUFFIXES) and abs(number) >= _KIBI ** (power + 1):
        power += 1
    whole, rest = divmod(number, _KIBI**power)
    return (
        f"{whole}{_SUFFIXES[power]}"
        if not rest
        else f"{number / _KIBI**power:.1f}{_SUFFIXES[power]}"
    )


def format_time(value: object, *, zone: bool = False) -> str:
    """Write seconds since 1970 as local time; `zone` names the time zone behind it."""
    if not isinstance(value, int | float):
        return "-"
    try:
        text = "%Y-%m-%d %H:%M:%S %Z" if zone else "%Y-%m-%d %H:%M:%S"
        return time.strftime(text, time.localtime(value))
    except (OverflowError, ValueError, OSError):  # in a year that the machine cannot format
        return f"{value:g}"


def time_zone() -> str:
    """Name the time zone in which times are printed now."""
    return time.strftime("%Z")
