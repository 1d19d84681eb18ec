"""Which calls are served next: the parties in turn, by the time of the loop that each has used.

A party is an agent or the operator, with all of its connections together. The one that has used the
least time comes first, so that an agent whose calls are expensive delays its own next calls and not
those of others (attacks 61 and 66). The operator is always first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice, takewhile
from typing import Final

from hive_core.broker.connection import ClientConnection, PendingCall
from hive_core.broker.request import RequestReader
from hive_core.model.wire.record import OPERATOR

# A batch is bounded so that the loop gets to read; a party's part, so that one with many
# connections has no more of it than one with few; a line's, so that all of a party's get a share.
# A neighbour waits for what a party has in a batch; what is recorded costs most, so less of it.
BATCH: Final = 512
PARTY: Final = 128
SHARE: Final = 64
WRITES: Final = 32
CHANGES: Final = 4
# Seconds after which a part of a batch is cut short: what is left comes first in the next one. No
# call is cut short, so each has to be quick. What is recorded shares one sync of the disk.
READING: Final = 0.01
RECORDING: Final = 0.02
# Seconds of parsing in a batch.
PARSING: Final = 0.005
# Seconds that a party may be ahead of the one that has used the least; then it is left out.
AHEAD: Final = 0.01
_ALL: Final = ""
_REMEMBERED: Final = 256


class FairQueue:
    """Connections that have a call to serve, by party.

    Start-time fair queueing: `_used` is the time that a party has used, and a party that comes back
    starts where the one that has used the least is now. Time that nobody else wanted is no debt.
    """

    def __init__(self, reader: RequestReader) -> None:
        self._reader = reader
        self._monotonic = reader.monotonic
        self._ready: dict[str, dict[ClientConnection, None]] = {}
        self._used: dict[str, float] = {}
        self._least = 0.0

    def __bool__(self) -> bool:
        return bool(self._ready)

    def add(self, line: ClientConnection) -> bool:
        """At the end of its party's, if it has a call that can be served; whether that is so."""
        if not line.is_ready:
            return False
        lines = self._ready.get(line.party)
        if lines is None:
            lines = self._ready[line.party] = {}
        lines[line] = None
        return True

    def leave(self, line: ClientConnection) -> None:
        lines = self._ready.get(line.party)
        if lines is not None:
            lines.pop(line, None)
            if not lines:
                del self._ready[line.party]

    def again(self, line: ClientConnection) -> None:
        """To the end: the other connections of the party are served first."""
        self.leave(line)
        self.add(line)

    def charge(self, party: str, seconds: float) -> None:
        """The party has used time of the loop."""
        self._used[party] = max(self._used.get(party, 0.0), self._least) + seconds

    def time_of(self, batch: Sequence[PendingCall], seconds: float) -> BatchTime:
        """The clock of a part of a batch that may take so long from now on."""
        parties = len({ask.connection.party for ask in batch})
        return BatchTime(self, self._monotonic, seconds, seconds / max(1, parties))

    def collect(self) -> tuple[list[PendingCall], ...]:
        """The next batch, in parts, in the order of the parties; what is left stays in place."""
        batch: list[PendingCall] = []
        recorded: Counter[str] = Counter()
        until = self._monotonic() + PARSING
        parties = self._parties()
        for party in parties:
            if len(batch) >= BATCH or (batch and self._monotonic() > until):
                break
            batch += self._calls_of(party, recorded, until)
        return _parted(batch) if recorded else (batch,)

    def _parties(self) -> list[str]:
        """Those with calls: the operator, then by the time used."""
        used, least = self._used, self._least
        if len(used) > _REMEMBERED + 2 * len(self._ready):
            self._used = used = {party: at for party, at in used.items() if at > least}
        times = {party: max(used.get(party, 0.0), least) for party in self._ready}
        first = [OPERATOR] if times.pop(OPERATOR, None) is not None else []
        self._least = least = min(times.values(), default=least)
        near = (party for party, time in times.items() if time <= least + AHEAD)
        return first + sorted(near, key=times.__getitem__)

    def _calls_of(self, party: str, recorded: Counter[str], until: float) -> list[PendingCall]:
        """A party's part of the batch. Parsing counts as time used, and ends at `until`."""
        calls: list[PendingCall] = []
        began = self._monotonic()
        for line in list(self._ready[party]):
            if not line.is_ready:
                self.leave(line)
                continue
            share = min(SHARE, PARTY - len(calls))
            if share <= 0 or (calls and self._monotonic() > until):
                break
            self._reader.read(line, share, until)
            calls += takewhile(partial(_fits, recorded), islice(line.calls, share))
        self.charge(party, self._monotonic() - began)
        return calls


class BatchTime:
    """The time of a part of a batch, shared by its parties."""

    def __init__(
        self, queue: FairQueue, monotonic: Callable[[], float], seconds: float, share: float
    ) -> None:
        self._queue, self._monotonic, self._share = queue, monotonic, share
        self._at = monotonic()
        self._end = self._at + seconds
        self._used: dict[str, float] = {}

    def is_used_up(self, party: str) -> bool:
        return self._used.get(party, 0.0) > self._share

    def spend(self, party: str) -> bool:
        """Charge the party what passed since the call before; whether the time is over."""
        began, self._at = self._at, self._monotonic()
        seconds = self._at - began
        self._used[party] = self._used.get(party, 0.0) + seconds
        self._queue.charge(party, seconds)
        return self._at > self._end


def _parted(batch: Iterable[PendingCall]) -> tuple[list[PendingCall], ...]:
    """What only reads, then the rest: who has nothing recorded does not wait for the disk.

    Of a line that begins with reads, what is behind them comes in the next batch.
    """
    first, rest = list[PendingCall](), list[PendingCall]()
    reads, held = dict[ClientConnection, bool](), set[ClientConnection]()
    for ask in batch:
        if not reads.setdefault(ask.connection, not ask.writes):
            rest.append(ask)
        elif ask.writes or ask.connection in held:
            held.add(ask.connection)
        else:
            first.append(ask)
    return (first, rest) if first else (rest,)


def _fits(recorded: Counter[str], ask: PendingCall) -> bool:
    """Whether the batch has room for what the call may record; counted when it has."""
    if not ask.writes:
        return True
    party = ask.connection.party
    if recorded[party] == WRITES or (ask.changes and recorded[_ALL] == CHANGES):
        return False
    recorded[party] += 1
    recorded[_ALL] += ask.changes
    return True
