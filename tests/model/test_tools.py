"""The table of tools and the entries of allow-lists (row T1)."""

from __future__ import annotations

import shlex

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import Role
from hive_core.model.agents.roles import ROLE_DEFAULTS, RoleBehaviour
from hive_core.model.work.tools import (
    TOOLS,
    ToolEntry,
    check_argument,
    find_tool,
    missing_entries,
    normalized_entries,
    parse_entry,
)

WORD = st.text("abgit.-_/=:", min_size=1, max_size=4).filter(lambda word: word not in (".", ".."))
ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
BASH = TOOLS["bash"]


@st.composite
def patterns(draw: st.DrawFn) -> ToolEntry:
    words = draw(st.none() | st.lists(WORD, min_size=1, max_size=3).map(tuple))
    return ToolEntry("bash", words, rest=draw(st.booleans()) if words else False)


def test_a_manager_executes_nothing_and_every_tool_of_a_role_is_in_the_table() -> None:
    """T1: managers plan and delegate."""
    for role, habit in ROLE_DEFAULTS.items():
        assert set(habit.tools) <= TOOLS.keys(), role
        assert bool(habit.tools) == (habit.behaviour is RoleBehaviour.WORKER), role
    managers = {
        role for role, habit in ROLE_DEFAULTS.items() if habit.behaviour is RoleBehaviour.MANAGER
    }
    assert managers == {Role.DAEMON, Role.AGENT, Role.LEAD}


@for_each(
    "name, tool",
    [
        ("file_reader", "read"), ("read_file", "read"), ("Read", "read"), ("command", "bash"),
        ("run_command", "bash"), ("edit_file", "edit"), ("write_file", "edit"), ("WRITE", "edit"),
    ],
)  # fmt: skip
def test_a_tool_has_one_name_and_the_aliases_of_the_seeds(name: str, tool: str) -> None:
    assert find_tool(name).name == tool


def test_an_unknown_tool_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidArgument, match="did you mean run_command"):
        find_tool("run_comand")


@for_each(
    "text, words, matches",
    [
        ("bash(git *)", ["git", "status"], True),
        ("bash(git *)", ["git"], True),
        ("bash(git *)", ["git", "status;", "rm"], True),  # one program, whose argument has a `;`
        ("bash(git *)", ["git status; rm"], False),
        ("bash(git *)", ["gitx"], False),
        ("bash(git *)", ["/tmp/git"], False),
        ("bash(git *)", ["sh", "-c", "git status"], False),
        ("bash(git status)", ["git", "status"], True),
        ("bash(git status)", ["git", "status", "x"], False),
        ("bash(git status)", ["git"], False),
        ("bash(*)", ["anything"], True),
        ("bash", ["anything"], True),
        ("bash()", [], None), ("bash(git * x)", [], None), ("bash(g*)", [], None),
        ("bash(a;b)", [], None), ("bash($(x))", [], None), ("bash(git", [], None),
        ("bash(git) x", [], None), ("bash('a b')", [], None), ("rm", [], None), ("", [], None),
    ],
)  # fmt: skip
def test_a_pattern_is_compared_word_by_word(
    text: str,
    words: list[str],
    matches: bool | None,  # noqa: FBT001
) -> None:
    if matches is None:
        with pytest.raises(InvalidArgument):
            parse_entry(text)
    else:
        assert parse_entry(text).matches(check_argument(BASH, words)) is matches


@for_each(
    "text, path, matches",
    [
        ("read(docs/*)", "docs/a/b.md", True), ("read(docs/*)", "docs", True),
        ("read(docs/*)", "docsx/a", False), ("read(docs/a.md)", "docs/a.md", True),
        ("read(docs/a.md)", "docs/b.md", False), ("read(docs/*)", "src/docs/a", False),
    ],
)  # fmt: skip
def test_a_path_is_compared_part_by_part(text: str, path: str, matches: bool) -> None:  # noqa: FBT001
    assert parse_entry(text).matches(check_argument(TOOLS["read"], [path])) is matches


@for_each("path", ["docs/../etc", "../x", "/etc", "docs//x", "./docs", "", "a\0b"])
def test_a_path_that_could_lead_elsewhere_is_no_argument(path: str) -> None:
    with pytest.raises(InvalidArgument):
        check_argument(TOOLS["read"], [path])


@given(patterns(), st.lists(ANY, min_size=1, max_size=5))
def test_nothing_matches_but_what_begins_with_the_very_words(
    pattern: ToolEntry, words: list[str]
) -> None:
    literal = list(pattern.words or ())
    begins = words[: len(literal)] == literal
    exact = pattern.words is None or pattern.rest or len(words) == len(literal)
    assert pattern.matches(words) == (begins and exact)


@given(patterns(), ANY)
def test_no_text_glued_to_an_allowed_word_gets_through(pattern: ToolEntry, glued: str) -> None:
    """`git status; rm` as one word is a program of that name, which does not exist."""
    if pattern.words is not None and glued:
        first, *others = pattern.words
        assert not pattern.matches([first + glued, *others])
        assert not pattern.matches([shlex.join([first, *others]) + ";" + glued])


@given(patterns(), patterns(), st.lists(WORD, max_size=5))
def test_a_pattern_that_covers_an_entry_matches_all_that_it_matches(
    one: ToolEntry, other: ToolEntry, words: list[str]
) -> None:
    if one.covers(other) and other.matches(words):
        assert one.matches(words)


@given(patterns())
def test_an_entry_reads_back_as_it_is_written(pattern: ToolEntry) -> None:
    assert parse_entry(str(pattern)) == pattern
    assert pattern.covers(pattern)


@given(st.lists(patterns(), max_size=5))
def test_a_list_in_its_one_spelling_allows_the_same(listed: list[ToolEntry]) -> None:
    texts = [str(entry) for entry in listed]
    result = normalized_entries(texts)
    assert missing_entries(result, texts) == missing_entries(texts, result) == ()
    assert normalized_entries(result) == result


@given(ANY)
def test_any_text_is_an_entry_or_refused(text: str) -> None:
    for entry in (text, f"bash({text})", f"read({text})"):
        try:
            result = parse_entry(entry)
        except InvalidArgument:
            continue
        assert parse_entry(str(result)) == result
