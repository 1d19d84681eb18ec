"""Caps of one task (row Q24). Its deadlines bound its time."""

from __future__ import annotations

from pydantic import Field

from hive_core.model.agents.agent import Value
from hive_core.model.work.budget import AMOUNT_MOST


class TaskCapLimits(Value):
    """Caps of one task; absent: none."""

    tokens: int | None = Field(None, ge=1, le=AMOUNT_MOST, description="Tokens, in and out.")
    cost: int | None = Field(
        None, ge=1, le=AMOUNT_MOST, description="Money, in millionths of the host's currency."
    )
    tool_calls: int | None = Field(None, ge=1, le=1_000_000, description="Number of tool calls.")
    iterations: int | None = Field(
        None, ge=1, le=1_000_000, description="Number of turns of the agent, as it reports them."
    )
