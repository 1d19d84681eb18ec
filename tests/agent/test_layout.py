"""Tables: nothing wider than the terminal, and nothing that was folded begins a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_core.agent.layout import breadth, fold, table

UUID = "0212d3bd-f572-4a17-8725-c17ae4ddd9a5"


def test_what_fits_is_one_line_a_row() -> None:
    cells = [["ID", "TEXT"], ["1", "some words"], ["22", ""]]
    assert list(table(cells, 80)) == ["ID  TEXT", "1   some words", "22"]


def test_without_a_terminal_each_row_is_one_line_of_any_length() -> None:
    assert list(table([["ID", "TEXT"], ["1", "x" * 500]], None))[1] == f"1   {'x' * 500}"


def test_the_last_column_is_folded_between_its_words() -> None:
    cells = [["CHECK", "DETAIL"], ["quota", "there are no project quotas, so it counts"]]
    assert list(table(cells, 32)) == [
        "CHECK  DETAIL",
        "quota  there are no project",
        "       quotas, so it counts",
    ]


def test_where_little_room_is_left_the_last_column_stands_below() -> None:
    cells = [["ID", "WHO", "WHY"], [UUID, "operator", "not your descendant"], [UUID, "bob", "-"]]
    assert list(table(cells, 50)) == [
        f"{'ID':<36}  WHO",
        "      WHY",
        f"{UUID}  operator",
        "      not your descendant",
        f"{UUID}  bob",
    ]


def test_a_wide_column_of_words_gives_up_room_and_an_id_never_does() -> None:
    cells = [
        ["ID", "TITLE", "SAID"],
        [UUID, "a title of quite some length", "done and said, as asked"],
    ]
    lines = list(table(cells, 78))
    assert lines[1].startswith(f"{UUID}  a title of")
    assert all(breadth(line) <= 78 for line in lines)
    assert lines[2].split() == ["some", "length", "asked"]


def test_what_fits_in_no_way_is_a_list_of_values() -> None:
    cells = [["ID", "NEXT", "SAID"], [UUID, UUID, "x"], [UUID, "-", "y"]]
    assert list(table(cells, 60)) == [
        f"id    {UUID}", f"next  {UUID}", "said  x", "", f"id    {UUID}", "said  y",
    ]  # fmt: skip


def test_a_very_long_text_takes_three_lines() -> None:
    lines = list(table([["ID", "TEXT"], ["1", "word " * 20_000]], 40))
    assert len(lines) == 4
    assert lines[-1].endswith("…")


def test_colours_take_no_room() -> None:
    cells = [["STATE", "TEXT"], ["ok", "x " * 40]]
    painted = table(cells, 40, lambda word, shown: f"<{word}>{shown}</>" if word == "ok" else shown)
    assert list(painted)[1].startswith("<ok>ok   </>  x x")


@given(st.lists(st.lists(st.text(alphabet="a b漢", max_size=90), min_size=3, max_size=3),
                min_size=1, max_size=4), st.integers(50, 120))  # fmt: skip
def test_no_line_is_wider_than_the_terminal_nor_begins_with_what_was_folded(
    rows: list[list[str]], width: int
) -> None:
    cells = [["A", "B", "C"], *([f"#{at}", *row[1:]] for at, row in enumerate(rows))]
    lines = list(table(cells, width))
    assert all(breadth(line) <= width for line in lines)
    begin = [line[:2].strip() for line in lines if line[:1] not in ("", " ")]
    assert set(begin) <= {"A", "a", "b", "c", *(f"#{at}" for at in range(4))}


@pytest.mark.parametrize("text", ["", "one", "one two three", "x" * 50, "漢" * 30, "a  b  " * 9])
def test_folded_lines_are_all_of_the_text(text: str) -> None:
    pieces = fold(text, 10, 20)
    assert all(breadth(piece) <= 10 for piece in pieces)
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")


def test_headings_of_two_words_are_folded_before_anything_is_pushed_out() -> None:
    cells = [["NAME", "UNANSWERED FOR", "ORPHAN", "ZOMBIE SINCE"], ["root", "-", "no", "-"]]
    assert list(table(cells, 32)) == [
        "NAME  UNANSWERED  ORPHAN  ZOMBIE",
        "      FOR                 SINCE",
        "root  -           no      -",
    ]


def test_times_are_never_folded() -> None:
    cells = [["WHEN", "WHY"], ["2026-11-22 11:12:27", "because it was so long ago"]]
    assert list(table(cells, 30))[2] == "2026-11-22 11:12:27"


def test_what_is_to_be_copied_stays_in_one_piece() -> None:
    command = "hive question answer 120747bb9a89 TEXT"
    cells = [["KIND", "TEXT", "SETTLED BY"], ["question", "which of these ports is it?", command]]
    for width in (50, 60):
        lines = list(table(cells, width, whole={"SETTLED BY"}))
        assert any(command in line for line in lines)
