"""Who is served next: lines with something to ask, in a row, each party with its share."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Final

from hive_core.broker.line import Ask, Line
from hive_core.broker.request import Reader

# A batch is bounded so that the loop gets to read; a party's part, so that one with many
# connections has no more of it than one with few; a line's, so that all of a party's get a share.
# What one party has in a batch is what a neighbour waits for: half a millisecond of sends.
BATCH: Final = 512
PARTY: Final = 32
SHARE: Final = 16
CHANGES: Final = 4


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

    def collect(self) -> list[Ask]:
        """The next batch. Who got nothing of it stays where it is, before those who did."""
        batch: list[Ask] = []
        shares: Counter[str] = Counter()
        changes = 0
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
            before = len(batch)
            for ask in islice(line.asks, share):
                if ask.changes:
                    if changes == CHANGES:
                        break
                    changes += 1
                batch.append(ask)
            shares[line.party] += len(batch) - before
        return batch
