"""Parameters that several operations share, so that one word means one thing."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, AliasChoices, Field

from hive_core.broker.operation import Mutation

WAIT_MOST: Final = 50.0

# A call with an impossible name gets the answer for an agent that does not exist.
Agent = Annotated[str, Field(max_length=64)]
Reason = Annotated[str, Field(max_length=1000)]


class WaitParams(Mutation):
    """Parameters of an operation with a job: it replies at once, or after the job."""

    wait: float = Field(
        0.0, ge=0, le=WAIT_MOST,
        description="Seconds to wait for the effect before the reply; 0 replies at once.",
    )  # fmt: skip


def also(name: str, *others: str) -> AliasChoices:
    """A parameter with aliases that older clients use."""
    return AliasChoices(name, *others)


def bounded_text(limit: int) -> AfterValidator:
    """Text of at most `limit` bytes in UTF-8."""

    def check(text: str) -> str:
        if len(text) * 4 > limit and len(text.encode()) > limit:
            raise ValueError(f"is longer than {limit} bytes")
        return text

    return AfterValidator(check)
