"""Bounds as people write them on a command line: `memory_max=512M`."""

from __future__ import annotations

import click

from hive_core.model.config.sizes import parse_size


def limits(pairs: object) -> dict[str, int]:
    """`KEY=VALUE` words as the operation takes them."""
    bounds = {}
    for pair in pairs if isinstance(pairs, tuple) else ():
        key, equals, value = str(pair).partition("=")
        if not equals:
            raise click.UsageError(f"{pair!r} is no bound: write KEY=VALUE, as memory_max=512M")
        try:
            bounds[key.strip()] = parse_size(value)
        except ValueError as error:
            raise click.UsageError(f"{key.strip()}: {error}") from error
    return bounds
