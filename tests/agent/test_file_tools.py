"""list, search and undo of `hive-agent tool`, and the parameters that a model writes (row K37)."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from fixtures.fake_broker import FakeBroker, fake_broker
from hypothesis import given
from hypothesis import strategies as st

from hive_core.agent import edit_history, file_walk, workspace
from hive_core.agent.tool import run_tool
from hive_core.agent.tool_input import TOOLS, command_words, parse_input
from hive_core.errors import Conflict, HiveError, InvalidArgument, LimitReached, NotFound, TimedOut

GRANT = uuid4().hex


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FakeBroker]:
    with fake_broker(tmp_path / "broker.sock") as made:
        made.answers = {
            "UseTool": lambda _: {"grant": GRANT, "tool": "x", "expires": 1.0},
            "EndTool": lambda _: {"grant": GRANT},
        }
        yield made


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "src" / "b.py").write_text("import os\ntwo = 2\n")
    (folder / "src" / "deep" / "c.bin").write_bytes(b"two\0two")
    monkeypatch.setenv("HIVE_WORKSPACE", str(folder))
    return folder


def run_json(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, tool: str, arguments: object
) -> int:
    """Run a tool with the arguments of a model."""
    data = io.BytesIO(json.dumps(arguments).encode())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=data))
    return run_tool(broker.path, ["--json", tool])


@pytest.mark.usefixtures("place")
def test_files_are_listed_level_by_level(
    broker: FakeBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_tool(broker.path, ["list"]) == 0
    assert capfd.readouterr().out.splitlines() == [
        "a.txt (8 bytes)", "src/", "src/b.py (18 bytes)", "src/deep/",
        "src/deep/c.bin (7 bytes)",
    ]  # fmt: skip
    assert run_tool(broker.path, ["ls", "src/deep"]) == 0
    assert capfd.readouterr().out == "src/deep/c.bin (7 bytes)\n"
    assert [asked["argument"] for asked in broker.params_of("UseTool")] == [[], ["src/deep"]]


def test_a_link_is_listed_and_not_followed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("two")
    (place / "out").symlink_to(tmp_path)
    assert "out (no plain file)" in file_walk.listing(place, "")[0]
    assert "secret" not in file_walk.listing(place, "")[0]
    with pytest.raises(InvalidArgument):
        file_walk.listing(place, "out/work")


def test_folders_of_other_programs_are_listed_and_not_entered(place: Path) -> None:
    (place / ".git").mkdir()
    (place / ".git" / "HEAD").write_text("two")
    text, _ = file_walk.listing(place, "")
    assert ".git/\n" in text
    assert "HEAD" not in text


def test_a_list_is_cut_at_its_bound_and_says_so(
    broker: FakeBroker, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for number in range(file_walk.ENTRIES_MOST):
        (place / f"f{number}").touch()
    assert run_tool(broker.path, ["list"]) == 0
    shown = capfd.readouterr()
    assert len(shown.out.splitlines()) == file_walk.ENTRIES_MOST
    assert "there are more entries" in shown.err


@pytest.mark.usefixtures("place")
def test_lines_that_match_are_named_with_their_place(
    broker: FakeBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_tool(broker.path, ["grep", "tw[o]"]) == 0
    assert capfd.readouterr().out == "a.txt:2: two\nsrc/b.py:2: two = 2\n"
    assert run_tool(broker.path, ["search", "two", "a.txt"]) == 0
    assert capfd.readouterr().out == "a.txt:2: two\n"
    assert run_tool(broker.path, ["search", "three"]) == 0
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}", "*"])
def test_what_is_no_regular_expression_is_refused(place: Path, pattern: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        file_walk.search(place, "", pattern, 5)
    assert refused.value.field == "pattern"


def test_a_search_that_does_not_end_is_ended(place: Path) -> None:
    (place / "bad").write_text("a" * 200)
    with pytest.raises(TimedOut, match="smaller folder"):
        file_walk.search(place, "bad", "(a|a)*b", 0.2)


def test_a_search_below_a_folder_that_is_not_there_is_refused(place: Path) -> None:
    with pytest.raises(HiveError, match="nothing"):
        file_walk.search(place, "nothing", "x", 5)


def test_matches_are_cut_at_their_bound(place: Path) -> None:
    (place / "many").write_text("two\n" * (file_walk.MATCHES_MOST + 1))
    text, more = file_walk.search(place, "many", "two", 5)
    assert (len(text.splitlines()), more) == (file_walk.MATCHES_MOST, True)
    (place / "wide").write_text(("two" * 900 + "\n") * 300)
    text, more = file_walk.search(place, "wide", "two", 5)
    assert len(text.encode()) <= workspace.MOST
    assert more


def test_an_undo_gives_back_what_was_there_edit_by_edit(place: Path) -> None:
    (place / "a.txt").chmod(0o755)
    edit_history.edit(place, "a.txt", "one", "1")
    edit_history.write(place, "a.txt", b"all new")
    edit_history.write(place, "new/file", b"x")
    assert edit_history.undo(place, "a.txt") == "a.txt is as before its last edit"
    assert (place / "a.txt").read_text() == "1\ntwo\n"
    edit_history.undo(place, "a.txt")
    assert (place / "a.txt").read_text() == "one\ntwo\n"
    assert (place / "a.txt").stat().st_mode & 0o777 == 0o755
    with pytest.raises(NotFound, match=r"no edit of a\.txt"):
        edit_history.undo(place, "a.txt")
    assert edit_history.undo(place, "new/file") == "new/file is deleted"
    assert not (place / "new" / "file").exists()


def test_an_undo_destroys_no_other_change(place: Path) -> None:
    edit_history.write(place, "a.txt", b"by the tool")
    (place / "a.txt").write_text("by a program")
    with pytest.raises(Conflict, match="has changed since"):
        edit_history.undo(place, "a.txt")
    assert (place / "a.txt").read_text() == "by a program"


def test_an_edit_that_was_never_made_is_passed_over(place: Path) -> None:
    """A process that ends between keeping the version and writing the file."""
    edit_history.write(place, "a.txt", b"first")
    edit_history._keep(place, "a.txt", b"second")
    edit_history.undo(place, "a.txt")
    assert (place / "a.txt").read_text() == "one\ntwo\n"


def test_a_version_that_is_too_large_is_not_kept_and_the_undo_says_so(place: Path) -> None:
    (place / "big").write_bytes(b"x" * (edit_history.VERSION_MOST + 1))
    edit_history.write(place, "big", b"small")
    with pytest.raises(LimitReached, match="was not kept"):
        edit_history.undo(place, "big")
    assert (place / "big").read_bytes() == b"small"


def test_the_versions_are_bounded_in_number_and_in_bytes(place: Path) -> None:
    for number in range(edit_history.VERSIONS_MOST + 5):
        edit_history.write(place, "a.txt", str(number).encode())
    folder = place / workspace.UNDO
    assert len(list(folder.iterdir())) == edit_history.VERSIONS_MOST
    for number in range(10):
        (place / "big").write_bytes(str(number).encode() * edit_history.VERSION_MOST)
        edit_history.write(place, "big", b"small")
    total = sum(path.stat().st_size for path in folder.iterdir())
    assert total <= edit_history.BYTES_MOST


def test_damaged_versions_are_passed_over(place: Path) -> None:
    edit_history.write(place, "a.txt", b"x")
    folder = place / workspace.UNDO
    (folder / "99999998").write_bytes(b"{not json\n")
    (folder / "99999999").write_bytes(b'{"path": "a.txt"}\nx')
    (folder / "note").write_text("not a version")
    edit_history.undo(place, "a.txt")
    assert (place / "a.txt").read_text() == "one\ntwo\n"


def test_a_model_edits_and_undoes_with_grants(
    broker: FakeBroker, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_json(broker, monkeypatch, "edit", {"path": "./a.txt", "old": "one", "new": "1"})
    assert (place / "a.txt").read_text() == "1\ntwo\n"
    run_json(broker, monkeypatch, "undo", {"path": "a.txt"})
    assert (place / "a.txt").read_text() == "one\ntwo\n"
    run_json(broker, monkeypatch, "write_file", {"path": "b", "new": "whole", "old": None})
    assert (place / "b").read_text() == "whole"
    asked = [(params["tool"], params["argument"]) for params in broker.params_of("UseTool")]
    assert asked == [("edit", ["a.txt"]), ("undo", ["a.txt"]), ("write_file", ["b"])]
    assert len(broker.params_of("EndTool")) == len(asked)


@pytest.mark.usefixtures("place")
def test_a_command_line_of_a_model_runs_in_the_workspace(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_json(broker, monkeypatch, "bash", {"command": "cat a.txt | wc -l; exit 3"}) == 3
    assert capfd.readouterr().out.strip() == "2"
    assert run_json(broker, monkeypatch, "bash", {"command": "ls src", "seconds": 5}) == 0
    first, second = broker.params_of("UseTool")
    assert first["argument"] == ["sh", "-c", "cat a.txt | wc -l; exit 3"]
    assert (second["argument"], second["seconds"]) == (["ls", "src"], 5.0)


LINES = {
    "git status": ("git", "status"),
    "  git   log  --oneline ": ("git", "log", "--oneline"),
    "git commit -m 'a b'": ("sh", "-c", "git commit -m 'a b'"),
    "git status; rm -r .": ("sh", "-c", "git status; rm -r ."),
    "echo $HOME": ("sh", "-c", "echo $HOME"),
    "ls *.py": ("sh", "-c", "ls *.py"),
    "A=1 env": ("sh", "-c", "A=1 env"),
    "ls\nrm x": ("sh", "-c", "ls\nrm x"),
    "cd ~": ("sh", "-c", "cd ~"),
    "ls # x": ("sh", "-c", "ls # x"),
    " ": (),
}


@pytest.mark.parametrize(("line", "words"), LINES.items())
def test_a_line_without_signs_of_the_shell_is_its_own_words(
    line: str, words: tuple[str, ...]
) -> None:
    """So an allow-list that names a program holds, and no shell runs where none is needed."""
    assert command_words(line) == words


WRONG = [
    ("read", b"[]", "arguments"), ("read", b"{", "arguments"), ("read", b"{}", "path"),
    ("read", b'{"path": 1}', "path"), ("read", b'{"path": "a", "start": -1}', "start"),
    ("read", b'{"path": "a", "start": true}', "start"), ("read", b'{"path": "a", "x": 1}', "x"),
    ("bash", b'{"command": ""}', "command"), ("bash", b'{"command": "a\\u0000"}', "command"),
    ("bash", b'{"command": "a", "seconds": 0}', "seconds"),
    ("bash", b'{"command": "a", "seconds": 1e9}', "seconds"),
    ("bash", b'{"command": ["a"]}', "command"), ("edit", b'{"path": "a"}', "new"),
    ("edit", b'{"path": "a", "new": "\\ud800"}', "new"), ("search", b'{"path": "a"}', "pattern"),
    ("undo", b"[" * 100_000, "arguments"),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "data", "field"), WRONG)
def test_wrong_arguments_are_refused_with_the_name_of_the_parameter(
    tool: str, data: bytes, field: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_input(tool, data)
    assert refused.value.field == field


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["path", "command", "new", "old", "start", "pattern", "seconds", "x"])


def field_of_error(tool: str, data: bytes) -> str | None:
    """The parameter that is refused; None where the input is a use."""
    try:
        use = parse_input(tool, data)
    except InvalidArgument as error:
        return error.field
    assert "\0" not in "".join(use.argument)
    return None


@given(st.sampled_from(TOOLS), st.dictionaries(NAMES, JSON, max_size=5))
def test_whatever_a_model_writes_is_a_use_or_a_typed_error(
    tool: str, arguments: dict[str, object]
) -> None:
    assert field_of_error(tool, json.dumps(arguments).encode()) != ""


@given(st.sampled_from(TOOLS), st.binary(max_size=200))
def test_bytes_that_are_not_json_are_a_typed_error(tool: str, data: bytes) -> None:
    assert field_of_error(tool, data) != ""
