"""Who is served next: lines with something to ask, in a row, each party with its share."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import islice, takewhile
from typing import Final

from hive_core.broker.line import Ask, Line
from hive_core.broker.request import Reader

# A batch is bounded so that the loop gets to read; a party's part, so that one with many
# connections has no more of it than one with few; a line's, so that all of a party's get a share.
# A neighbour waits for what a party has in a batch; what is recorded costs most, so less of it.
BATCH: Final = 512
PARTY: Final = 128
SHARE: Final = 64
WRITES: Final = 32
CHANGES: Final = 4
_ALL: Final = ""


class Row:
    """Lines in the order in which they became ready, or were last served."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._lines: dict[Line, None] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, line: Line) -> bool:
        """At the end, if it has something to ask and may; whether that is so."""
        if line.willing:
            self._lines[line] = None
        return line.willing

    def leave(self, line: Line) -> None:
        self._lines.pop(line, None)

    def again(self, line: Line) -> None:
        """To the end of the row: whoever came meanwhile is served first."""
        self.leave(line)
        self.add(line)

    def collect(self) -> tuple[list[Ask], ...]:
        """The next batch, in parts. Who got nothing of it stays before those who did."""
        batch: list[Ask] = []
        shares: Counter[str] = Counter()
        spent: Counter[str] = Counter()
        for line in list(self._lines):
            if len(batch) >= BATCH:
                break
            if not line.willing:
                self.leave(line)
                continue
            share = min(SHARE, PARTY - shares[line.party])
            if share <= 0:
                continue
            self._reader.read(line, share)
            taken = list(takewhile(partial(_fits, spent), islice(line.asks, share)))
            batch += taken
            shares[line.party] += len(taken)
        return _parted(batch) if spent else (batch,)


def _parted(batch: list[Ask]) -> tuple[list[Ask], ...]:
    """What only reads, then the rest: who has nothing recorded does not wait for the disk.

    Of a line that begins with reads, what is behind them comes in the next batch.
    """
    first, rest = list[Ask](), list[Ask]()
    reads, held = dict[Line, bool](), set[Line]()
    for ask in batch:
        if not reads.setdefault(ask.line, not ask.writes):
            rest.append(ask)
        elif ask.writes or ask.line in held:
            held.add(ask.line)
        else:
            first.append(ask)
    return (first, rest) if first else (rest,)


def _fits(spent: Counter[str], ask: Ask) -> bool:
    """Whether the batch has room for what the call may record; counted when it has."""
    if not ask.writes:
        return True
    party = ask.line.party
    if spent[party] == WRITES or (ask.changes and spent[_ALL] == CHANGES):
        return False
    spent[party] += 1
    spent[_ALL] += ask.changes
    return True
