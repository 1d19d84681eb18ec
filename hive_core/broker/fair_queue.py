"""The order of calls: parties take turns, by the time of the event loop that each has used.

A party is an agent or the operator, with all of its connections together. The one that has used the
least time comes first, so that an agent whose calls are expensive delays its own next calls and not
those of others (attacks 61 and 66). The operator is always first. Services that call for many come
next while they use at most a quarter of the loop together: as one party among others, all logins of
a host with 1,000 busy agents would share what one agent gets. Of the services the one that has used
less comes first, and none waits for others while it uses less than its equal share of the quarter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from hive_core.broker.connection import ClientConnection, PendingCall
from hive_core.broker.request import RequestReader
from hive_core.model.wire.record import EGRESS, LOGIN, MODEL, OPERATOR

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
# Parties of services, the part of the loop that they have together before agents, and each of them
# before the others.
SERVICES: Final = frozenset({LOGIN, MODEL, EGRESS})
PART: Final = 4
_EACH: Final = PART * len(SERVICES)
# Seconds that one service is behind others at most for what it used while they wanted nothing.
_BEHIND: Final = 1.0
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
        self._used = defaultdict[str, float](float)
        self._least = 0.0
        # When the time that a service, and all of them, have used will have been their part of the
        # loop.
        self._repaid = dict.fromkeys((*SERVICES, _ALL), 0.0)

    def __bool__(self) -> bool:
        return bool(self._ready)

    def add(self, connection: ClientConnection) -> None:
        """Queue a connection behind others of its party, until it has no call that can run."""
        ready, party = self._ready, connection.party
        if party in ready:
            ready[party][connection] = None
        else:
            ready[party] = {connection: None}

    def leave(self, connections: Iterable[ClientConnection]) -> None:
        ready = self._ready
        for connection in connections:
            party = connection.party
            if party in ready and connection in ready[party]:
                del ready[party][connection]
                if not ready[party]:
                    del ready[party]

    def charge(self, seconds: Mapping[str, float]) -> None:
        """Charge parties for time of the loop."""
        used, least = self._used, self._least
        for party, more in seconds.items():
            before = used[party]
            used[party] = (before if before > least else least) + more
            if party in SERVICES:
                self._charge_service(party, more)

    def _charge_service(self, party: str, seconds: float) -> None:
        repaid, now = self._repaid, self._monotonic()
        for name, part in ((_ALL, PART), (party, _EACH)):
            repaid[name] = min(max(repaid[name], now) + seconds * part, now + _BEHIND)

    def time_of(self, calls: Sequence[PendingCall], seconds: float) -> BatchTime:
        """The clock of a part of a batch that may take so long from now on."""
        parties = len({call.connection.party for call in calls})
        return BatchTime(self._monotonic, seconds, seconds / max(1, parties))

    def collect(self) -> Sequence[tuple[Sequence[PendingCall], bool]]:
        """The next batch, in parts, in the order of the parties; what is left stays in place.

        With each part goes whether it writes.
        """
        calls: list[PendingCall] = []
        writes, parsing = defaultdict[str, int](int), dict[str, float]()
        now = self._monotonic()
        until = now + PARSING
        for party in self._parties():
            if calls and (now > until or len(calls) >= BATCH):
                break
            began, now = now, self._collect_from(party, calls, writes, now, until)
            parsing[party] = now - began
        self.charge(parsing)
        return _split_reads(calls) if writes else ((calls, False),)

    def _parties(self) -> list[str]:
        """Those with calls: the operator, services within their part, then by the time used."""
        used, least = self._used, self._least
        if len(used) > _REMEMBERED + 2 * len(self._ready):
            late = {party: at for party, at in used.items() if at > least}
            self._used = used = defaultdict(float, late)
        times = {party: at if (at := used[party]) > least else least for party in self._ready}
        first = [OPERATOR] if times.pop(OPERATOR, None) is not None else []
        for party in self._first_services(times):
            first.append(party)
            del times[party]
        self._least = least = min(times.values(), default=least)
        near = [party for party, time in times.items() if time <= least + AHEAD]
        return first + sorted(near, key=times.__getitem__)

    def _first_services(self, waiting: Mapping[str, float]) -> list[str]:
        """Services that come before agents now, the one that has used the least first."""
        parties = [party for party in SERVICES if party in waiting]
        if not parties:
            return []
        repaid, now = self._repaid, self._monotonic()
        if repaid[_ALL] > now + AHEAD * PART:
            parties = [party for party in parties if repaid[party] <= now + AHEAD * _EACH]
        return sorted(parties, key=repaid.__getitem__)

    def _collect_from(
        self, party: str, calls: list[PendingCall], writes: dict[str, int], began: float,
        until: float,
    ) -> float:  # fmt: skip
        """Add a party's part of the batch; return the time after it."""
        now, read, left = began, self._reader.read, PARTY
        for connection in list(self._ready[party]):
            if not connection.is_ready:
                self.leave((connection,))
                continue
            share = left if left < SHARE else SHARE
            if share <= 0 or (left < PARTY and now > until):
                break
            if connection.frames:
                read(connection, share, until)
                now = self._monotonic()
            for call in islice(connection.calls, share):
                if call.writes:
                    if writes[party] == WRITES or (call.changes and writes[_ALL] == CHANGES):
                        break  # the batch has no room for what the call may record
                    writes[party] += 1
                    writes[_ALL] += call.changes
                calls.append(call)
                left -= 1
        return now


class BatchTime:
    """The time of a part of a batch, shared by its parties: `used` by each, `share` of each.

    `at` is when the last call ended, and `end` when no other may begin.
    """

    __slots__ = ("at", "end", "monotonic", "share", "used")

    def __init__(self, monotonic: Callable[[], float], seconds: float, share: float) -> None:
        self.monotonic, self.share = monotonic, share
        self.at = monotonic()
        self.end = self.at + seconds
        self.used = defaultdict[str, float](float)


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
