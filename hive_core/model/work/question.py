"""Questions and escalations of agents to their ancestors, and reminders.

An escalation is a question with one item that climbs by itself. One agent asks, one party at a time
holds the question, and it ends once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from hive_core.model.states import StateMachine, Transition


class QuestionKind(StrEnum):
    """Question or escalation."""

    QUESTION = "question"
    ESCALATION = "escalation"


class Severity(StrEnum):
    """Severity of an escalation."""

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
        Transition(_S.OPEN, "answer", _S.ANSWERED, "the holder", "the first answer counts"),
        Transition(
            _S.OPEN,
            "default",
            _S.DEFAULTED,
            "the clock",
            "no answer came, and each item has a default",
        ),
        Transition(_S.OPEN, "expire", _S.EXPIRED, "the clock", "no answer came in time"),
        Transition(_S.OPEN, "cancel", _S.CANCELLED, "the asker or an ancestor", "it is not wanted"),
    ),
)


class HopReason(StrEnum):
    """Why a question came to its holder."""

    ASKED = "asked"
    RELAYED = "relayed"  # the holder before passed it on
    CLIMBED = "climbed"  # no answer came for too long
    PASSED = "passed"  # the previous holder was destroyed, or is no longer above the asker


class QuestionItem(NamedTuple):
    """One item of a question. Free text is always a valid answer, also beside options."""

    prompt: str
    options: tuple[str, ...] = ()
    default: str | None = None


class Hop(NamedTuple):
    """One holder of a question, since when, from whom (the asker or the holder before) and why.

    `letter`: the message that told the holder.
    """

    holder: str
    at: float
    by: str
    why: HopReason
    letter: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One row. Parties are UUID texts, or `operator`; times are seconds since 1970.

    `holder`: the party that has to answer. `answers`: one for each item; None: not answered.
    `task`: the task that waits for it. `climbs`: when it goes a level up. `reason`: why it ended.
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
        """The default of each item, which counts when no answer comes."""
        return tuple(item.default for item in self.items)


@dataclass(frozen=True, slots=True)
class Reminder:
    """A message that comes later. `relative`: set in seconds, not for a time of day."""

    id: str
    owner: str
    setter: str
    body: str
    due: float
    relative: bool
    made: float
