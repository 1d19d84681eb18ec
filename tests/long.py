"""How much of it: the size of a test, its seed, and the figures that it leaves behind.

Two markers say where a test runs. One that is marked `sized` runs in the default suite with its
short size and under `scripts/test --long` with its long one; one that is marked `long` exists in
the long form only.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Asked:
    """The options of the command line (tests/conftest.py), and the figures measured so far."""

    chosen: bool = False
    seed: int | None = None
    minutes: float | None = None
    file: Path | None = None
    figures: list[dict[str, object]] = field(default_factory=list)


asked = Asked()


def times(short: int, long: int) -> int:
    """The one number in the default suite, the other under `--long`."""
    return long if asked.chosen else short


def seconds(short: float, minutes: float) -> float:
    """The length of a soak: `--minutes` says another one for the long form."""
    return (asked.minutes or minutes) * 60 if asked.chosen else short


def at_most(seconds: float, slack: float = 15) -> float:
    """How long something may take: as said under `--long`, where nothing else goes on.

    The default suite runs on slow machines beside whatever else they do: there only what hangs, or
    takes another order of time, is a finding. Processor time needs no slack.
    """
    return seconds if asked.chosen else 4 * seconds + slack


def seed() -> int:
    """A new one each time, or the one of `--seed`: the same seed makes the same schedule."""
    return secrets.randbelow(1 << 32) if asked.seed is None else asked.seed


def figure(name: str, **values: object) -> None:
    """Keep what was measured: for the summary of the run, and for the file of `--figures`."""
    row = {"name": name, **values}
    asked.figures.append(row)
    if asked.file is not None:
        with asked.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
