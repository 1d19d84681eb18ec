"""Shifts times in the ledger when the wall clock was set, so that periods stay (row R16).

A lease of a minute does not end because the clock was set forward by a year, and does not last a
year because the clock went back. While the daemon runs, its clock reports steps
(`Clock.pending_jump`). For the time while it was off, the daemon has to guess: a clock that is
behind the last recorded time was set back; of a clock that is far ahead, one hour is believed, so
that a wrong clock deletes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hive_core.errors import HiveError
from hive_core.reconcile.deps import Ports

log = logging.getLogger(__name__)
LOOK: Final = 10.0
_SLACK: Final = 30.0
_OFF: Final = 3600.0


@dataclass
class ClockJumps:
    """Detects steps of the clock.

    `on_clock_set` is called when times in the ledger have changed.
    """

    ports: Ports
    on_clock_set: Callable[[], None]

    def start(self) -> None:
        """Compare with the time that the last daemon recorded; then check at intervals."""
        clock, shifts = self.ports.clock, self.ports.ledger.shifts
        now, seen = clock.now(), shifts.known.seen or clock.now()
        if now < seen - _SLACK:
            moved = self._shift_times(now - seen, now, mail=True)
        elif now > seen + _OFF:
            # Times to live of mail are in real time, and its leases have ended in either case.
            moved = self._shift_times(now - seen - _OFF, now, mail=False)
        else:
            moved = False
            self._record_time(now)
        if moved:
            self.on_clock_set()
        self._schedule_check()

    def check(self) -> None:
        self._schedule_check()
        clock = self.ports.clock
        if (by := clock.pending_jump()) and self._shift_times(by, clock.now() + by, mail=True):
            clock.follow()
            self.on_clock_set()

    def _schedule_check(self) -> None:
        self.ports.clock.call_at(self.ports.clock.monotonic() + LOOK, self.check)

    def _record_time(self, now: float) -> None:
        """Record the time, so that the next start knows how long no daemon ran."""
        try:
            with self.ports.ledger.transaction():
                self.ports.ledger.shifts.see(now)
        except HiveError as error:
            log.warning("Cannot record the time: %s", error)

    def _shift_times(self, by: float, now: float, *, mail: bool) -> bool:
        ledger, retention = self.ports.ledger, self.ports.settings.retention
        longest = max(
            retention.archive,
            retention.keys,
            retention.jobs,
            retention.events,
            retention.dead_letters,
        )
        try:
            with ledger.transaction():
                ledger.shifts.move(by, now, longest)
                ledger.logins.follow_clock(by)
                if mail:
                    ledger.messages.shift(by)
        except HiveError as error:
            log.warning("Cannot shift stored times with the clock: %s", error)
            return False
        log.warning("The clock was set by %.0f s: shifted all stored times", by)
        return True
