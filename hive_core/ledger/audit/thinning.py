"""Who loses events when the audit log is full: the branch that has most of it, its oldest first.

So who does recorded calls as fast as may be pushes out its own trail and nobody else's. What each
party has is counted while the chain is followed (at the start, and every hour) and kept up from
then on. The chain stays whole: of each run that is taken out the last digest is kept.
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

# Events that are looked at in one COMMIT.
_LOOKED_AT: Final = 2000
# What part of what it has a branch may lose more than the next one.
_SLACK: Final = 64
_CALLER: Final = '"caller":"'
# The beginning and the end of an event, which say whose it is, and its bytes.
_ENDS: Final = "substr(body, 1, 200) || substr(body, -200), length(CAST(body AS BLOB))"
Row = tuple[int, bytes, str]


def payer_of(body: str) -> str:
    """Whose share an event is of: who did it, and of what the daemon did, whom it is about.

    What happens to an agent by itself follows from what that does: it could push out with it what
    the daemon wrote of others. The caller comes before all that has a text of its own.
    """
    start = body.find(_CALLER) + len(_CALLER)
    caller = body[start : body.find('"', start)]
    return caller if caller != DAEMON else head_of(0, body).target or DAEMON


class Thinning:
    """`branch_of` says in which branch a party is: a party is one by itself until it is set."""

    def __init__(self, connection: Connection, marks: ChainMarks) -> None:
        self._db = connection
        self._marks = marks
        self.branch_of: Callable[[str], str] = str
        # Bytes of each party in the chain; None: it was not followed yet.
        self.shares: Counter[str] | None = None
        # Behind which number it is looked for more.
        self._at = 0
        # Who lost events last, and how many bytes they may lose before that is judged anew: it asks
        # for each party, and there may be very many that are gone.
        self._losers = frozenset[str]()
        self._spare = 0

    def came(self, after: int) -> None:
        """Count the events behind this number."""
        if self.shares is None:
            return
        for body, size in self._db.rows(
            f"SELECT {_ENDS} FROM events WHERE seq > ?",  # noqa: S608
            (after,),
        ):
            self._count(payer_of(body), size + AROUND)

    def thin(self, count: int, size: int) -> bool:
        """Take out so many events and bytes of the branch with the most.

        False when there is nothing to take; a part of it may have to wait for the next COMMIT.
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
            self._at, self._spare = 0, 0  # once more from the beginning
            return start > base
        self._take(gone)
        return True

    def _heaviest(self) -> frozenset[str]:
        """The parties of the branch that has the most bytes. It may lose what it has more."""
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
        """Where the chain goes on behind what was taken out."""
        row = self._db.row(
            "SELECT last, digest FROM thinned_events WHERE first <= ?1 AND last >= ?1"
            " ORDER BY first DESC LIMIT 1",
            (end[0] + 1,),
        )
        return end if row is None else (row[0], row[1])

    def last(self) -> int:
        """The newest number that was taken out."""
        return int(self._db.value("SELECT COALESCE(MAX(last), 0) FROM thinned_events"))

    def forget(self, base: int) -> None:
        """The chain begins behind this number now."""
        self._db.run("DELETE FROM thinned_events WHERE last <= ?", (base,))

    def forget_below(self, before: int) -> None:
        """Events below this number are about to be forgotten, whoever did them."""
        if self.shares is not None:
            self.subtract(
                (payer_of(body), size) for body, size in self._db.rows(
                    f"SELECT {_ENDS} FROM events WHERE seq < ?", (before,)  # noqa: S608
                )
            )  # fmt: skip

    def subtract(self, rows: Iterable[tuple[str, int]]) -> None:
        """Events of these parties and sizes are forgotten."""
        if self.shares is not None:
            for party, size in rows:
                self._count(party, -size - AROUND)

    def _behind(self, after: int) -> list[Row]:
        return self._db.rows(
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
        """A run is gone; with the one before it and the one behind it, it is one."""
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
