"""What agents ask those above them, what they escalate, and what they want to be reminded of.

An escalation is a question of one item that climbs by itself: both are asked by one agent, wait on
one party at a time, and end once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from hive_core.model.states import StateMachine, Transition


class QuestionKind(StrEnum):
    """Which of the two it is."""

    QUESTION = "question"
    ESCALATION = "escalation"


class Severity(StrEnum):
    """How bad it is what is escalated."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


# Priority of the mail, by severity.
MAIL_PRIORITY: Final[Mapping[Severity, int]] = MappingProxyType(
    {Severity.CRITICAL: 0, Severity.ERROR: 1, Severity.WARNING: 2, Severity.INFO: 3}
)


class QuestionState(StrEnum):
    OPEN = "open"
    ANSWERED = "answered"
    DEFAULTED = "defaulted"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


_S = QuestionState
FINALS: Final = frozenset({_S.ANSWERED, _S.DEFAULTED, _S.EXPIRED, _S.CANCELLED})
COURSE: Final = StateMachine(
    noun="question",
    start=_S.OPEN,
    finals=FINALS,
    transitions=(
        Transition(_S.OPEN, "answer", _S.ANSWERED, "whom it was asked", "the first answer counts"),
        Transition(
            _S.OPEN, "default", _S.DEFAULTED, "the clock", "nobody answered, each item says what"
        ),
        Transition(_S.OPEN, "expire", _S.EXPIRED, "the clock", "nobody answered in time"),
        Transition(_S.OPEN, "cancel", _S.CANCELLED, "the asker or an ancestor", "it is not wanted"),
    ),
)


class HopReason(StrEnum):
    """Why a question came to wait on somebody."""

    ASKED = "asked"
    RELAYED = "relayed"  # who had it passed it on
    CLIMBED = "climbed"  # nobody answered for too long
    PASSED = "passed"  # who had it is gone, or not above the asker any more


class QuestionItem(NamedTuple):
    """One thing that is asked. Free text is always an answer, also where there are options."""

    prompt: str
    options: tuple[str, ...] = ()
    default: str | None = None


class Hop(NamedTuple):
    """Whom it came to wait on, when, from whom (who asked, or who had it before) and why.

    `letter`: the mail that told so.
    """

    holder: str
    at: float
    by: str
    why: HopReason
    letter: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One row. Parties are UUID texts, or `operator`; times are seconds since 1970.

    `holder`: on whom it waits. `answers`: one an item; None for what was not answered. `task`: what
    waits for it. `climbs`: when it goes a level up by itself. `reason`: why it ended.
    """

    id: str
    kind: QuestionKind
    asker: str
    holder: str
    items: tuple[QuestionItem, ...]
    state: QuestionState
    asked: float
    context: str = ""
    severity: str = ""
    task: str = ""
    deadline: float | None = None
    climbs: float | None = None
    answers: tuple[str | None, ...] = ()
    answered_by: str = ""
    ended: float | None = None
    reason: str = ""

    @property
    def open(self) -> bool:
        return self.state not in FINALS

    @property
    def defaults(self) -> tuple[str | None, ...]:
        """What counts when nobody answers."""
        return tuple(item.default for item in self.items)


@dataclass(frozen=True, slots=True)
class Reminder:
    """A message that comes later. `relative`: asked for in seconds, not for a time of day."""

    id: str
    owner: str
    setter: str
    body: str
    due: float
    relative: bool
    made: float
