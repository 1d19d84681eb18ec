"""Tables that fit the terminal, and the one form of durations, sizes and times."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout

import click
import pytest
from cli.run import Hive
from each import for_each
from typing_extensions import override

from hive_core.agent.layout import breadth
from hive_core.cli.core.output import Column, moment, table
from hive_core.cli.core.parameters import SINCE, DurationType, parse_limits
from hive_core.cli.core.units import (
    format_duration,
    format_size,
    parse_duration,
    parse_size,
    quantity,
)

COLUMNS = (
    Column("id"), Column("state", priority=1), Column("agent"), Column("since", priority=2),
    Column("text"),
)  # fmt: skip
ROWS = [
    {"id": "3c5fd05d96ef", "state": "in progress", "agent": "writer", "since": "3d4h",
     "text": "a description that goes on and on until no terminal has room for it"},
    {"id": "a" * 12, "state": "done", "agent": "an-agent-with-a-name-of-32-letters", "since": "1m",
     "text": "short"},
]  # fmt: skip


class Terminal(io.StringIO):
    @override
    def isatty(self) -> bool:
        return True


@for_each("width", [200, 100, 80, 60, 50, 40, 30])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = list(table(ROWS, COLUMNS, width))
    assert len(lines) == 3
    assert max(map(breadth, lines)) <= width


def test_columns_are_dropped_by_priority_and_the_last_one_is_cut() -> None:
    headings = [next(iter(table(ROWS, COLUMNS, width))).split() for width in (200, 100, 80, 70)]
    assert headings == [
        ["ID", "STATE", "AGENT", "SINCE", "TEXT"], ["ID", "STATE", "AGENT", "SINCE", "TEXT"],
        ["ID", "STATE", "AGENT", "TEXT"], ["ID", "AGENT", "TEXT"],
    ]  # fmt: skip
    _, first, second = table(ROWS, COLUMNS, 80)
    assert first.endswith("…")
    assert second.endswith("short")


def test_a_whole_column_is_never_cut() -> None:
    columns = (Column("text", whole=True), Column("id"))
    lines = list(table(ROWS, columns, 40))
    assert ROWS[0]["text"] in lines[1]


def test_a_pipe_gets_every_column_uncut() -> None:
    lines = list(table(ROWS, COLUMNS, None))
    assert str(ROWS[0]["text"]) in lines[1]
    assert lines[0].split() == ["ID", "STATE", "AGENT", "SINCE", "TEXT"]


def test_the_heading_of_the_first_time_names_the_zone() -> None:
    columns = (Column("at", words=moment), Column("due", words=moment))
    heading, line = table([{"at": 1.0, "due": 2.0}], columns, None)
    assert re.fullmatch(r"AT \([^)]+\) +DUE", heading)
    assert "(" not in line


@pytest.fixture
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.usefixtures("_narrow")
def test_wide_output_has_all_columns_and_json_is_complete(hive: Hive) -> None:
    row = {"id": "m1", "sent_at": 1.0, "from": "bob", "relation": "descendant", "body": "x" * 300}
    hive.peer.answers["ListMessages"] = lambda _: {"messages": [row], "next": None}

    def inbox_table(*words: str) -> str:
        terminal = Terminal()
        with redirect_stdout(terminal):
            assert hive("inbox", *words).status == 0
        return terminal.getvalue()

    assert max(map(len, inbox_table().splitlines())) <= 80
    assert "x" * 300 in inbox_table("-o", "wide")
    assert "x" * 300 in inbox_table("-o", "json")
    assert "x" * 300 in hive("inbox").out


@for_each("seconds, text", [
    (0, "0s"), (2.5, "2.5s"), (59, "59s"), (3600, "1h"), (5400, "1h30m"), (93_784, "1d2h"),
])  # fmt: skip
def test_a_duration_is_printed_in_the_form_it_is_entered(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
    if seconds < 93_784:
        assert parse_duration(text) == seconds
    assert parse_duration(format_duration(int(seconds), parts=4)) == int(seconds)


def test_durations_have_bounds() -> None:
    grace = DurationType(0, 30)
    assert grace.convert("30s", None, None) == 30
    for text in ("31", "1m", "-1", "soon"):
        with pytest.raises(click.UsageError):
            grace.convert(text, None, None)


def test_since_takes_a_date_a_number_or_a_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 10_000.0)
    assert SINCE.convert("1h", None, None) == 6400
    assert SINCE.convert("5000", None, None) == 5000
    assert SINCE.convert("2030-01-31T09:00+00:00", None, None) == 1_896_080_400
    with pytest.raises(click.UsageError):
        SINCE.convert("yesterday", None, None)


@for_each(
    "number, text",
    [(0, "0"), (512 << 20, "512M"), (1 << 40, "1T"), (1536, "1.5K"), (7, "7")],
)
def test_a_size_is_printed_in_the_form_it_is_entered(number: int, text: str) -> None:
    assert format_size(number) == text
    if "." not in text:
        assert parse_size(text) == number


def test_limits_take_sizes() -> None:
    assert parse_limits(("memory_max=2G", "tasks_max=9")) == {"memory_max": 2 << 30, "tasks_max": 9}


@pytest.mark.parametrize("share", ["50", "50%"])
def test_a_quota_of_the_processor_is_a_share_and_no_size(share: str) -> None:
    assert parse_limits((f"cpu_quota={share}",)) == {"cpu_quota": 50}
    with pytest.raises(click.UsageError, match="cpu_quota: '5G' is not a share of a processor"):
        parse_limits(("cpu_quota=5G",))


def test_a_number_has_the_noun_that_fits_it() -> None:
    numbers: tuple[object, ...] = (0, 1, "1", 2, "~1")
    assert [quantity(number, "agent") for number in numbers] == [
        "0 agents", "1 agent", "1 agent", "2 agents", "~1 agents",
    ]  # fmt: skip


@for_each("words", [
    ("stop", "bob", "--grace", "31"), ("send", "bob", "hi", "--ttl", "soon"),
    ("task", "assign", "bob", "x", "--deadline", "5 m"), ("logs", "bob", "--since", "long ago"),
    ("move", "bob", "--parent", "root", "--when-idle", "2d"), ("reap", "--older", "x"),
])  # fmt: skip
def test_an_invalid_duration_is_wrong_usage_everywhere(hive: Hive, words: tuple[str, ...]) -> None:
    assert hive(*words).status == 2
    assert not hive.peer.calls


@for_each("words, method, key", [
    (("send", "bob", "hi", "--ttl", "1h30m"), "Send", "ttl"),
    (("task", "assign", "bob", "x", "--deadline", "1h30m"), "AssignTask", "deadline"),
    (("queue", "take", "bob/q", "--lease", "1h30m"), "Take", "lease"),
    (("remind", "bob", "x", "--in", "1h30m"), "Remind", "in"),
])  # fmt: skip
def test_a_duration_means_the_same_everywhere(
    hive: Hive, words: tuple[str, ...], method: str, key: str
) -> None:
    hive.peer.calls.clear()
    hive.peer.answers[method] = lambda _: {"id": "x", "task": "t", "things": [], "reminder": "r"}
    assert hive(*words).status == 0
    assert hive.peer.params_of(method)[0][key] == 5400
