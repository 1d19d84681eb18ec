"""Upkeep: expires leases and lifetimes of messages, and prunes old rows once an hour."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import MessageGivenUp, emit
from hive_core.broker.operation import Result
from hive_core.errors import HiveError
from hive_core.model.wire.record import DAEMON, Message
from hive_core.reconcile.deps import BrokerHandle, Ports
from hive_core.reconcile.timers.clock_jumps import ClockJumps

log = logging.getLogger(__name__)
HOUR: Final = 3600.0
RETRY_AFTER: Final = 1.0
TURNS_PART: Final = 8  # the turns of all agents may use an eighth of the ledger
PAUSE: Final = 0.05  # between pages of the audit log, and parts of a sweep


class LettersGivenUp(Result):
    """The number of the daemon's messages that expired unread."""

    letters: int


def give_up_letters(call: Call, letters: Sequence[Message]) -> Record[LettersGivenUp]:
    """Record the consequences of the daemon's messages that expired unread."""
    for letter in letters:
        emit(call, MessageGivenUp(letter))
    return Record(LettersGivenUp(letters=len(letters)), audited=True)


@dataclass
class Upkeep:
    """Runs upkeep. `on_topics` sets the timer for the next due message; `sweep` sets its own."""

    ports: Ports
    broker: BrokerHandle
    after_sweep: Callable[[], object] = lambda: None
    alarm: Callable[[str], None] = lambda _: None
    reload: Callable[[], object] = lambda: None
    on_clock_set: Callable[[], object] = lambda: None
    _due: float | None = None
    _cancel: Callable[[], None] = field(default=lambda: None)

    def start(self) -> None:
        ClockJumps(self.ports, self._on_clock_set).start()
        self._schedule_mail()
        self.audit()
        self._after(HOUR, self.sweep)

    def _on_clock_set(self) -> None:
        """Reload everything that depends on times in the ledger, because they have changed."""
        self.reload()
        self._schedule_mail()
        self.on_clock_set()

    def on_topics(self, topics: frozenset[str]) -> None:
        """Set the timer again if the topics are about mail, which may be due earlier now."""
        if any(topic.startswith("inbox:") for topic in topics):
            self._schedule_mail()

    def _schedule_mail(self) -> None:
        due = self.ports.ledger.messages.next_due()
        if due == self._due:
            return
        self._cancel()
        self._due, self._cancel = due, lambda: None
        if due is not None:
            pause = max(0.0, due - self.ports.clock.now())
            self._cancel = self._after(pause, self._expire)

    def _after(self, seconds: float, work: Callable[[], None]) -> Callable[[], None]:
        return self.ports.clock.call_at(self.ports.clock.monotonic() + seconds, work)

    def _expire(self) -> None:
        """Return expired leases to their inboxes, and dead-letter expired messages."""
        self._due = None
        ledger, now = self.ports.ledger, self.ports.clock.now()
        try:
            with ledger.transaction():
                dead = ledger.messages.expire(now)
            if ours := [letter for letter in dead if letter.sender == DAEMON]:
                self.broker.perform("give_up", lambda call: give_up_letters(call, ours))
        except HiveError as error:
            log.warning("Cannot expire mail: %s", error)
            self._after(RETRY_AFTER, self._schedule_mail)
            return
        # The sender gets a message about it; later messages may become deliverable to the
        # recipient.
        parties = {party for letter in dead for party in (letter.sender, letter.recipient)}
        self.broker.touch(frozenset(f"inbox:{party}" for party in parties))
        self._schedule_mail()

    def audit(self) -> None:
        """Verify the hash chain of the audit log, a page at a time (row H27)."""
        self._follow(self.ports.ledger.events.walk())

    def _follow(self, walk: Generator[None, None, int | None]) -> None:
        try:
            next(walk)
        except StopIteration as end:
            if end.value is not None:
                self.alarm(f"the audit log is broken at event {end.value}")
        except HiveError as error:
            log.warning("Cannot read the audit log: %s", error)
        else:
            self._after(PAUSE, lambda: self._follow(walk))

    def sweep(self) -> None:
        """Prune everything whose retention time is over."""
        self._after(HOUR, self.sweep)
        self.audit()
        ledger, retention, now = (
            self.ports.ledger,
            self.ports.settings.retention,
            self.ports.clock.now(),
        )
        try:
            with ledger.transaction():
                ledger.events.reads.keep_counts()
                ledger.shifts.see(now)
                ledger.budgets.usage.prune(now, self.ports.settings.budgets.kept)
                ledger.budgets.rollups.prune(now - self.ports.settings.budgets.kept)
                ledger.budgets.cpu.prune()
                ledger.events.prune(
                    self._first_event_after(now - ledger.shifts.ahead(now) - retention.events)
                )
                ledger.events.notes.tidy()
                ledger.stored.tidy()
                ledger.forget_leavings(now - ledger.shifts.ahead(now) - retention.archive)
            self._prune_page()
            ledger.checkpoint()
            self.after_sweep()
        except HiveError as error:
            log.warning("Cannot prune old rows: %s", error)

    def _prune_page(self) -> None:
        """Prune a limited number of rows at a time, so that calls are served in between."""
        ledger, retention, now = (
            self.ports.ledger,
            self.ports.settings.retention,
            self.ports.clock.now(),
        )
        try:
            with ledger.transaction():
                then = now - ledger.shifts.ahead(now)
                gone = (
                    ledger.messages.prune(then, dead=retention.dead_letters)
                    + ledger.keys.prune(now, retention.keys)
                    + ledger.jobs.prune(now, retention.jobs)
                    + ledger.tasks.prune(now - self.ports.settings.tasks.kept)
                    + ledger.events.notes.prune(then - retention.events)
                    + ledger.turns.prune(self.ports.settings.limits.ledger // TURNS_PART)
                )
        except HiveError as error:
            log.warning("Cannot prune old rows: %s", error)
        else:
            if gone:
                self._after(PAUSE, self._prune_page)

    def _first_event_after(self, moment: float) -> int:
        """The number of the first event after a moment. Events are in order of time."""
        events = self.ports.ledger.events
        low, high = events.base, max(events.base, events.last - 1)
        while low < high:
            middle = (low + high) // 2
            old = events.time_behind(middle)  # None where the end was pruned
            low, high = (middle + 1, high) if old is not None and old < moment else (low, middle)
        return low + 1
