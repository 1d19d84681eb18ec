"""What one task may use at most (row Q24). Its time is bounded by its deadlines."""

from __future__ import annotations

from pydantic import Field

from hive_core.model.agents.agent import Value
from hive_core.model.work.budget import AMOUNT_MOST


class TaskCapLimits(Value):
    """Bounds of one task; absent: none."""

    tokens: int | None = Field(None, ge=1, le=AMOUNT_MOST, description="Tokens, in and out.")
    cost: int | None = Field(
        None, ge=1, le=AMOUNT_MOST, description="Money, in millionths of the host's currency."
    )
    tool_calls: int | None = Field(None, ge=1, le=1_000_000, description="Tools that it may use.")
    iterations: int | None = Field(
        None, ge=1, le=1_000_000, description="Turns of its agent, as the agent reports them."
    )
