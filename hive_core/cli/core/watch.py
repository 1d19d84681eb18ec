"""A screen that is refreshed every few seconds, for `-w`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Final

import click

from hive_core.cli.core.output import echo

INTERVAL: Final = 2.0
_HOME: Final = "\x1b[H\x1b[2J"

watch_option: Final = click.option(
    "-w", "--watch", is_flag=True, help="Refresh every 2 seconds until Ctrl-C."
)


def redraw(
    draw: Callable[[], Iterable[str]], pause: Callable[[float], object] = time.sleep
) -> None:
    """Print the lines of `draw` repeatedly; on a terminal they replace the previous lines."""
    try:
        while True:
            lines = list(draw())
            if sys.stdout.isatty():
                lines = lines[: _rows() - 1]
                click.echo(_HOME, nl=False)
            for line in lines:
                echo(line)
            sys.stdout.flush()
            pause(INTERVAL)
    except KeyboardInterrupt:
        return


def _rows() -> int:
    from shutil import get_terminal_size  # noqa: PLC0415 - slow to load

    return max(get_terminal_size((80, 24)).lines, 2)
