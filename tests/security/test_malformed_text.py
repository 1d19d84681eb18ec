"""Malformed text, row R12: lines and marks of the journal, names, actions, what operators see."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st
from security.malformed import NAMES, TEXT, UUID, VALUES, is_refused, measure_input, some

from hive_core.agent.layout import breadth, cut
from hive_core.agent.output import as_json, plain
from hive_core.cli.core.output import Column, table, words
from hive_core.host.systemd import journal
from hive_core.model.names import name_fault
from hive_core.model.wire.record import LogQuery
from hive_core.plan.actions import KINDS, parse
from hive_core.plan.fields import Malformed

pytestmark = pytest.mark.sized


# The journal


class FakeJournal:
    """What a reader of the journal gives: fields that anybody may have written."""

    def __init__(self, entries: list[dict[str, object]]) -> None:
        self._entries = entries

    def get_next(self) -> dict[str, object]:
        return self._entries.pop() if self._entries else {}

    get_previous = get_next


# The journal counts from 1970 on, and of the first year Python makes no number of seconds.
MOMENTS = st.datetimes().filter(lambda moment: moment.year > 1)
ENTRIES = st.fixed_dictionaries({}, optional={
    "MESSAGE": TEXT | st.binary(max_size=40) | st.lists(TEXT, max_size=3) | st.integers()
    | st.from_regex(r"\A[\w.@-]{0,300}(\[\d*\]?)?:? ?.*\Z"),
    "__REALTIME_TIMESTAMP": MOMENTS | st.none() | TEXT,
    "__CURSOR": TEXT | st.none(),
})  # fmt: skip


@some
@given(st.lists(ENTRIES, max_size=5), TEXT, st.booleans(), st.none() | st.floats(0, 4e9))
def test_attack_45_every_journal_entry_is_a_line_of_its_own_unit(
    entries: list[dict[str, object]], grep: str, boot: bool, since: float | None  # noqa: FBT001
) -> None:  # fmt: skip
    query = LogQuery(uuid=UUID, unit="hive-agent@a.service", lines=10, grep=grep, since=since,
                     after="", boot=boot)  # fmt: skip
    with measure_input():
        forward = list(journal._forward(FakeJournal(list(entries)), query, 10))
        back = list(journal._backward(FakeJournal(list(entries)), query))
    for line in (*forward, *back):
        assert grep in line.text
        assert boot or line.unit == query.unit


@some
@given(st.text(max_size=1000) | st.from_regex(r"\A[sibmtx]=[0-9a-f]{0,40}(;[sibmtx]=[0-9a-f]*)*\Z"))
def test_attack_45_every_log_cursor_is_valid_or_refused(mark: str) -> None:
    query = LogQuery(uuid=UUID, unit="hive-agent@a.service", lines=1, grep="", since=None,
                     after=mark or "-", boot=False)  # fmt: skip
    is_refused(lambda: journal._read(query))


def test_attack_45_an_endless_line_is_split_in_time() -> None:
    query = LogQuery(uuid=UUID, unit="u", lines=1, grep="", since=None, after="", boot=True)
    for text in ("a" * 48_000, "[" * 48_000, "a[" + "1" * 48_000, ": " * 24_000, "a[1]" * 12_000):
        with measure_input():
            journal._line({"MESSAGE": text}, query)


# Names, actions, and what the operator sees


@some
@given(NAMES)
def test_attack_14_one_pattern_decides_what_a_name_is(name: str) -> None:
    with measure_input():
        fault = name_fault(name)
    if fault is None:
        assert re.fullmatch(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?", name, re.ASCII)
        assert "--" not in name
        assert not set(name) & set("/.:%$ \n\0@\\")


@some
@given(st.sampled_from(sorted(KINDS)), st.dictionaries(
    st.sampled_from(sorted({n for k in KINDS.values() for n in k.__dataclass_fields__})) | TEXT,
    VALUES, max_size=12))  # fmt: skip
def test_every_action_is_known_or_refused(kind: str, fields: dict[str, object]) -> None:
    is_refused(lambda: parse({**fields, "kind": kind}), Malformed)


def acts(char: str) -> bool:
    """Whether a character does something to a terminal, or hides."""
    kind = unicodedata.category(char)
    visible = (
        "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
    )
    return kind in ("Cc", "Cs", "Zl", "Zp") or (kind == "Cf" and char not in visible)


@some
@given(st.text(max_size=60))
def test_agent_text_never_acts_on_the_operators_terminal(text: str) -> None:
    with measure_input():
        shown = [words(text), words([text]), plain(text).replace("\n", "").replace("\t", "")]
        shown += table([{"a": text, "b": text}], [Column("a"), Column("b")], 40)
        as_text = as_json({"a": text, text: text}, 2)
    assert not any(acts(char) for line in shown for char in line)
    assert not any(acts(char) for char in as_text.replace("\n", ""))
    assert json.loads(as_text)["a"] == text


def test_every_control_character_is_spelled_out() -> None:
    chrs = [chr(code) for code in range(0x110000) if acts(chr(code))]
    assert [char for char in chrs if acts(plain(char)[0]) and char not in "\n\t"] == []


@for_each("char", ["x", "\u001b", "\u4e00", "\u202e", "\U0001f600"])
def test_a_table_cell_of_the_longest_text_is_cut_in_time(char: str) -> None:
    """A letter of 64 KiB in a table of the operator's."""
    text = char * (64 << 10)
    with measure_input():
        lines = list(table([{"a": "x", "b": text}], [Column("a"), Column("b")], 80))
    assert len(lines) <= 5
    assert max(map(breadth, lines)) <= 80
    assert cut("abc", 2) == "a…"
