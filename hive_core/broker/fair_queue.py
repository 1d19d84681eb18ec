"""The order of calls: parties take turns, by the time of the event loop that each has used.

A party is an agent or the operator, with all of its connections together. The one that has used the
least time comes first, so that an agent whose calls are expensive delays its own next calls and not
those of others (attacks 61 and 66). The operator is always first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from hive_core.broker.connection import ClientConnection, PendingCall
from hive_core.broker.request import RequestReader
from hive_core.model.wire.record import OPERATOR

# A batch is bounded so that the loop gets to read; a party's part, so that one with many
# connections has no more of it than one with few; a connection's, so that all of a party get one.
# Other parties wait for a party's part. Writes cost most, so a part has fewer of them.
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
    starts where the one that has used the least is now. Time that no other party needed does not
    count later.
    """

    def __init__(self, reader: RequestReader) -> None:
        self._reader = reader
        self._monotonic = reader.monotonic
        self._ready: dict[str, dict[ClientConnection, None]] = {}
        self._used: dict[str, float] = {}
        self._least = 0.0

    def __bool__(self) -> bool:
        return bool(self._ready)

    def add(self, connection: ClientConnection) -> bool:
        """Queue a connection behind others of its party if it has a call that can run.

        Return whether.
        """
        if not connection.is_ready:
            return False
        connections = self._ready.get(connection.party)
        if connections is None:
            connections = self._ready[connection.party] = {}
        connections[connection] = None
        return True

    def leave(self, connection: ClientConnection) -> None:
        connections = self._ready.get(connection.party)
        if connections is not None:
            connections.pop(connection, None)
            if not connections:
                del self._ready[connection.party]

    def charge(self, party: str, seconds: float) -> None:
        """Charge a party for time of the loop."""
        used = self._used.get(party, 0.0)
        self._used[party] = (used if used > self._least else self._least) + seconds

    def time_of(self, calls: Sequence[PendingCall], seconds: float) -> BatchTime:
        """The clock of a part of a batch that may take so long from now on."""
        parties = len({call.connection.party for call in calls})
        return BatchTime(self, self._monotonic, seconds, seconds / max(1, parties))

    def collect(self) -> Sequence[tuple[Sequence[PendingCall], bool]]:
        """The next batch, in parts, in the order of the parties; what is left stays in place.

        With each part goes whether it writes.
        """
        calls: list[PendingCall] = []
        writes = defaultdict[str, int](int)
        now = self._monotonic()
        until = now + PARSING
        for party in self._parties():
            if len(calls) >= BATCH or (calls and now > until):
                break
            now = self._collect_from(party, calls, writes, now, until)
        return _split_reads(calls) if writes else ((calls, False),)

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

    def _collect_from(
        self, party: str, calls: list[PendingCall], writes: dict[str, int], began: float,
        until: float,
    ) -> float:  # fmt: skip
        """Add a party's part of the batch; the time after it. Parsing is charged to the party."""
        now, read, left = began, self._reader.read, PARTY
        for connection in list(self._ready[party]):
            if not connection.is_ready:
                self.leave(connection)
                continue
            share = left if left < SHARE else SHARE
            if share <= 0 or (left < PARTY and now > until):
                break
            if connection.frames:
                read(connection, share, until)
                now = self._monotonic()
            for call in islice(connection.calls, share):
                if call.writes and not _fits(writes, call, party):
                    break
                calls.append(call)
                left -= 1
        self.charge(party, now - began)
        return now


class BatchTime:
    """The time of a part of a batch, shared by its parties: `used` by each, `share` of each."""

    def __init__(
        self, queue: FairQueue, monotonic: Callable[[], float], seconds: float, share: float
    ) -> None:
        self._queue, self._monotonic, self.share = queue, monotonic, share
        self._at = monotonic()
        self._end = self._at + seconds
        self.used = defaultdict[str, float](float)

    def spend(self, party: str) -> bool:
        """Count for the party what passed since the call before; whether the time is over."""
        began, self._at = self._at, self._monotonic()
        self.used[party] += self._at - began
        return self._at > self._end

    def charge(self) -> None:
        """Charge each party what it has used; at the end of the part, once."""
        for party, seconds in self.used.items():
            self._queue.charge(party, seconds)


def _split_reads(calls: Iterable[PendingCall]) -> Sequence[tuple[Sequence[PendingCall], bool]]:
    """What only reads, then the rest: a read does not wait for the disk.

    Of a connection that begins with reads, what is behind them comes in the next batch.
    """
    first, rest = list[PendingCall](), list[PendingCall]()
    reads, held = dict[ClientConnection, bool](), set[ClientConnection]()
    for call in calls:
        connection = call.connection
        begins_with_read = reads.get(connection)
        if begins_with_read is None:
            begins_with_read = reads[connection] = not call.writes
        if not begins_with_read:
            rest.append(call)
        elif call.writes or connection in held:
            held.add(connection)
        else:
            first.append(call)
    return ((first, False), (rest, True)) if first and rest else ((first or rest, bool(rest)),)


def _fits(writes: dict[str, int], call: PendingCall, party: str) -> bool:
    """Whether the batch has room for what the call may record; counted when it has."""
    if writes[party] == WRITES or (call.changes and writes[_ALL] == CHANGES):
        return False
    writes[party] += 1
    writes[_ALL] += call.changes
    return True
