"""What hive-otel knows between two events: its place in the log, and what has begun."""

from __future__ import annotations

from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict

from hive_core.otel.spans import Attribute, Span

OPEN_MOST: Final = 10_000
WAITING_MOST: Final = 4_096
_T = TypeVar("_T")


class OpenSpan(BaseModel):
    """A span that has begun. `text`: what agents wrote about it, for spans with texts."""

    model_config = ConfigDict(extra="forbid")

    name: str
    trace: str
    id: str
    parent: str = ""
    start: float
    agent: str = ""
    attributes: dict[str, Attribute] = {}

    def close(self, end: float, error: str = "", *, ok: bool = False) -> Span:
        return Span(
            name=self.name, trace=self.trace, id=self.id, parent=self.parent, start=self.start,
            end=end, attributes=self.attributes, error=error, ok=ok,
        )  # fmt: skip


class OpenTask(BaseModel):
    """A task that has not ended; of its present attempt, what has begun."""

    model_config = ConfigDict(extra="forbid")

    trace: str
    title: str = ""
    parent: str = ""
    attempt: int = 1
    work: OpenSpan | None = None
    plan: OpenSpan | None = None


class WaitingSpan(BaseModel):
    """A span that has ended, and waits for the turn of its agent that it was a part of."""

    model_config = ConfigDict(extra="forbid")

    agent: str
    span: Span


class OtelState(BaseModel):
    """All that outlives the program. The log itself is the queue: `cursor` is what was sent."""

    model_config = ConfigDict(extra="forbid")

    cursor: str | None = None
    tasks: dict[str, OpenTask] = {}
    tools: dict[str, OpenSpan] = {}
    waiting: list[WaitingSpan] = []
    # Agents whose brain has recorded no turn so far: their spans do not wait for one.
    without_turns: dict[str, bool] = {}


def keep_bounded(values: dict[str, _T], key: str, value: _T) -> None:
    """Add a value, in place of the oldest one where there are too many."""
    values[key] = value
    while len(values) > OPEN_MOST:
        del values[next(iter(values))]
