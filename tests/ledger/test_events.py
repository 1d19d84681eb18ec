"""The audit log: spec row H27, an edit or a deletion is found."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import pytest
from each import for_each
from fixtures.messages import UndoRequested, request_undo
from fixtures.seeds import empty_ledger, folder_in_ram
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import to_json

from hive_core.ledger.audit.event_heads import Heads
from hive_core.ledger.audit.event_json import form, parse_event
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.wire.record import Event


def append(ledger: Ledger, operation: str = "send", **fields: object) -> Event:
    entry = AuditEntry(
        "record", "anna", operation, "bob", allowed=True, rule="PARENT", reason="", commit="",
        request="r1", now=10.0, fields=fields,
    )  # fmt: skip
    (event,) = ledger.events.page(ledger.events.append(entry) - 1, 10)
    return event


def test_events_are_numbered_without_gaps_and_read_in_pages(ledger: Ledger) -> None:
    with ledger.transaction():
        written = [append(ledger, note=number) for number in range(5)]
    assert [event.seq for event in written] == [1, 2, 3, 4, 5]
    assert ledger.events.page(0, 3) + ledger.events.page(3, 3) == written
    assert ledger.events.last == 5
    assert ledger.events.page(5, 3) == []


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(deadline=None)
@given(
    words=st.tuples(*[TEXTS] * 8), allowed=st.none() | st.booleans(), now=st.floats(0, 1e10),
    fields=st.dictionaries(TEXTS, TEXTS | st.integers() | st.lists(TEXTS) | st.none(), max_size=4),
)  # fmt: skip
def test_an_event_is_canonical_json(
    words: tuple[str, ...],
    allowed: bool | None,  # noqa: FBT001
    now: float,
    fields: dict[str, object],
) -> None:
    """What the digest covers can be made again by anybody with a JSON library."""
    kind, caller, operation, target, rule, reason, commit, request = words
    entry = AuditEntry(
        kind, caller, operation, target, allowed, rule, reason, commit, request, now, fields
    )
    result = {key: value for key, value in entry._asdict().items() if key != "now"} | {"time": now}
    plain = json.dumps(result, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    assert form(entry).json_for(request, now) == plain


STEPS = st.lists(
    st.tuples(st.sampled_from(["event", "note", "undo", "read", "read far", "prune"]), TEXTS),
    max_size=25,
)  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(steps=STEPS)
def test_a_reader_who_follows_the_log_gets_what_the_ledger_holds(
    steps: list[tuple[str, str]],
) -> None:
    """Heads of events that are added behind a reader come from memory."""
    with folder_in_ram() as folder:
        empty_ledger().plant(folder)
        ledger = Ledger.open(folder / "hive.db", primed=0)
        log, after = ledger.events, 0
        for step, text in [*steps, ("read", "")]:
            kind = "own.build" if step == "note" else "record"
            entry = AuditEntry(kind, "anna", text, text, None, "", "", "", "r", 1.5)
            with suppress(UndoRequested), ledger.transaction():
                if step in ("event", "note", "undo"):
                    log.append(entry)
                if step == "undo":
                    request_undo()
                if step == "prune":
                    log.prune(max(1, log.last - 2))
            if step.startswith("read"):
                start = after if step == "read" else log.base
                heads = log.heads(start, 100)
                in_ledger = [head for head in heads if log.get(head.seq) is not None]  # not pruned
                assert in_ledger == Heads(log._load).next(start, 100)
                after = heads[-1].seq if heads else after
        ledger.close()


def test_events_behind_a_reader_are_read_from_memory(ledger: Ledger) -> None:
    log = ledger.events
    assert log.heads(0, 10) == []
    with ledger.transaction():
        written = [append(ledger, operation) for operation in ("send", "ack", 'a "b"')]
    log._heads._load = lambda _after, _limit: []
    assert [(head.seq, head.operation) for head in log.heads(0, 10)] == [
        (event.seq, event.operation) for event in written
    ]


def test_events_of_one_batch_are_one_chain(ledger: Ledger) -> None:
    entry = AuditEntry("record", "anna", "send", "bob", None, "", "", "", "r", 1.0)
    with ledger.transaction():
        assert [ledger.events.append(entry) for _ in range(3)] == [1, 2, 3]
        with suppress(UndoRequested), ledger.savepoint():
            ledger.events.append(entry)
            request_undo()
        assert ledger.events.append(entry) == 4
    assert ledger.events.last == 4
    assert ledger.events.verify() is None


def test_a_rollback_leaves_no_gap_and_no_broken_chain(ledger: Ledger) -> None:
    with ledger.transaction():
        append(ledger)
        with suppress(UndoRequested), ledger.savepoint():
            append(ledger)
            request_undo()
    with suppress(UndoRequested), ledger.transaction():
        append(ledger)
        request_undo()
    with ledger.transaction():
        assert append(ledger).seq == 2
    assert ledger.events.verify() is None


def test_a_call_that_fails_last_does_not_take_the_end_of_the_chain_with_it(folder: Path) -> None:
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        append(ledger)
        with suppress(UndoRequested), ledger.savepoint():
            request_undo()
    assert ledger.events.verify() is None
    ledger.close()
    with sqlite3.connect(folder / "hive.db") as raw:
        raw.execute("DELETE FROM events")
    raw.close()
    ledger = Ledger.open(folder / "hive.db", primed=0)
    assert ledger.events.verify() == 1
    ledger.close()


def test_the_chain_goes_on_over_a_restart(folder: Path) -> None:
    for expected in (1, 2, 3):
        ledger = Ledger.open(folder / "hive.db", primed=0)
        with ledger.transaction():
            assert append(ledger).seq == expected
        assert ledger.events.verify() is None
        ledger.close()


@pytest.mark.parametrize(
    ("sql", "broken"),
    [
        ("UPDATE events SET body = replace(body, 'anna', 'carl') WHERE seq = 4", 4),
        ("UPDATE events SET body = replace(body, 'anna', 'daemon') || ' ' WHERE seq = 4", 4),
        ("""UPDATE events SET body = '{"after":x' WHERE seq = 4""", 4),
        ("UPDATE events SET digest = zeroblob(32) WHERE seq = 4", 4),
        ("DELETE FROM events WHERE seq = 4", 4),
        ("DELETE FROM events WHERE seq = 1", 1),
        ("DELETE FROM events WHERE seq >= 9", 9),
        ("DELETE FROM events", 1),
        ("DELETE FROM events WHERE seq = 4; UPDATE events SET seq = seq - 1 WHERE seq > 4", 4),
        ("INSERT INTO events SELECT 11, digest, body FROM events WHERE seq = 10", 11),
    ],
)
def test_an_edit_or_a_deletion_is_found(folder: Path, sql: str, broken: int) -> None:
    empty_ledger().plant(folder)
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        for _ in range(10):
            append(ledger)
    ledger.close()
    raw = sqlite3.connect(folder / "hive.db")
    raw.executescript(sql)
    raw.close()
    ledger = Ledger.open(folder / "hive.db", primed=0)
    assert ledger.events.verify() == broken
    ledger.close()


@for_each("part, value", [
    ("fields", "x"), ("fields", []), ("allowed", {}), ("time", None), ("time", 10**400),
    ("kind", 1), ("reason", None), ("request", True),
])  # fmt: skip
def test_an_event_with_a_part_of_another_type_is_damaged(part: str, value: object) -> None:
    """Its reader would meet that later: hived copies events to the journal in a loop."""
    text = form(AuditEntry(
        "record", "anna", "send", "bob", allowed=True, rule="PARENT", reason="", commit="",
        request="r1", now=10.0, fields={},
    )).json_for("r1", 10.0)  # fmt: skip
    assert parse_event(7, b"", text).time == 10.0
    assert parse_event(7, b"", json.dumps({**json.loads(text), part: value})).kind == "damaged"


NO_EVENTS = [
    b"", b"{", b"[]", b'{"fields":1}', b'{"a":1} ', b'{"time":"x"}', b'{"a":"\xff\xfe"}',
    b"[" * 100_000,
]  # fmt: skip


def damaged_ledger(folder: Path, text: bytes) -> Ledger:
    """A ledger with three events, of which somebody has damaged the second."""
    empty_ledger().plant(folder)
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        for _ in range(3):
            append(ledger)
    ledger.close()
    with closing(sqlite3.connect(folder / "hive.db")) as raw, raw:
        raw.execute("UPDATE events SET body = CAST(? AS TEXT) WHERE seq = 2", (text,))
    return Ledger.open(folder / "hive.db", primed=0)


@pytest.mark.parametrize("text", NO_EVENTS)
def test_a_changed_event_hides_no_other_and_its_reader_is_told_what_is_wrong(
    folder: Path, text: bytes
) -> None:
    ledger = damaged_ledger(folder, text)
    log = ledger.events
    for events in (log.page(0, 3), list(log.some([1, 2, 3]))):
        assert [event.kind for event in events] == ["record", "damaged", "record"]
        # Without --more the command checks the first 200 events alone.
        assert "`hive call --more CheckEvents`" in events[1].reason
        assert (events[1].caller, events[1].target, events[1].allowed) == ("", "", None)
        assert events[1].time == events[0].time  # the log is in order of time
    heads = log.heads(0, 3)
    assert [(head.seq, head.kind) for head in heads][1] == (2, "damaged")
    assert (heads[1].caller, heads[1].target, heads[1].time) == ("", "", heads[0].time)
    ledger.close()


@pytest.mark.parametrize("text", NO_EVENTS)
def test_the_check_of_the_log_names_a_changed_event(folder: Path, text: bytes) -> None:
    ledger = damaged_ledger(folder, text)
    assert ledger.events.verify() == 2
    assert ledger.events.check_slice(0, 10).broken == 2
    ledger.close()


@pytest.mark.parametrize("text", NO_EVENTS)
def test_a_log_with_a_changed_event_is_pruned_as_any_other(folder: Path, text: bytes) -> None:
    ledger = damaged_ledger(folder, text)
    assert ledger.events.time_behind(1) == 10.0  # that of the event after it
    with ledger.transaction():
        ledger.events.thinning.shares = Counter({"": 10_000})
        assert ledger.events.thinning.thin(1, 1)
        assert ledger.events.prune(before=3) > 0
    ledger.close()


DEEP = "[" * 300 + "]" * 300


@for_each("part, value, kind", [
    ("10.0", "1e300", "damaged"), ("10.0", "-5", "damaged"), ("10.0", "NaN", "damaged"),
    ("10.0", "Infinity", "damaged"), ('"why"', '"\\ud800"', "damaged"),
    ('"field"', '"\\udfff"', "damaged"), ('"field"', DEEP, "damaged"),
    ('"field"', "9" * 5000, "damaged"), ('"field"', f"[{'[],' * 300}[]]", "record"),
    ('"field"', '"\\\\ud800"', "record"), ('"why"', '"\\ud83d\\ude00"', "record"),
])  # fmt: skip
def test_an_event_that_no_reader_can_write_is_damaged(part: str, value: str, kind: str) -> None:
    """A time beyond all calendars, half a character, lists in lists without end."""
    text = form(AuditEntry(
        "record", "anna", "send", "bob", allowed=True, rule="PARENT", reason="why", commit="",
        request="r1", now=10.0, fields={"text": "field"},
    )).json_for("r1", 10.0)  # fmt: skip
    event = parse_event(7, b"", text.replace(part, value))
    assert event.kind == kind
    assert to_json([event.time, event.reason, dict(event.fields)])


def test_pruning_keeps_the_chain_whole(ledger: Ledger) -> None:
    with ledger.transaction():
        for _ in range(10):
            append(ledger)
        assert ledger.events.prune(before=8) == 7
        assert ledger.events.prune(before=8) == 0
        assert append(ledger).seq == 11
    assert [event.seq for event in ledger.events.page(0, 100)] == [8, 9, 10, 11]
    assert ledger.events.verify() is None


def test_pruning_while_the_chain_is_followed_breaks_nothing(ledger: Ledger) -> None:
    with ledger.transaction():
        for _ in range(2500):
            append(ledger)
    walk = ledger.events.walk()
    next(walk)
    with ledger.transaction():
        ledger.events.prune(before=2200)
    with pytest.raises(StopIteration) as end:
        next(walk)
    assert end.value.value is None


def test_text_of_any_kind_can_stand_in_an_event(ledger: Ledger) -> None:
    with ledger.transaction():
        written = append(ledger, reason="Grüße \0 \u202e", nested={"a": [1, None, True]})
    assert ledger.events.page(0, 1) == [written]
    assert ledger.events.verify() is None


def test_reads_are_counted_and_kept_over_a_restart(folder: Path) -> None:
    ledger = Ledger.open(folder / "hive.db", primed=0)
    for _ in range(3):
        ledger.events.reads.count("anna", "whoami")
    with ledger.transaction():
        ledger.events.reads.keep_counts()
    ledger.events.reads.count("anna", "whoami")
    ledger.events.reads.count("anna", "whoami")
    assert ledger.events.reads.counts() == {("anna", "whoami"): 5}
    ledger.close()
    ledger = Ledger.open(folder / "hive.db", primed=0)
    assert ledger.events.reads.counts() == {("anna", "whoami"): 5}
    ledger.close()


def test_a_tail_that_was_cut_off_is_missed_for_ever(folder: Path) -> None:
    """Later events do not cover the gap."""
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        for _ in range(5):
            append(ledger)
    ledger.close()
    with sqlite3.connect(folder / "hive.db") as raw:
        raw.execute("DELETE FROM events WHERE seq >= 4")
    raw.close()
    ledger = Ledger.open(folder / "hive.db", primed=0)
    with ledger.transaction():
        assert append(ledger).seq == 6
    assert ledger.events.verify() == 4
    ledger.close()
