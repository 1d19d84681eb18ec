"""The audit log: numbers in order and a hash chain, so that an edit or a deletion is found.

digest = SHA-256(previous digest + canonical JSON). The end of the chain stands in `meta` too, so
that cutting off the tail is found as well; pruning moves its beginning.

What agents note (`notes.py`) has numbers of the same counter and is in no chain. The event behind
notes says in `after` which number the chain had before, so that a missing number is explained by
what the digest covers. Of notes that older versions put into the chain the digests are kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from hashlib import sha256
from json.encoder import encode_basestring as _quoted
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from hive_core.ledger.connection import Connection
from hive_core.ledger.heads import Head, Heads, head_of
from hive_core.ledger.notes import Notes, is_note
from hive_core.ledger.tally import Tally
from hive_core.ledger.traces import Traces
from hive_core.model.masks import Masks
from hive_core.model.record import Event
from hive_core.model.settings import Bounds

# Number and digest of an event.
End = tuple[int, bytes]
_START: Final = (0, bytes(32))
_PAGE: Final = 1000
# Events whose texts are read at once: whoever has a page full reads no more.
_FEW: Final = 16
# Bytes of an event beside its text.
_AROUND: Final = 64
_AFTER: Final = '{"after":'


class Entry(NamedTuple):
    """What one event says. Parties are UUIDs; the names of that time stand in `fields`."""

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
_WORDS: Final = {None: "null", True: "true", False: "false"}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


class Form(NamedTuple):
    """An event but for its request and its time, which differ where all else is often the same."""

    head: str
    tail: str

    def filled(self, request: str, now: float) -> str:
        """JSON without blanks and with sorted keys: what the digest covers."""
        return f"{self.head}{_quoted(request)}{self.tail}{now!r}}}"


def form(entry: Entry) -> Form:
    """Written out, because the keys are always the same ones: a quarter of an encoder's time."""
    kind, caller, operation, target, allowed, rule, reason, commit, _, _, fields = entry
    more = ",".join([
        f"{_quoted(key)}:{_quoted(value) if type(value) is str else _encode(value)}"
        for key, value in sorted(fields.items())
    ])  # fmt: skip
    head = (
        f'{{"allowed":{_WORDS[allowed]},"caller":{_quoted(caller)},"commit":{_quoted(commit)},'
        f'"fields":{{{more}}},"kind":{_quoted(kind)},"operation":{_quoted(operation)},'
        f'"reason":{_quoted(reason)},"request":'
    )
    return Form(head, f',"rule":{_quoted(rule)},"target":{_quoted(target)},"time":')


def _link(before: bytes, body: str) -> bytes:
    return sha256(before + body.encode("utf-8", "surrogatepass")).digest()


def parsed(seq: int, digest: bytes, body: str) -> Event:
    what: dict[str, Any] = json.loads(body)
    what.pop("after", None)
    fields = MappingProxyType(what.pop("fields"))
    return Event(seq=seq, **what, fields=fields, digest=digest.hex())


def number_before(seq: int, body: str) -> int:
    """The number that the chain had before this event."""
    if not body.startswith(_AFTER):
        return seq - 1
    return int(body[len(_AFTER) : body.index(",")])


class Events:
    def __init__(self, connection: Connection, limits: Bounds | None = None) -> None:
        self._db = connection
        self._limits = limits or Bounds()
        # Where the chain ends, and the newest number of all, with what this transaction added.
        self._tail: End | None = None
        self._last: int | None = None
        self._unsealed = False
        self._heads = Heads(self._load)
        self._traces = Traces(connection)
        self.notes = Notes(connection, self._limits)
        self.tally = Tally(connection)
        # Secrets that must not stand in it; whoever keeps secrets says which.
        self.masks = Masks()
        connection.undo.always(self._forget)
        self._reads: Counter[tuple[str, str]] = Counter()

    def append(self, entry: Entry) -> int:
        """Add one line to the log; its number. It is in the table before anybody looks there.

        What is about a task bears its trace.
        """
        fields, task = entry.fields, entry.fields.get("task")
        if task and isinstance(task, str) and "trace" not in fields:
            fields = {**fields, "trace": self._traces.of(task)}
        hide = self.masks.hide
        entry = entry._replace(
            operation=hide(entry.operation), target=hide(entry.target), reason=hide(entry.reason),
            fields=self.masks.clean(fields),
        )  # fmt: skip
        if is_note(entry.kind):
            return self._note(entry)
        return self.fill(form(entry), entry.request, entry.now)

    def fill(self, form: Form, request: str, now: float) -> int:
        """The same for one whose form is known."""
        before, digest = self._tail or self._end()
        seq = (self._last or self.last) + 1
        body = form.filled(request, now)
        if seq != before + 1:
            body = f"{_AFTER}{before},{body[1:]}"
        digest = sha256(digest + body.encode()).digest()
        self._db.later(_INSERT, (seq, digest, body))
        self._tail, self._last, self._unsealed = (seq, digest), seq, True
        return seq

    def _note(self, entry: Entry) -> int:
        seq = self.last + 1
        head = Head(seq, entry.kind, entry.caller, entry.target, entry.now)
        self.notes.add(head, form(entry).filled(entry.request, entry.now))
        self._last, self._unsealed = seq, True
        return seq

    def page(self, after: int, limit: int) -> list[Event]:
        """The events behind number `after`, oldest first."""
        rows = [*self.raw(after, limit), *self.notes.raw(after, limit)]
        return [parsed(*row) for row in sorted(rows)[:limit]]

    def get(self, seq: int) -> Event | None:
        """The event with this number, if it is kept."""
        return next(self.some([seq]), None)

    def raw(self, after: int, limit: int) -> list[tuple[int, bytes, str]]:
        """Number, digest and canonical JSON of the next of the chain, taken apart by nobody."""
        return self._db.rows(
            "SELECT seq, digest, body FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
            (after, limit),
        )

    def time_behind(self, after: int) -> float | None:
        """When the next event of the chain was."""
        return next((head_of(seq, body).time for seq, _, body in self.raw(after, 1)), None)

    def heads(self, after: int, limit: int) -> list[Head]:
        """Heads of the next `limit` events behind number `after`, mostly from memory."""
        return self._heads.next(after, limit)

    def some(self, numbers: Sequence[int]) -> Iterator[Event]:
        """The events with these numbers, in order; read a few at a time, as they are asked for."""
        for start in range(0, len(numbers), _FEW):
            part = numbers[start : start + _FEW]
            rows = self._db.rows(
                "SELECT seq, digest, body FROM events"
                " WHERE seq IN (SELECT value FROM json_each(?))",
                (json.dumps(part),),
            )
            if len(rows) < len(part):
                rows += self.notes.some(part)
            yield from (parsed(*row) for row in sorted(rows))

    @property
    def base(self) -> int:
        """Number of the last event of the chain that was forgotten."""
        return self._mark("events_base")[0]

    def _load(self, after: int, limit: int) -> list[Head]:
        heads = [head_of(seq, body) for seq, _, body in self.raw(after, limit)]
        return sorted([*heads, *self.notes.heads(after, limit)])[:limit]

    @property
    def last(self) -> int:
        """Number of the newest event."""
        if self._last is None:
            sealed, noted = self._db.row(
                "SELECT (SELECT value FROM meta WHERE key = 'events_last'), MAX(seq) FROM notes"
            ) or (None, None)
            self._last = max(self._end()[0], int(sealed or 0), int(noted or 0))
        return self._last

    def verify(self) -> int | None:
        """The first number at which the chain is broken, or None."""
        walk = self.walk()
        while True:
            try:
                next(walk)
            except StopIteration as end:
                found: int | None = end.value
                return found

    def walk(self) -> Generator[None, None, int | None]:
        """The same, with a pause after each page: events may be added or pruned meanwhile."""
        end = self._mark("events_base")
        while rows := self.raw(end[0], _PAGE):
            for seq, stored, body in rows:
                before = number_before(seq, body)
                end = end if before == end[0] else self._over_notes(end)
                if before != end[0]:
                    return end[0] + 1
                end = (seq, _link(end[1], body))
                if stored != end[1]:
                    return seq
            if len(rows) < _PAGE:
                break
            yield
            base = self._mark("events_base")
            end = base if base[0] > end[0] else end
        tail = self._mark("events_tail")
        end = end if end == tail else self._over_notes(end)
        return None if end == tail else end[0] + 1

    def _over_notes(self, end: End) -> End:
        """Where the chain goes on behind notes that stood in it once."""
        sql = "SELECT last, digest FROM moved_notes WHERE first = ?"
        row = self._db.row(sql, (end[0] + 1,))
        return end if row is None else (row[0], row[1])

    def count(self, caller: str, operation: str) -> None:
        """Count an allowed read; in memory, because a read must cost no fsync."""
        self._reads[caller, operation] += 1

    def counts(self) -> dict[tuple[str, str], int]:
        """How often each caller ran each reading operation."""
        found = Counter(self._reads)
        for caller, operation, count in self._db.rows("SELECT caller, operation, count FROM reads"):
            found[caller, operation] += count
        return dict(found)

    def reads_of(self, caller: str) -> dict[str, int]:
        """The same of one caller, by operation."""
        here = {name: count for (who, name), count in self._reads.items() if who == caller}
        found = Counter(here)
        sql = "SELECT operation, count FROM reads WHERE caller = ?"
        for name, count in self._db.rows(sql, (caller,)):
            found[name] += count
        return dict(found)

    def keep_counts(self) -> None:
        """Write the counted reads down; for now and then, and for a clean stop."""
        self._db.run_each(
            "INSERT INTO reads (caller, operation, count) VALUES (?, ?, ?)"
            " ON CONFLICT DO UPDATE SET count = count + excluded.count",
            [(*key, count) for key, count in self._reads.items()],
        )
        self._db.undo.note(self._reads.update, Counter(self._reads))
        self._reads.clear()

    def prune(self, before: int) -> int:
        """Forget events below number `before`; the chain then begins there. How many."""
        row = self._db.row(
            "SELECT seq, digest FROM events WHERE seq < ? ORDER BY seq DESC LIMIT 1", (before,)
        )
        if row is None:
            return 0
        count, size = self._sum("seq < ?", before)
        self._keep("events_base", (row[0], row[1]))
        self._keep_size(-count, -size)
        self._db.run("DELETE FROM moved_notes WHERE last <= ?", (row[0],))
        return self._db.run("DELETE FROM events WHERE seq < ?", (before,))

    def size(self) -> tuple[int, int]:
        """How many events the chain has, and how many bytes; as of the last COMMIT."""
        text = self._db.value("SELECT value FROM meta WHERE key = 'events_size'")
        count, size = (text or "0 0").split()
        return int(count), int(size)

    def seal(self) -> None:
        """Before COMMIT: write down where the chain ends now, and keep all of it within bounds."""
        if not self._unsealed:
            return
        sealed, end = self._mark("events_tail"), self._end()
        if end != sealed:
            self._count(sealed[0])
            self._keep("events_tail", end)
            self._shorten()
        if self.last > end[0]:
            # The newest notes may be pruned: their numbers are not given again.
            self._db.run("INSERT OR REPLACE INTO meta VALUES ('events_last', ?)", (str(self.last),))
        self.notes.seal()
        self._unsealed = False

    def _shorten(self) -> None:
        """Forget the oldest events while there are too many, or too many bytes.

        At most so many at once that a COMMIT stays short, and more than it brought.
        """
        count, size = self.size()
        most, bytes_most = self._limits.events, self._limits.events_bytes
        if count <= most and size <= bytes_most:
            return
        cut = 0
        for seq, length in self._db.rows(
            "SELECT seq, length(CAST(body AS BLOB)) FROM events ORDER BY seq LIMIT ?", (_PAGE,)
        ):
            if count <= most and size <= bytes_most:
                break
            cut, count, size = seq + 1, count - 1, size - length - _AROUND
        self.prune(cut)

    def _count(self, after: int) -> None:
        """Add to the size what came behind this number."""
        count, size = self._sum("seq > ?", after)
        self._keep_size(count, size)

    def _sum(self, where: str, seq: int) -> tuple[int, int]:
        sql = (
            f"SELECT COUNT(*), COALESCE(SUM(length(CAST(body AS BLOB)) + {_AROUND}), 0)"  # noqa: S608
            f" FROM events WHERE {where}"
        )
        count, size = self._db.row(sql, (seq,)) or (0, 0)
        return int(count), int(size)

    def _keep_size(self, count: int, size: int) -> None:
        had = self.size()
        text = f"{max(0, had[0] + count)} {max(0, had[1] + size)}"
        self._db.run("INSERT OR REPLACE INTO meta VALUES ('events_size', ?)", (text,))

    def _forget(self) -> None:
        """After a rollback: what was remembered may never have been."""
        self._tail = self._last = None
        self._heads.forget()

    def _end(self) -> End:
        if self._tail is None:
            row = self._db.row("SELECT seq, digest FROM events ORDER BY seq DESC LIMIT 1")
            last = (row[0], row[1]) if row else self._mark("events_base")
            # Where the mark says, not where the table does: a tail that was cut off stays missed.
            sealed = self._mark("events_tail")
            self._tail = sealed if sealed[0] >= last[0] else last
        return self._tail

    def _mark(self, key: str) -> End:
        text = self._db.value("SELECT value FROM meta WHERE key = ?", (key,))
        if not text:
            return _START
        seq, digest = text.split()
        return int(seq), bytes.fromhex(digest)

    def _keep(self, key: str, end: End) -> None:
        self._db.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, f"{end[0]} {end[1].hex()}"))
