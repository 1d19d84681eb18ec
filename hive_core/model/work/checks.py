"""Checks that the operator sets and the maid has done: the table `[maid]` of hive.toml."""

from __future__ import annotations

import json
from math import ceil
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field

from hive_core.model.agents.agent import Value
from hive_core.model.config.written_values import fault_at, split_command

MOST: Final = 16
# All of them go to the maid in one answer. What is longer is a script that the command names.
COMMAND_MOST: Final = 1024
DAY: Final = 86_400.0
# Each run makes an agent and takes it away again: two commits that stay in the history for ever.
RUNS_A_DAY: Final = 10_000


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


class MaidCheck(Value):
    """A command that the maid has run now and then, in a container of its own."""

    command: Annotated[
        tuple[str, ...], BeforeValidator(split_command), AfterValidator(_command)
    ] = Field(description="What it runs. It is good when that ends with 0 in time.")
    every: float = Field(
        300.0, ge=1, le=7 * 86_400, description="Seconds from the end of one to the next."
    )
    seconds: float = Field(30.0, ge=1, le=3600, description="Seconds that it may take.")


def _check_runs(checks: dict[CheckName, MaidCheck]) -> dict[CheckName, MaidCheck]:
    """However soon those who did them are forgotten."""
    if (runs := _count_runs(checks, DAY)) > RUNS_A_DAY:
        raise ValueError(f"would be {runs} runs a day with all of them, and {RUNS_A_DAY} may be")
    return checks


def _count_runs(checks: dict[CheckName, MaidCheck], seconds: float) -> int:
    """How many runs begin in this time at most."""
    return ceil(sum(seconds / each.every for each in checks.values()))


class MaidConfig(Value):
    """What the maid has checked beside its own looks."""

    checks: Annotated[dict[CheckName, MaidCheck], AfterValidator(_check_runs)] = Field(
        {}, max_length=MOST, description=f"Checks by name, at most {MOST}: a table for each."
    )

    def kept_agents(self, seconds: float) -> int:
        """How many of those who did a check are kept at once, each for so long."""
        return _count_runs(self.checks, seconds)

    def check_fit(self, most: int, seconds: float) -> None:
        """Who did a check is kept like everybody who was destroyed: no more than so many."""
        if (kept := self.kept_agents(seconds)) > most:
            raise fault_at(
                ("maid", "checks"),
                f"with all of them so often, {kept} agents that did one are kept for"
                f" retention.archive, and {most} may be: half of limits.agents",
            )
