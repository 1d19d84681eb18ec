"""Checks that the operator sets and the maid has done: the table `[maid]` of hive.toml."""

from __future__ import annotations

import json
from math import ceil
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from hive_core.model.agent import Value

MOST: Final = 16
# All of them go to the maid in one answer. What is longer is a script that the command names.
COMMAND_MOST: Final = 1024


def _command(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words or not words[0]:
        raise ValueError("must start with a program")
    if any("\0" in word for word in words):
        raise ValueError("must not contain NUL")
    if len(json.dumps(words)) > COMMAND_MOST:
        raise ValueError(f"is longer than {COMMAND_MOST} bytes")
    return words


# Each run is an agent whose name holds that of the check, and four digits.
CheckName = Annotated[str, Field(pattern=r"^[a-z](-?[a-z0-9])*$", max_length=20)]


class Check(Value):
    """A command that the maid has run now and then, in a container of its own."""

    command: Annotated[tuple[str, ...], AfterValidator(_command)] = Field(
        description="What it runs. It is good when that ends with 0 in time."
    )
    every: float = Field(
        300.0, ge=1, le=7 * 86_400, description="Seconds from the end of one to the next."
    )
    seconds: float = Field(30.0, ge=1, le=3600, description="Seconds that it may take.")


class Maid(Value):
    """What the maid has checked beside its own looks."""

    checks: dict[CheckName, Check] = Field(
        {}, max_length=MOST, description=f"Checks by name, at most {MOST}: a table for each."
    )

    def kept(self, seconds: float) -> int:
        """How many of those who did a check are kept at once, each for so long."""
        return ceil(sum(seconds / each.every for each in self.checks.values()))
