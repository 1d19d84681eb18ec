"""Sizes and shares as people write them: `512M`, `50%`."""

from __future__ import annotations

import re
from typing import Final

_SUFFIX: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_PERCENT: Final = re.compile(r"(\d{1,9})\s*%?", re.ASCII)
_SIZE: Final = re.compile(r"(\d{1,18})\s*([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)


def parse_percent(text: str) -> int:
    """A share of one processor in percent, `50` or `50%`; ValueError for other texts."""
    match = _PERCENT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:60]!r} is not a share of a processor; write 50 or 50%")
    return int(match[1])


def parse_size(text: str) -> int:
    """A number of bytes, with K, M, G or T for powers of 1024; ValueError for other texts."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:60]!r} is not a size; write 512M, 2G or a number of bytes")
    return int(match[1]) * _SUFFIX[match[2].upper()]
