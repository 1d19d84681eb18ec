"""The agenda: one timer for each kind of due work (broker/timers.py)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hive_core.broker.timers import Due
from hive_core.errors import HiveError
from hive_core.ledger.core.ledger import Ledger
from hive_core.ports import Clock
from hive_core.reconcile.deps import Perform

log = logging.getLogger(__name__)
RETRY_AFTER: Final = 1.0
# After so many in a row, or so many seconds, other work comes first.
_IN_A_ROW: Final = 8
_SECONDS: Final = 0.02


@dataclass
class Agenda:
    """Runs due work.

    `on_topics` gets the topics of recorded changes, which may set earlier times.
    """

    clock: Clock
    ledger: Ledger
    perform: Perform
    dues: Mapping[str, Due]
    _at: dict[str, float | None] = field(default_factory=dict)
    _cancel: dict[str, Callable[[], None]] = field(default_factory=dict)
    _dues_by_topic: dict[str, tuple[Due, ...]] = field(default_factory=dict)

    def start(self) -> None:
        """Set all timers, and run the work that became due while no daemon ran."""
        kinds = {topic for due in self.dues.values() for topic in due.topics}
        self._dues_by_topic = {
            kind: tuple(due for due in self.dues.values() if kind in due.topics) for kind in kinds
        }
        self.on_clock_set()

    def on_clock_set(self) -> None:
        """Set all timers again: the clock was set, or times in the ledger changed."""
        self._at.clear()
        self._arm(self.dues.values())

    def on_topics(self, topics: frozenset[str]) -> None:
        """Set the timers again that a recorded change may make earlier."""
        kinds = {topic.partition(":")[0] for topic in topics} & self._dues_by_topic.keys()
        self._arm({due.name: due for kind in kinds for due in self._dues_by_topic[kind]}.values())

    def _arm(self, dues: Iterable[Due]) -> None:
        for due in dues:
            try:
                at = due.next(self.ledger)
            except HiveError as error:
                log.warning("Cannot read the next due time (%s): %s", due.name, error)
                at = self.clock.now() + RETRY_AFTER
            self._schedule(due, at)

    def _schedule(self, due: Due, at: float | None, pause: float = 0.0) -> None:
        if not pause and due.name in self._cancel and self._at.get(due.name, -1.0) == at:
            return
        self._cancel.pop(due.name, lambda: None)()
        self._at[due.name] = at
        if at is None:
            return
        clock = self.clock
        when = clock.monotonic() + max(pause, at - clock.now())
        self._cancel[due.name] = clock.call_at(when, lambda: self._run_due(due))

    def _run_due(self, due: Due) -> None:
        """Run due work, a limited number of times, and set the timer for the next."""
        self._cancel.pop(due.name, None)
        clock, ledger = self.clock, self.ledger
        until = clock.monotonic() + _SECONDS
        try:
            for _ in range(_IN_A_ROW):
                at = due.next(ledger)
                if at is None or at > clock.now():
                    break
                self.perform(due.name, due.act)
                if clock.monotonic() > until:
                    break
            at = due.next(ledger)
        except HiveError as error:
            log.warning("Cannot run due work (%s): %s", due.name, error)
            self._schedule(due, clock.now() + RETRY_AFTER, pause=RETRY_AFTER)
        else:
            self._schedule(due, at)
