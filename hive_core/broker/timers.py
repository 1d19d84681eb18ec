"""Timers: work that the daemon does by itself when it is due, such as reminders and deadlines.

Each is declared beside the operations of its noun. The ledger has the time of the next due work, so
a restarted daemon finds all future work, and the work that it missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hive_core.broker.call import Call, Change, Record
    from hive_core.broker.operation import Result
    from hive_core.ledger.core.ledger import Ledger

Next = Callable[["Ledger"], "float | None"]
Act = Callable[["Call"], "Record[Result] | Change[Result]"]


@dataclass(frozen=True, slots=True)
class Due:
    """`next` is when `act` has to be called, in seconds since 1970; None: there is nothing to do.

    `act` does a bounded part of what is due and is called again while `next` is not later than
    now, so it has to take away what made it due. `topics`: kinds of topics (what stands before the
    colon) after which `next` may be earlier.
    """

    name: str
    next: Next
    act: Act
    topics: frozenset[str]


DUES: dict[str, Due] = {}


def due(*, at: Next, topics: frozenset[str], into: dict[str, Due] = DUES) -> Callable[[Act], Act]:
    """Declare a timer under the name of its function."""

    def declare(act: Act) -> Act:
        if act.__name__ in into:
            raise TypeError(f"{act.__name__} is declared twice")
        into[act.__name__] = Due(act.__name__, at, act, topics)
        return act

    return declare
