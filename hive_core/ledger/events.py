"""The audit log: gap-free numbers and a hash chain, so that an edit or a deletion is found.

digest = SHA-256(previous digest + canonical JSON). The end of the chain stands in `meta` too, so
that cutting off the tail is found as well; pruning moves its beginning.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from hashlib import sha256
from json.encoder import encode_basestring as _quoted
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from hive_core.ledger.connection import Connection
from hive_core.ledger.tally import Tally
from hive_core.ledger.traces import Traces
from hive_core.model.masks import Masks
from hive_core.model.record import Event

# Heads of events that are kept in memory, so that many who follow the log read it once.
_HEADS: Final = 8192
# Number and digest of an event.
End = tuple[int, bytes]
_START: Final = (0, bytes(32))
_PAGE: Final = 1000


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


class Head(NamedTuple):
    """What is asked of an event before anybody reads it."""

    seq: int
    kind: str
    caller: str
    target: str
    time: float


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
    fields = MappingProxyType(what.pop("fields"))
    return Event(seq=seq, **what, fields=fields, digest=digest.hex())


class Events:
    def __init__(self, connection: Connection) -> None:
        self._db = connection
        # Where the chain ends, with what this transaction added.
        self._tail: End | None = None
        self._unsealed = False
        self._heads: dict[int, Head] = {}
        self._traces = Traces(connection)
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
        return self.fill(form(entry), entry.request, entry.now)

    def fill(self, form: Form, request: str, now: float) -> int:
        """The same for one whose form is known."""
        seq, before = self._tail or self._end()
        body = form.filled(request, now)
        digest = sha256(before + body.encode()).digest()
        seq += 1
        self._db.later(_INSERT, (seq, digest, body))
        self._tail, self._unsealed = (seq, digest), True
        return seq

    def page(self, after: int, limit: int) -> list[Event]:
        """The events behind number `after`, oldest first."""
        return [parsed(*row) for row in self.raw(after, limit)]

    def raw(self, after: int, limit: int) -> list[tuple[int, bytes, str]]:
        """Number, digest and canonical JSON of the next events, taken apart by nobody."""
        return self._db.rows(
            "SELECT seq, digest, body FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
            (after, limit),
        )

    def heads(self, after: int, limit: int) -> list[Head]:
        """The same of the next `limit` events behind number `after`, mostly from memory."""
        found = []
        for seq in range(max(after, self.base) + 1, min(after + limit, self.last) + 1):
            if seq not in self._heads:
                self._load(seq, limit)
            if seq in self._heads:
                found.append(self._heads[seq])
        return found

    def some(self, numbers: Sequence[int]) -> list[Event]:
        """The events with these numbers, in order."""
        rows = self._db.rows(
            "SELECT seq, digest, body FROM events WHERE seq IN (SELECT value FROM json_each(?))"
            " ORDER BY seq",
            (json.dumps(list(numbers)),),
        )
        return [parsed(*row) for row in rows]

    @property
    def base(self) -> int:
        """Number of the last event that was forgotten: what is read goes on behind it."""
        return self._mark("events_base")[0]

    def _load(self, seq: int, limit: int) -> None:
        if len(self._heads) > _HEADS - limit:
            self._heads.clear()
        for event in self.page(seq - 1, limit):
            head = Head(event.seq, event.kind, event.caller, event.target, event.time)
            self._heads[event.seq] = head

    @property
    def last(self) -> int:
        """Number of the newest event."""
        return self._end()[0]

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
        seq, digest = self._mark("events_base")
        while rows := self.raw(seq, _PAGE):
            for found, stored, body in rows:
                seq, digest = seq + 1, _link(digest, body)
                if (found, stored) != (seq, digest):
                    return seq
            if len(rows) < _PAGE:
                break
            yield
            base = self._mark("events_base")
            seq, digest = base if base[0] > seq else (seq, digest)
        return None if (seq, digest) == self._mark("events_tail") else seq + 1

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
        row = self._db.row("SELECT seq, digest FROM events WHERE seq = ?", (before - 1,))
        if row is None:
            return 0
        self._keep("events_base", row)
        return self._db.run("DELETE FROM events WHERE seq < ?", (before,))

    def seal(self) -> None:
        """Before COMMIT: write down where the chain ends now."""
        if self._unsealed:
            self._keep("events_tail", self._end())
            self._unsealed = False

    def _forget(self) -> None:
        """After a rollback: what was remembered may never have been."""
        self._tail = None
        self._heads.clear()

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
