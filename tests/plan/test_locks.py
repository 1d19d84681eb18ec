"""What newer inputs would change, as it is shown to who decides."""

from __future__ import annotations

import json

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from hive_core.errors import InvalidArgument
from hive_core.model.config.review import DiffLine
from hive_core.plan.locks import as_jsonl, changes, difference


def lock(**revisions: str) -> bytes:
    document: dict[str, object] = {"root": {"inputs": {name: name for name in revisions}}}
    for name, revision in revisions.items():
        locked = {"type": "github", "owner": "o", "repo": name, "rev": revision,
                  "lastModified": 1_700_000_000, "narHash": f"sha256-{revision}"}  # fmt: skip
        document[name] = {"locked": locked}
    return json.dumps({"nodes": document, "root": "root", "version": 7}, indent=2).encode()


def test_each_changed_input_has_one_line() -> None:
    rows = changes(lock(a="1", b="1", c="1"), lock(a="1", b="2", d="1"))
    assert [change.input for change in rows] == ["b", "c", "d"]
    assert rows[0].old == "github:o/b 1 2023-11-14 sha256-1"
    assert rows[0].new == "github:o/b 2 2023-11-14 sha256-2"
    assert (rows[1].new, rows[2].old) == ("", "")


def test_the_first_lock_is_all_new() -> None:
    assert [change.old for change in changes(b"", lock(a="1"))] == [""]
    assert changes(lock(a="1"), lock(a="1")) == []


@given(st.text(max_size=80))
def test_attack_22_nothing_of_a_lock_acts_on_a_terminal(text: str) -> None:
    after = lock(a=text)
    rows = [*changes(lock(a="1"), after)]
    lines = difference(b"", json.dumps({"x": text}, ensure_ascii=False).encode("utf-8", "replace"))
    shown = [part for row in rows for part in row] + [line.text for line in lines]
    assert all(
        " " <= char <= "~"
        or char in "\N{MATHEMATICAL LEFT ANGLE BRACKET}\N{MATHEMATICAL RIGHT ANGLE BRACKET}"
        for part in shown
        for char in part
    )


def test_every_line_that_differs_is_in_the_difference() -> None:
    before, after = lock(a="1", b="1"), lock(a="2", b="1")
    lines = difference(before, after)
    gone = [line.text.strip() for line in lines if line.sign == "-"]
    come = [line.text.strip() for line in lines if line.sign == "+"]
    assert gone == ['"rev": "1",', '"narHash": "sha256-1"']
    assert come == ['"rev": "2",', '"narHash": "sha256-2"']
    for raw in as_jsonl(lines).splitlines():
        DiffLine.read(raw)


@for_each(
    "data",
    [b"x", b"[]", b"{}", b'{"root": 1}', b'{"root": "r", "nodes": [1]}', b"[" * 100_000],
)
def test_what_is_no_lock_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument):
        changes(b"", data)
