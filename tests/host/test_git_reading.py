"""What is refused at read time: a commit is a hive, or an error that names the file (attack 39)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.meta_repo import Meta, family, git, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_core.errors import InvalidArgument
from hive_core.host.git import files
from hive_core.model.agents.hive import Hive

BOB = json.loads(files.spec_bytes(spec(3)))
Spoil = Callable[[Path], object]


def spoil(meta: Meta, change: Spoil) -> str:
    """A commit by hand in which `change` had its way."""
    meta.change(family("anna", "bob"))
    change(meta.path)
    git(meta.path, "add", "-A")
    git(meta.path, "commit", "-q", "-m", "by hand")
    return git(meta.path, "rev-parse", "HEAD")


def topology(text: str) -> Spoil:
    return lambda path: (path / "topology.json").write_text(text)


def bob(**more: object) -> Spoil:
    return lambda path: (path / "agents/bob.json").write_text(json.dumps({**BOB, **more}))


def file(name: str, text: str) -> Spoil:
    return lambda path: (path / name).write_text(text)


def link(path: Path) -> None:
    (path / "agents/bob.json").unlink()
    (path / "agents/bob.json").symlink_to("anna.json")


def deep(path: Path) -> None:
    (path / "agents/bob.json").unlink()
    (path / "agents/bob.json").mkdir()
    (path / "agents/bob.json/inner.json").write_text("{}")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (topology('{"root": null, "anna": "bob", "bob": "anna"}'), "cycle"),
        (topology('{"root": null, "anna": "root", "bob": "bob"}'), "own parent"),
        (topology('{"root": null, "anna": "root", "bob": "carl"}'), "unknown"),
        (topology('{"root": null, "anna": "root"}'), "bob is not in both"),
        (topology('{"root": null, "anna": "root", "bob": 7}'), "neither a name nor null"),
        (topology('{"root": null, "anna": "root", "bob": "root", "bob": null}'), "duplicate"),
        (topology('{"root": null, "anna": "root", "B/b": "root"}'), "topology.json: the name"),
        (topology("{"), "topology.json: frame is not JSON"),
        (topology("[]"), "not a JSON object"),
        (topology(""), "topology.json"),
        (lambda path: (path / "topology.json").unlink(), "topology.json is missing"),
        (topology('{"a": ' * 40 + "1" + "}" * 40), "deeper"),
        (topology(json.dumps({"x": "y" * (1 << 20)})), "larger than"),
        (bob(color="red"), "agents/bob.json: color"),
        (bob(uuid="nonsense"), "agents/bob.json: uuid"),
        (bob(uuid=spec(2).id), "share a short id"),
        (bob(role="kernel"), "agents/bob.json: role"),
        (bob(title="x" * 100_000), "larger than 65536"),
        (bob(limits={"memory_max": -1}), "agents/bob.json: limits.memory_max"),
        (file("agents/carl.json", json.dumps({**BOB, "uuid": spec(9).id})), "carl is not in both"),
        (file("agents/notes.txt", "hello"), "is not named AGENT.json"),
        (file("agents/Bob.json", "{}"), "is not named AGENT.json"),
        (link, "agents/bob.json is not a regular file"),
        (deep, "agents/bob.json is not a regular file"),
    ],
)
def test_an_invalid_commit_is_refused_by_name(meta: Meta, change: Spoil, says: str) -> None:
    oid = spoil(meta, change)
    with pytest.raises(InvalidArgument, match=says):
        meta.repo.read(oid)


def test_a_tree_that_is_too_deep_is_refused(meta: Meta) -> None:
    hive = Hive(depth_limit=64).with_agent("a0", None, spec(1))
    for number in range(1, 33):
        hive = hive.with_agent(f"a{number}", f"a{number - 1}", spec(number + 1))
    oid = meta.repo.write(hive, Hive(), "deep", {})
    with pytest.raises(InvalidArgument, match="deeper than 32"):
        meta.repo.read(oid)


@settings(max_examples=100)
@given(st.binary(max_size=300))
def test_no_bytes_break_the_readers(data: bytes) -> None:
    for read in (files.read_topology, lambda content: files.read_spec(content, "agents/x.json")):
        try:
            read(data)
        except InvalidArgument:
            continue


@given(st.text(max_size=200), st.lists(st.text(max_size=20), max_size=5))
def test_any_spec_is_read_back_as_it_was(title: str, command: list[str]) -> None:
    title = title.encode("utf-8", "ignore").decode()
    words = tuple(word.encode("utf-8", "ignore").decode() for word in command)
    written = spec(7, title=title, command=words, boot=True, subtree={"agents": 3})
    assert files.read_spec(files.spec_bytes(written), "agents/x.json") == written


def test_a_spec_with_a_fault_is_refused_in_words_of_our_own() -> None:
    """A commit by hand with a slip of the pen: `hive status` shows this line."""
    misspelt = {**BOB, "capabilites": []}
    with pytest.raises(InvalidArgument) as refused:
        files.read_spec(json.dumps(misspelt).encode(), "agents/a.json")
    assert refused.value.reason == (
        "agents/a.json: capabilites: unknown key; did you mean capabilities?"
    )
    wrong = {**BOB, "max_children": "many"}
    with pytest.raises(InvalidArgument) as refused:
        files.read_spec(json.dumps(wrong).encode(), "agents/a.json")
    assert refused.value.reason == (
        'agents/a.json: max_children: "many" does not fit; allowed is a whole number from 0 to'
        " 10000"
    )
