"""Attack 62: what agents note stands beside the audit chain, and is bounded in bytes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest
from fixtures.messages import UndoRequested, request_undo
from fixtures.seeds import Seed, empty_ledger, folder_in_ram
from hypothesis import given, settings
from hypothesis import strategies as st
from long import times

from hive_core.ledger.audit.event_heads import EventHead, head_of
from hive_core.ledger.audit.event_json import form
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.core.ledger import MIGRATIONS, Ledger
from hive_core.ledger.core.opening import migration_scripts, statements
from hive_core.model.config.settings import HostLimits

SMALL = HostLimits(notes_agent=1 << 16, notes_all=1 << 18)


def entry(kind: str, agent: str = "ann", text: str = "", now: float = 1.0) -> AuditEntry:
    fields = {"text": text}
    return AuditEntry(kind, agent, "x", agent, True, "SELF", "", "", "r", now, fields)  # noqa: FBT003


def write(ledger: Ledger, *kinds: str, agent: str = "ann", text: str = "") -> list[int]:
    with ledger.transaction():
        return [ledger.events.append(entry(kind, agent, text)) for kind in kinds]


@pytest.fixture
def small(folder: Path) -> Iterator[Ledger]:
    empty_ledger().plant(folder)
    with closing(Ledger.open(folder / "hive.db", limits=SMALL, primed=0)) as result:
        yield result


def test_attack_62_notes_have_numbers_of_the_log_and_no_place_in_its_chain(ledger: Ledger) -> None:
    assert write(ledger, "own.a", "record", "own.b", "own.c", "record", "own.d") == [*range(1, 7)]
    assert [event.seq for event in ledger.events.page(0, 9)] == [*range(1, 7)]
    assert [event.kind for event in ledger.events.page(2, 2)] == ["own.b", "own.c"]
    chain_rows = {event.seq for event in ledger.events.page(0, 9) if event.digest}
    assert chain_rows == {2, 5}
    assert ledger.events.verify() is None
    assert ledger.events.last == 6
    assert [event.kind for event in ledger.events.some([1, 2, 6])] == ["own.a", "record", "own.d"]


@pytest.mark.parametrize(
    ("sql", "broken"),
    [
        ("DELETE FROM events WHERE seq = 5", 3),
        ("UPDATE events SET seq = 7 WHERE seq = 5", 6),
        ("UPDATE events SET seq = 4 WHERE seq = 5", 4),
        ("DELETE FROM events WHERE seq = 2", 1),
        ("DELETE FROM notes", None),
    ],
)
def test_a_missing_number_is_explained_by_the_chain_alone(
    folder: Path, sql: str, broken: int | None
) -> None:
    path = folder / "hive.db"
    empty_ledger().plant(folder)
    with closing(Ledger.open(path, primed=0)) as ledger:
        write(ledger, "own.a", "record", "own.b", "own.c", "record", "record", "own.d", "record")
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute(sql)
    with closing(Ledger.open(path, primed=0)) as ledger:
        verify = ledger.events.verify()
    assert (verify is None) == (broken is None)


def test_numbers_are_not_given_again_when_the_newest_notes_are_gone(folder: Path) -> None:
    path = folder / "hive.db"
    with closing(Ledger.open(path, primed=0)) as ledger:
        write(ledger, "record", "own.a", "own.b")
        with ledger.transaction():
            assert ledger.events.notes.prune(before=9.0) == 2
    with closing(Ledger.open(path, primed=0)) as ledger:
        assert write(ledger, "record") == [4]
        assert ledger.events.verify() is None


def test_a_note_that_is_taken_back_leaves_nothing(small: Ledger) -> None:
    with small.transaction():
        with suppress(UndoRequested), small.savepoint():
            small.events.append(entry("own.a"))
            request_undo()
        assert small.events.append(entry("own.b")) == 1
        assert small.events.append(entry("record")) == 2
    assert [event.kind for event in small.events.page(0, 9)] == ["own.b", "record"]
    assert small.events.notes.size("ann") == small.events.notes.size()


def test_attack_62_the_notes_of_an_agent_push_out_only_its_own(small: Ledger) -> None:
    write(small, "own.a", "record", agent="bob")
    for _ in range(50):
        write(small, *["own.x"] * 4, text="x" * 4000)
    notes = small.events.notes
    assert notes.size("ann") <= SMALL.notes_agent
    assert notes.last_lost(["bob"]) == 0
    lost = notes.last_lost(["ann"])
    seqs = [event.seq for event in small.events.page(0, 500)]
    assert seqs == [1, 2, *range(lost + 1, 203)]
    assert len(seqs) > 10
    assert small.events.verify() is None


def test_attack_62_of_all_notes_the_branch_with_most_loses(small: Ledger) -> None:
    """An agent that creates others has no larger share than its branch."""
    notes = small.events.notes
    with small.transaction():
        notes.enter("bob", "b")
    write(small, "own.a", agent="bob", text="y" * 9000)
    for hand in range(40):
        with small.transaction():
            notes.enter(f"hand{hand}", "a")
        for _ in range(8):
            write(small, "own.x", agent=f"hand{hand}", text="x" * 4000)
    assert notes.size() <= SMALL.notes_all
    assert notes.last_lost(["bob"]) == 0
    assert notes.size("bob") > 9000
    assert small.events.page(0, 1)[0].caller == "bob"
    assert notes.last_lost() > 0


def test_what_is_lost_is_known_when_the_rows_of_agents_are_put_together(small: Ledger) -> None:
    for _ in range(10):
        write(small, *["own.x"] * 4, text="x" * 4000)
    notes = small.events.notes
    with small.transaction():
        while notes.prune(before=9.0):
            pass
        notes.tidy()
    assert notes.last_lost(["ann"]) == notes.last_lost(["eve"]) == 40
    assert notes.size("ann") == 0


def test_attack_62_the_chain_is_bounded_in_bytes_too(folder: Path) -> None:
    limits = HostLimits(events_bytes=1 << 20)
    with closing(Ledger.open(folder / "hive.db", limits=limits, primed=0)) as ledger:
        for _ in range(60):
            write(ledger, *["record"] * 10, text="x" * 4000)
        assert ledger.events.size()[1] <= limits.events_bytes
        rows = ledger.events.raw(0, 1000)
        assert ledger.events.size() == (len(rows), sum(len(row[2]) + 64 for row in rows))
        assert rows[-1][0] == 600
        assert ledger.events.verify() is None
        full = (folder / "hive.db").stat().st_size
        for _ in range(60):
            write(ledger, *["record"] * 10, text="x" * 4000)
        ledger.checkpoint()
        # What is freed is used again.
        assert (folder / "hive.db").stat().st_size < full + (1 << 20)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(deadline=None)
@given(
    kind=st.from_regex(r"\A[a-z][a-z0-9_.]{0,20}\Z"), target=TEXTS, now=st.floats(0, 1e10),
    fields=st.dictionaries(TEXTS | st.sampled_from(["kind", "target", "time"]), TEXTS, max_size=4),
    reason=TEXTS | st.sampled_from(['},"kind":"own.x"', ',"target":"bob"']),
    operation=TEXTS, after=st.booleans(),
)  # fmt: skip
def test_a_head_is_read_without_the_rest(  # noqa: PLR0913, PLR0917
    kind: str, target: str, now: float, fields: dict[str, str], reason: str, operation: str, *,
    after: bool,
) -> None:  # fmt: skip
    audit_entry = AuditEntry(
        kind, "ann", operation, target, None, "", reason, "", "", now, {"deep": fields}
    )
    body = form(audit_entry).json_for("r", now)
    body = f'{{"after":7,{body[1:]}' if after else body
    assert head_of(9, body) == EventHead(9, kind, "ann", target, now, operation)


def chain_rows(kinds: list[tuple[str, str, int]]) -> list[tuple[int, bytes, str]]:
    """Events as they stood in the chain before: kind, agent and size of the text of each."""
    digest, rows = bytes(32), []
    for seq, (kind, agent, size) in enumerate(kinds, 1):
        body = form(entry(kind, agent, "x" * size)).json_for("r", float(seq))
        digest = sha256(digest + body.encode()).digest()
        rows.append((seq, digest, body))
    return rows


@cache
def ledger_without_notes() -> Seed:
    """The schema from before notes had a table of their own."""
    with folder_in_ram() as folder:
        with closing(sqlite3.connect(folder / "hive.db", isolation_level=None)) as raw:
            raw.execute("PRAGMA journal_mode = WAL")
            for number, file in enumerate(migration_scripts(MIGRATIONS), 1):
                if file.name.endswith("_notes.sql"):
                    break
                for statement in statements(file.read_text()):
                    raw.execute(statement)
                raw.execute(f"PRAGMA user_version = {number}")
        return Seed.of(folder)


def older(path: Path, rows: list[tuple[int, bytes, str]]) -> None:
    """A ledger as it was before notes had a table of their own."""
    ledger_without_notes().plant(path.parent)
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
        if rows:
            tail = f"{rows[-1][0]} {rows[-1][1].hex()}"
            raw.execute("INSERT INTO meta VALUES ('events_tail', ?)", (tail,))


KINDS = st.tuples(
    st.sampled_from(["record", "own.step", "refusal"]), st.sampled_from(["ann", "bob"]),
    st.just(3),
)  # fmt: skip


@settings(deadline=None, max_examples=times(20, 200))
@given(before=st.lists(KINDS, max_size=12), behind=st.lists(KINDS, max_size=5))
def test_notes_of_an_older_ledger_are_moved_and_its_chain_stays_whole(
    before: list[tuple[str, str, int]], behind: list[tuple[str, str, int]]
) -> None:
    with folder_in_ram() as folder:
        path, rows = folder / "hive.db", chain_rows(before)
        older(path, rows)
        with closing(Ledger.open(path, primed=0)) as ledger:
            log = ledger.events
            assert log.verify() is None
            assert log.last == len(rows)
            assert [json.loads(row[2])["kind"] for row in rows] == [
                event.kind for event in log.page(0, 99)
            ]
            assert not [row for row in log.raw(0, 99) if '"kind":"own.' in row[2]]
            numbers = [write(ledger, kind, agent=agent)[0] for kind, agent, _ in behind]
            assert numbers == [*range(len(rows) + 1, len(rows) + len(behind) + 1)]
            assert log.verify() is None
            count, size = log.size()
            result = log.raw(0, 99)
            assert (count, size) == (len(result), sum(len(row[2].encode()) + 64 for row in result))
        with closing(sqlite3.connect(path)) as raw, raw:
            edited = raw.execute(
                "UPDATE events SET body = replace(body, 'SELF', 'ROOT') WHERE seq ="
                " (SELECT MIN(seq) FROM events)"
            )
            assert edited.rowcount in (0, 1)
        with closing(Ledger.open(path, primed=0)) as ledger:
            assert (ledger.events.verify() is None) == (not result)


def test_attack_62_a_ledger_that_is_full_of_notes_is_within_the_bounds_after_the_move(
    folder: Path,
) -> None:
    flood = [("own.x", "ann", 28_000)] * 1000
    rows = chain_rows([("record", "bob", 3), ("own.y", "bob", 3), *flood, ("record", "bob", 3)])
    older(folder / "hive.db", rows)
    with closing(Ledger.open(folder / "hive.db", primed=0)) as ledger:
        notes = ledger.events.notes
        assert ledger.events.verify() is None
        assert 1 << 19 < notes.size("ann") <= HostLimits().notes_agent
        assert notes.last_lost(["bob"]) == 0
        assert notes.last_lost(["ann"]) == 1002 - len(notes.raw(2, 5000))
        assert [event.seq for event in ledger.events.page(0, 2)] == [1, 2]
        # What the notes had is free for what comes.
        (free,) = ledger.connection.control("PRAGMA freelist_count")[0]
        assert free * 4096 > 20 << 20
