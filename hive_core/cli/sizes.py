"""Bounds as people write them: `memory_max=512M`."""

from __future__ import annotations

import re
from typing import Final

import click

_SUFFIX: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE: Final = re.compile(r"(\d+)([KMGT]?)%?", re.IGNORECASE)


def size(text: str) -> int:
    """A number, with K, M, G or T for powers of 1024."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise click.UsageError(f"{text!r} is no size: write 512M or 200")
    return int(found[1]) * _SUFFIX[found[2].upper()]


def limits(pairs: object) -> dict[str, int]:
    """`KEY=VALUE` words as the operation takes them."""
    bounds = {}
    for pair in pairs if isinstance(pairs, tuple) else ():
        key, equals, value = str(pair).partition("=")
        if not equals:
            raise click.UsageError(f"{pair!r} is no bound: write KEY=VALUE, as memory_max=512M")
        bounds[key.strip()] = size(value)
    return bounds
