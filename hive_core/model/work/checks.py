"""Checks that the operator sets and the maid runs: the table `[maid]` of hive.toml."""

from __future__ import annotations

import json
from math import ceil
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field

from hive_core.model.agents.agent import Value
from hive_core.model.config.written_values import fault_at, split_command

MOST: Final = 16
# The maid gets all of them in one reply. A longer command belongs into a script.
COMMAND_MOST: Final = 1024
DAY: Final = 86_400.0
# Each run creates and destroys an agent: two commits that stay in the history for ever.
RUNS_A_DAY: Final = 10_000


def _command(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words or not words[0]:
        raise ValueError("must start with a program")
    if any("\0" in word for word in words):
        raise ValueError("must not contain NUL")
    if len(json.dumps(words)) > COMMAND_MOST:
        raise ValueError(f"is longer than {COMMAND_MOST} bytes")
    return words


# The name of the agent of a run is that of the check with four digits.
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
    """Refuse checks that would make too many commits a day."""
    if (runs := _count_runs(checks, DAY)) > RUNS_A_DAY:
        raise ValueError(f"would be {runs} runs a day with all of them, and {RUNS_A_DAY} may be")
    return checks


def _count_runs(checks: dict[CheckName, MaidCheck], seconds: float) -> int:
    """The largest number of runs that begin in this time."""
    return ceil(sum(seconds / check.every for check in checks.values()))


class MaidConfig(Value):
    """What the maid has checked beside its own looks."""

    checks: Annotated[dict[CheckName, MaidCheck], AfterValidator(_check_runs)] = Field(
        {}, max_length=MOST, description=f"Checks by name, at most {MOST}: a table for each."
    )

    def kept_agents(self, seconds: float) -> int:
        """How many destroyed agents of checks are kept at once, each for so long."""
        return _count_runs(self.checks, seconds)

    def check_fit(self, most: int, seconds: float) -> None:
        """Refuse checks whose destroyed agents, which are kept, would fill the archive."""
        if (agents := self.kept_agents(seconds)) > most:
            raise fault_at(
                ("maid", "checks"),
                f"with all of them so often, {agents} agents that did one are kept for"
                f" retention.archive, and {most} may be: half of limits.agents",
            )
