"""Tokens and money that agents used lately, from events: each call of a model, each report. Pure.

Budgets know how much is left. When it will be gone follows from what the last hour took.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from typing_extensions import override

from hive_core.web.event_history import Event, EventHistory, event_seq

HOUR: Final = 3600.0
# Kinds of events that tell of a use.
EVENT_KINDS: Final = ("model", "record")
# The points of a burn-down, five minutes apart.
_POINTS: Final = 13


class Use(NamedTuple):
    """`money` is in millionths. `is_measured`: a call of a model, and not a report of the agent."""

    seq: int
    time: float
    agent: str
    model: str
    tokens_in: int
    tokens_out: int
    money: int
    is_measured: bool

    def amount(self, kind: str) -> int:
        """What it takes from a budget of this kind."""
        return self.money if kind == "money" else self.tokens_in + self.tokens_out


@dataclass(slots=True)
class Spending(EventHistory[Use]):
    """The newest uses."""

    @override
    def read(self, event: Event) -> Iterator[Use]:
        is_model = event.get("kind") == "model"
        if is_model or event.get("operation") == "report_usage":
            fields = event.get("fields")
            values = fields if isinstance(fields, dict) else {}
            yield Use(
                event_seq(event), _number(event, "time"), str(event.get("caller_uuid")),
                str(values.get("alias") or values.get("model") or ""),
                int(_number(values, "tokens_in")), int(_number(values, "tokens_out")),
                int(_number(values, "cost")), is_model,
            )  # fmt: skip

    @override
    def reaches(self, start: float) -> bool:
        """A use is one event, so an older event of any kind is enough."""
        if self.first_time is not None and self.first_time < start:
            return True
        return EventHistory.reaches(self, start)

    def calls_of(self, agent: str, start: float, end: float) -> list[Use]:
        """The calls of models of an agent after `start`, until `end`."""
        return [
            use for use in self.facts
            if use.is_measured and use.agent == agent and start < use.time <= end
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class BurnDown:
    """What was left of a budget in the last hour, the oldest first, and when none will be left.

    `empty` None: nothing was used in this hour.
    """

    points: Sequence[int]
    used: int
    empty: float | None


def burn_down(
    uses: Iterable[Use], agents: Collection[str], kind: str, left: int, now: float
) -> BurnDown:
    """The last hour of a budget that these agents draw on."""
    start = now - HOUR
    own = [
        (use.time, use.amount(kind)) for use in uses
        if use.agent in agents and start < use.time <= now
    ]  # fmt: skip
    used = sum(amount for _, amount in own)
    step = HOUR / (_POINTS - 1)
    points = [
        left + sum(amount for time, amount in own if time > start + at * step)
        for at in range(_POINTS)
    ]
    return BurnDown(points, used, now + left / used * HOUR if used else None)


def _number(values: Mapping[str, object], key: str) -> float:
    value = values.get(key)
    return value if isinstance(value, int | float) else 0
