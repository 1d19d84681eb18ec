"""Thins the full audit log: the branch with the most events loses its oldest ones.

So a caller that makes recorded calls at full speed removes its own trail only. The bytes of each
party are counted when the chain is verified (at the start, and every hour) and updated from then
on. The chain stays verifiable: for each removed run of events, its last digest is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from hive_core.ledger.audit.chain_bounds import AROUND, ChainMarks, End
from hive_core.ledger.audit.event_heads import head_of
from hive_core.ledger.audit.event_json import number_before
from hive_core.ledger.core.connection import Connection
from hive_core.model.wire.record import DAEMON

# Events that are examined in one COMMIT.
_LOOKED_AT: Final = 2000
# The share of its bytes that a branch may lose beyond the next largest one.
_SLACK: Final = 64
_CALLER: Final = '"caller":"'
# The beginning and end of an event, which name its parties, and its bytes.
_ENDS: Final = "substr(body, 1, 200) || substr(body, -200), length(CAST(body AS BLOB))"
Row = tuple[int, bytes, str]


def payer_of(body: str) -> str:
    """The party to which an event is charged: the caller; for the daemon's events, the target.

    What happens to an agent follows from its own actions. Otherwise an agent could displace the
    daemon's events about others. The caller precedes all text that an agent can choose.
    """
    start = body.find(_CALLER) + len(_CALLER)
    caller = body[start : body.find('"', start)]
    return caller if caller != DAEMON else head_of(0, body).target or DAEMON


class Thinning:
    """Counts and thins events. `branch_of` returns the branch of a party; itself by default."""

    def __init__(self, connection: Connection, marks: ChainMarks) -> None:
        self._db = connection
        self._marks = marks
        self.branch_of: Callable[[str], str] = str
        # Bytes of each party in the chain; None before the first verification.
        self.shares: Counter[str] | None = None
        # The number after which the search for events continues.
        self._at = 0
        # The parties that lost events last, and the bytes that they may lose before the next
        # choice. Choosing looks at each party, and there may be many that are destroyed.
        self._losers = frozenset[str]()
        self._spare = 0

    def came(self, events: Iterable[bytes]) -> None:
        """Count new events, given as their JSON."""
        if self.shares is None:
            return
        for data in events:
            self._count(payer_of(data.decode()), len(data) + AROUND)

    def thin(self, count: int, size: int) -> bool:
        """Remove so many events and bytes from the branch that has the most.

        False if there is nothing to remove. A part may have to wait for the next COMMIT.
        """
        if not self._losers or self._spare <= 0:
            self._losers = self._heaviest()
        if not self._losers:
            return False
        gone: list[Row] = []
        base, tail = (self._marks.end(key)[0] for key in ("events_base", "events_tail"))
        start = self._at = max(self._at, base)
        for row in self._behind(start):
            if (count <= 0 and size <= 0) or row[0] >= tail:
                break
            self._at = row[0]
            if payer_of(row[2]) in self._losers:
                gone.append(row)
                taken = len(row[2].encode()) + AROUND
                count, size, self._spare = count - 1, size - taken, self._spare - taken
        if self._at == start:
            self._at, self._spare = 0, 0  # start again from the beginning
            return start > base
        self._take(gone)
        return True

    def _heaviest(self) -> frozenset[str]:
        """The parties of the branch with the most bytes. Sets how much it may lose."""
        branches = Counter[str]()
        parties: dict[str, set[str]] = {}
        for party, held in (self.shares or {}).items():
            branch = self.branch_of(party)
            branches[branch] += held
            parties.setdefault(branch, set()).add(party)
        if not branches:
            return frozenset()
        (heaviest, most), *others = branches.most_common(2)
        self._spare = max(most - sum(held for _, held in others), most // _SLACK)
        return frozenset(parties[heaviest])

    def over(self, end: End) -> End:
        """The position of the chain after a removed run that follows `end`."""
        row = self._db.row(
            "SELECT last, digest FROM thinned_events WHERE first <= ?1 AND last >= ?1"
            " ORDER BY first DESC LIMIT 1",
            (end[0] + 1,),
        )
        return end if row is None else (row[0], row[1])

    def last(self) -> int:
        """The newest removed number."""
        return int(self._db.value("SELECT COALESCE(MAX(last), 0) FROM thinned_events"))

    def forget(self, base: int) -> None:
        """Drop the records of runs before the new beginning of the chain."""
        self._db.run("DELETE FROM thinned_events WHERE last <= ?", (base,))

    def forget_below(self, before: int) -> None:
        """Subtract events below this number, which are about to be pruned."""
        if self.shares is not None:
            self.subtract(
                (payer_of(body), size) for body, size in self._db.readable_rows(
                    f"SELECT {_ENDS} FROM events WHERE seq < ?", (before,)  # noqa: S608
                )
            )  # fmt: skip

    def subtract(self, rows: Iterable[tuple[str, int]]) -> None:
        """Subtract pruned events, given by party and size."""
        if self.shares is not None:
            for party, size in rows:
                self._count(party, -size - AROUND)

    def _behind(self, after: int) -> list[Row]:
        return self._db.readable_rows(
            "SELECT seq, digest, body FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
            (after, _LOOKED_AT),
        )

    def _take(self, rows: Sequence[Row]) -> None:
        for seq, digest, body in rows:
            self._note(number_before(seq, body) + 1, seq, digest)
        self._db.run_each("DELETE FROM events WHERE seq = ?", [(seq,) for seq, _, _ in rows])
        sizes = [(payer_of(body), len(body.encode())) for _, _, body in rows]
        self._marks.grow(-len(rows), -sum(size + AROUND for _, size in sizes))
        self.subtract(sizes)

    def _note(self, first: int, last: int, digest: bytes) -> None:
        """Record a removed run, merged with the runs directly before and after it."""
        behind = self._db.row(
            "DELETE FROM thinned_events WHERE first = ? RETURNING last, digest", (last + 1,)
        )
        if behind is not None:
            last, digest = behind
        changed = self._db.run(
            "UPDATE thinned_events SET last = ?, digest = ? WHERE last = ?",
            (last, digest, first - 1),
        )
        if not changed:
            self._db.run("INSERT INTO thinned_events VALUES (?, ?, ?)", (first, last, digest))

    def _count(self, party: str, size: int) -> None:
        if self.shares is not None:
            self.shares[party] += size
            self._db.undo.note(self._uncount, party, size)

    def _uncount(self, party: str, size: int) -> None:
        if self.shares is not None:
            self.shares[party] -= size
