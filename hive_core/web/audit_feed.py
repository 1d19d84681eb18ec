"""Events on their way to the pages of the audit log: so many of the newest, mail last. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

Event = Mapping[str, object]
# What is recorded of mail, which is most of what happens. It changes no task, and brings nothing
# that waits for the operator.
MAIL: Final = frozenset({"ack", "publish", "recv", "send", "wake"})


@dataclass(slots=True)
class AuditFeed:
    """`most`: events that wait to be shown. Of more, the oldest are left out, mail first."""

    most: int
    _events: list[Event] = field(default_factory=list)
    _left_out: int = 0

    def add(self, events: Sequence[Event], left_out: int = 0) -> None:
        """Add newer events; hived left out so many more."""
        self._events += events
        over = max(0, len(self._events) - self.most)
        self._left_out += left_out + over
        if over:
            by_rank = sorted(range(len(self._events)), key=lambda at: (not self._is_mail(at), at))
            gone = set(by_rank[:over])
            self._events = [event for at, event in enumerate(self._events) if at not in gone]

    def take(self) -> tuple[list[Event], int]:
        """What is shown now, and the number of events that are not."""
        taken = self._events, self._left_out
        self._events, self._left_out = [], 0
        return taken

    def _is_mail(self, at: int) -> bool:
        """Whether an event is of mail that was not refused."""
        event = self._events[at]
        return event.get("kind") == "record" and event.get("operation") in MAIL
