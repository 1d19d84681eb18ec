"""The audit log: numbered events in a hash chain, so that an edit or a deletion is detected.

digest = SHA-256(previous digest + canonical JSON). The end of the chain is stored in `meta` too, so
that a truncation is detected as well; pruning moves its beginning.

Notes of agents (`notes.py`) have numbers of the same counter and are not in the chain. The event
after notes names in `after` the previous number of the chain, so that the digest covers the gap.
For notes that older versions put into the chain, the digests are kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from types import MappingProxyType
from typing import Final, NamedTuple

from hive_core.ledger.audit.chain_bounds import AROUND, ChainMarks, End
from hive_core.ledger.audit.event_heads import EventHead, Heads, head_of
from hive_core.ledger.audit.event_json import AFTER, Form, form, link, number_before, parse_event
from hive_core.ledger.audit.notes import Notes, is_note
from hive_core.ledger.audit.read_counts import ReadCounts
from hive_core.ledger.audit.thinning import Thinning, payer_of
from hive_core.ledger.core.connection import Connection
from hive_core.ledger.core.metrics import MetricsTally
from hive_core.ledger.tasks.trace_ids import TraceIds
from hive_core.model.config.settings import HostLimits
from hive_core.model.wire.masks import Masks
from hive_core.model.wire.record import DAMAGED_EVENT, Event

_PAGE: Final = 1000
# Events whose texts are read at once, because a reader stops when its page is full.
_FEW: Final = 16
# The part of the limit that is freed at once.
_SLACK: Final = 256


class AuditEntry(NamedTuple):
    """The content of one event. Parties are UUIDs; their names at that time are in `fields`."""

    kind: str
    caller: str
    operation: str
    target: str
    allowed: bool | None
    rule: str
    reason: str
    commit: str
    request: str
    now: float
    fields: Mapping[str, object] = MappingProxyType({})


_INSERT: Final = "INSERT INTO events (seq, digest, body) VALUES (?, ?, ?)"


class ChainSlice(NamedTuple):
    """A checked part of the chain. `last`: the last right number; `broken`: the first wrong one."""

    checked: int
    last: int
    broken: int | None
    is_end: bool


def run_to_end(walk: Generator[None, None, int | None]) -> int | None:
    """Run a walk without its pauses; return its result."""
    while True:
        try:
            next(walk)
        except StopIteration as end:
            result: int | None = end.value
            return result


class AuditLog:
    def __init__(self, connection: Connection, limits: HostLimits | None = None) -> None:
        self._db = connection
        self._limits = limits or HostLimits()
        # The end of the chain, and the newest number, including what this transaction added.
        self._tail: End | None = None
        self._last: int | None = None
        self._unsealed = False
        # The events that this transaction added to the chain: JSON by number.
        self._added: dict[int, bytes] = {}
        self._marks = ChainMarks(connection)
        self.thinning = Thinning(connection, self._marks)
        self._heads = Heads(self._load)
        self.traces = TraceIds(connection)
        self.notes = Notes(connection, self._limits)
        self.tally = MetricsTally(connection)
        self.reads = ReadCounts(connection)
        # Secrets that must not be in the log; set by the owner of the secrets.
        self.masks = Masks()
        connection.undo.always(self._forget)

    def append(self, entry: AuditEntry) -> int:
        """Add one event to the log; return its number. Readers see it at once.

        An event about a task carries the trace id of the task.
        """
        fields, task = entry.fields, entry.fields.get("task")
        if task and isinstance(task, str) and "trace" not in fields:
            fields = {**fields, "trace": self.traces.of(task)}
        hide = self.masks.hide
        entry = entry._replace(
            operation=hide(entry.operation), target=hide(entry.target), reason=hide(entry.reason),
            fields=self.masks.hide_fields(fields),
        )  # fmt: skip
        if is_note(entry.kind):
            return self._note(entry)
        return self.fill(form(entry), entry.request, entry.now)

    def fill(self, form: Form, request: str, now: float) -> int:
        """Add an event whose form was built before; return its number."""
        before, digest = self._tail or self._end()
        seq = (self._last or self.last) + 1
        body = form.json_for(request, now)
        if seq != before + 1:
            body = f"{AFTER}{before},{body[1:]}"
        self._added[seq] = data = body.encode()
        digest = sha256(digest + data).digest()
        self._db.later(_INSERT, (seq, digest, body))
        self._tail, self._last, self._unsealed = (seq, digest), seq, True
        if self._heads.end == seq - 1:
            head = EventHead(seq, form.kind, form.caller, form.target, now, form.operation)
            self._heads.add(seq - 1, head)
        return seq

    def _note(self, entry: AuditEntry) -> int:
        seq = self.last + 1
        head = EventHead(seq, entry.kind, entry.caller, entry.target, entry.now)
        self.notes.add(head, form(entry).json_for(entry.request, entry.now))
        self._last, self._unsealed = seq, True
        return seq

    def page(self, after: int, limit: int) -> list[Event]:
        """The events after number `after`, oldest first."""
        rows = [*self.raw(after, limit), *self.notes.raw(after, limit)]
        return [self._read(*row) for row in sorted(rows)[:limit]]

    def get(self, seq: int) -> Event | None:
        """The event with this number, if it was not pruned."""
        return next(self.some([seq]), None)

    def raw(self, after: int, limit: int) -> list[tuple[int, bytes, str]]:
        """Number, digest and canonical JSON of the next events of the chain, not parsed."""
        return self._db.readable_rows(
            "SELECT seq, digest, body FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
            (after, limit),
        )

    def time_behind(self, after: int) -> float | None:
        """The time of the next event of the chain; None where it is not known."""
        heads = (head_of(seq, body) for seq, _, body in self.raw(after, _FEW))
        return next((head.time for head in heads if head.kind != DAMAGED_EVENT), None)

    def heads(self, after: int, limit: int) -> list[EventHead]:
        """Heads of the next `limit` events after number `after`, mostly from memory."""
        return self._heads.next(after, limit)

    def some(self, numbers: Sequence[int]) -> Iterator[Event]:
        """The events with these numbers, in order, read a few at a time as they are consumed."""
        for start in range(0, len(numbers), _FEW):
            part = numbers[start : start + _FEW]
            rows = self._db.readable_rows(
                "SELECT seq, digest, body FROM events"
                " WHERE seq IN (SELECT value FROM json_each(?))",
                (json.dumps(part),),
            )
            if len(rows) < len(part):
                rows += self.notes.some(part)
            yield from (self._read(*row) for row in sorted(rows))

    def about_task(self, task: str, after: int, until: int) -> frozenset[int]:
        """Numbers of the events about a task in a range of numbers.

        In JSON a quote inside a text is escaped, so only a field of this name can match.
        """
        pattern = f'"task":"{task}"'
        sql = "SELECT seq FROM {} WHERE seq > ?1 AND seq <= ?2 AND instr(body, ?3)"
        rows = [
            row for table in ("events", "notes")
            for row in self._db.rows(sql.format(table), (after, until, pattern))
        ]  # fmt: skip
        return frozenset(seq for (seq,) in rows)

    @property
    def base(self) -> int:
        """The number of the last event that was pruned from the chain."""
        return self._marks.end("events_base")[0]

    def _load(self, after: int, limit: int) -> list[EventHead]:
        sql = "SELECT seq, body FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
        rows = self._db.readable_rows(sql, (after, limit))
        heads = [self._with_time(head_of(*row)) for row in rows]
        return sorted([*heads, *self.notes.heads(after, limit)])[:limit]

    def _read(self, seq: int, digest: bytes, body: str) -> Event:
        event = parse_event(seq, digest, body)
        if event.kind != DAMAGED_EVENT:
            return event
        return replace(event, time=self._time_before(seq))

    def _with_time(self, head: EventHead) -> EventHead:
        if head.kind != DAMAGED_EVENT:
            return head
        return head._replace(time=self._time_before(head.seq))

    def _time_before(self, seq: int) -> float:
        """When a damaged event was written, about: the time of the last whole one before it."""
        rows = self._db.readable_rows(
            "SELECT seq, body FROM events WHERE seq < ? ORDER BY seq DESC LIMIT ?", (seq, _FEW)
        )
        heads = (head_of(*row) for row in rows)
        return next((head.time for head in heads if head.kind != DAMAGED_EVENT), 0.0)

    @property
    def last(self) -> int:
        """The number of the newest event."""
        if self._last is None:
            sealed, noted = self._db.row(
                "SELECT (SELECT value FROM meta WHERE key = 'events_last'), MAX(seq) FROM notes"
            ) or (None, None)
            self._last = max(self._end()[0], int(sealed or 0), int(noted or 0))
        return self._last

    def verify(self) -> int | None:
        """The first number at which the chain is broken, or None."""
        return run_to_end(self.walk())

    def walk(self) -> Generator[None, None, int | None]:
        """Verify with a pause after each page, during which events may be added or pruned."""
        end, shares = self._marks.end("events_base"), Counter[str]()
        while rows := self.raw(end[0], _PAGE):
            for seq, stored, body in rows:
                before = number_before(seq, body)
                end = self._over_gaps(end, before)
                if before != end[0]:
                    return end[0] + 1
                end = (seq, link(end[1], body))
                if stored != end[1]:
                    return seq  # what it says is not read: it may be no event at all
                shares[payer_of(body)] += len(body.encode()) + AROUND
            if len(rows) < _PAGE:
                break
            yield
            base = self._marks.end("events_base")
            end = base if base[0] > end[0] else end
        tail = self._marks.end("events_tail")
        end = self._over_gaps(end, tail[0])
        self.thinning.shares = shares
        return None if end == tail else end[0] + 1

    def check_slice(self, after: int, most: int) -> ChainSlice:
        """Check the events after a number, at most so many, against the digest stored with it.

        A number that was pruned meanwhile is as good as the beginning.
        """
        base = self._marks.end("events_base")
        row = self._db.row("SELECT seq, digest FROM events WHERE seq = ?", (after,))
        end = base if row is None or row[0] <= base[0] else (row[0], row[1])
        rows = self.raw(end[0], most)
        for checked, (seq, stored, body) in enumerate(rows):
            before = number_before(seq, body)
            end = self._over_gaps(end, before)
            if before != end[0]:
                return ChainSlice(checked, end[0], end[0] + 1, is_end=True)
            if stored != link(end[1], body):
                return ChainSlice(checked, end[0], seq, is_end=True)
            end = (seq, stored)
        if len(rows) == most:
            return ChainSlice(most, end[0], None, is_end=False)
        tail = self._marks.end("events_tail")
        end = self._over_gaps(end, tail[0])
        broken = None if end == tail else end[0] + 1
        return ChainSlice(len(rows), end[0], broken, is_end=True)

    def _over_gaps(self, end: End, to: int) -> End:
        """The position of the chain after old notes and thinned events that follow `end`."""
        while end[0] < to:
            behind = self._over_notes(self.thinning.over(end))
            if behind == end:
                break
            end = behind
        return end

    def _over_notes(self, end: End) -> End:
        sql = "SELECT last, digest FROM moved_notes WHERE first = ?"
        row = self._db.row(sql, (end[0] + 1,))
        return end if row is None else (row[0], row[1])

    def prune(self, before: int) -> int:
        """Delete events below number `before`, where the chain then begins; return how many."""
        row = self._db.row(
            "SELECT seq, digest FROM events WHERE seq < ? ORDER BY seq DESC LIMIT 1", (before,)
        )
        if row is None:
            return 0
        self.thinning.forget_below(before)
        count, size = self._marks.sum_below(before)
        self._marks.keep("events_base", (row[0], row[1]))
        self._marks.grow(-count, -size)
        self._db.run("DELETE FROM moved_notes WHERE last <= ?", (row[0],))
        self.thinning.forget(row[0])
        return self._db.run("DELETE FROM events WHERE seq < ?", (before,))

    def size(self) -> tuple[int, int]:
        """The number of events in the chain, and of bytes, at the last COMMIT."""
        return self._marks.size()

    def seal(self) -> None:
        """Store the end of the chain, and prune to the limits. Called before COMMIT."""
        if not self._unsealed:
            return
        end, added = self._end(), self._added
        if added:
            self._marks.extend(end, len(added), sum(map(len, added.values())) + AROUND * len(added))
            self.thinning.came(added.values())
            self._shorten()
            self._added = {}
        if self.last > end[0]:
            # The newest notes may be pruned; this prevents reuse of their numbers.
            self._db.run("INSERT OR REPLACE INTO meta VALUES ('events_last', ?)", (str(self.last),))
        self.notes.seal()
        self._unsealed = False

    def _shorten(self) -> None:
        """Prune events above the limits, taking them from the branch that has the most.

        The number is limited so that a COMMIT stays short, and is higher than what the COMMIT
        added. The excess may reach a sixteenth of the limit; then the oldest events of all are
        pruned.
        """
        count, size = self.size()
        most, bytes_most = self._limits.events, self._limits.events_bytes
        if count <= most and size <= bytes_most:
            return
        over = max(count - most, (size - bytes_most) / bytes_most * most)
        # A little more than needed, so that not every COMMIT has to prune.
        thinned = self.thinning.thin(
            count - most + most // _SLACK, size - bytes_most + bytes_most // _SLACK
        )
        if thinned and over * 16 < most:
            return
        cut, (count, size) = 0, self.size()
        for seq, length in self._db.rows(
            "SELECT seq, length(CAST(body AS BLOB)) FROM events ORDER BY seq LIMIT ?", (_PAGE,)
        ):
            if count <= most and size <= bytes_most:
                break
            cut, count, size = seq + 1, count - 1, size - length - AROUND
        self.prune(cut)

    def _forget(self) -> None:
        """Drop cached state after a rollback."""
        self._tail = self._last = None
        self._heads.forget()

    def _end(self) -> End:
        if self._tail is None:
            row = self._db.row("SELECT seq, digest FROM events ORDER BY seq DESC LIMIT 1")
            last = (row[0], row[1]) if row else self._marks.end("events_base")
            # The position of the mark, not of the table, so that a truncation stays detectable.
            sealed = self._marks.end("events_tail")
            self._tail = tail = sealed if sealed[0] >= last[0] else last
            # After a rollback to a savepoint.
            self._added = {seq: data for seq, data in self._added.items() if seq <= tail[0]}
        return self._tail
