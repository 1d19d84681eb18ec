"""Line by line: the answer is right for whatever is compared, and comes in time."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from itertools import pairwise

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st
from long import at_most, times

from hive_core.jobs import lines, objects
from hive_core.jobs.diff import FileDiff
from hive_core.jobs.outcome import JobRefused
from hive_core.plan.paths import Names, name_fault

FEW = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d"]), max_size=20)


def file_diff(old: bytes, new: bytes, most: int) -> FileDiff:
    return FileDiff({"a": (False, old)}, {"a": (False, new)}, most)


def rebuilt(old: list[bytes], new: list[bytes]) -> int:
    """Check the runs of both; how many lines they have in common."""
    blocks = lines.runs(old, new)
    assert [line for run in blocks for line in old[run.old : run.old_end]] == old
    assert [line for run in blocks for line in new[run.new : run.new_end]] == new
    for run in blocks:
        assert not run.same or old[run.old : run.old_end] == new[run.new : run.new_end]
    assert all(one.same != other.same for one, other in pairwise(blocks))
    return sum(run.old_end - run.old for run in blocks if run.same)


@given(FEW, FEW)
def test_the_runs_are_both_texts_and_as_short_as_can_be(old: list[bytes], new: list[bytes]) -> None:
    common = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for x, one in enumerate(old):
        for y, other in enumerate(new):
            best = max(common[x][y + 1], common[x + 1][y])
            common[x + 1][y + 1] = common[x][y] + 1 if one == other else best
    assert rebuilt(old, new) == common[-1][-1]


@given(FEW, FEW)
def test_passages_leave_out_nothing_that_changed(old: list[bytes], new: list[bytes]) -> None:
    blocks = lines.runs(old, new)
    shown = [run for passage in lines.passages(blocks) for run in passage]
    assert [run for run in shown if not run.same] == [run for run in blocks if not run.same]
    assert all(run.old_end - run.old <= 6 for run in shown if run.same)


@for_each("kind", ["shuffled", "few words", "many changes", "moved", "nothing left"])
def test_attack_18_texts_made_to_be_hard_are_compared_in_time(kind: str) -> None:
    count = times(20_000, 200_000)
    chance = random.Random(1)  # noqa: S311 - no secret
    old = [b"%d\n" % number for number in range(count)]
    new = {
        "shuffled": chance.sample(old, count),
        "few words": [b"%d\n" % chance.randrange(3) for _ in old],
        "many changes": [line if chance.random() < 0.7 else b"x" + line for line in old],
        "moved": old[count // 2 :] + old[: count // 2],
        "nothing left": [b"x" + line for line in old],
    }[kind]
    old = [b"%d\n" % chance.randrange(3) for _ in old] if kind == "few words" else old
    before = time.process_time()
    common = rebuilt(old, new)
    assert time.process_time() - before < at_most(10)
    if kind in ("many changes", "moved"):
        assert common > count * 0.45


@given(st.binary(max_size=200))
def test_whatever_a_tree_is_it_is_read_or_refused(data: bytes) -> None:
    with suppress(JobRefused):
        entries = list(objects.entries(data, ""))
        raw = (b"%s %s\0%s" % (entry.mode, entry.name.encode("utf-8", "surrogateescape"),
                               bytes.fromhex(entry.oid)) for entry in entries)  # fmt: skip
        assert b"".join(raw) == data


MODES = st.sampled_from([b"100644", b"100755", b"40000", b"120000", b"040000", b"160000", b"0"])
LINE = st.tuples(
    MODES, st.sampled_from([b"a", b"a-", b"b", b"a0", b".git"]), st.binary(min_size=20, max_size=20)
)


@given(st.lists(LINE, max_size=5))
def test_attack_19_only_usual_modes_in_order_come_out_of_a_tree(
    rows: list[tuple[bytes, bytes, bytes]],
) -> None:
    data = b"".join(mode + b" " + name + b"\0" + oid for mode, name, oid in rows)
    try:
        entries = list(objects.entries(data, "d/"))
    except JobRefused:
        return
    assert [entry.mode for entry in entries] == [mode for mode, _, _ in rows]
    assert {entry.mode for entry in entries} <= {b"100644", b"100755", b"40000"}
    assert len({entry.name for entry in entries}) == len(entries)


@given(st.text(max_size=12))
def test_attack_19_a_name_that_passes_is_plain_and_is_not_gits(name: str) -> None:
    if not name_fault(name):
        assert name.isascii()
        assert name.isprintable()
        assert not name.lower().startswith((".git ", ".git.", ".git:", "git~"))
        assert name.lower() != ".git"
        assert "/" not in name


def test_attack_19_names_are_compared_without_case_and_whole() -> None:
    names = Names()
    for path in ("Etc", "Etc/a", "Etc/b", "etc2", "Etc/a2"):
        assert names.fault(path) == ""
    assert names.fault("etc") == "differs from 'Etc' only in case"
    assert names.fault("Etc/A") == "differs from 'Etc/a' only in case"
    for fine in (".gitignore", ".gitattributes", ".github", "git", "a.b", "a b", "~", "gitx~1"):
        assert names.fault(fine) == ""


LINES = st.lists(st.sampled_from([b"a\n", b"\xc3\xa9\n", b"\xff\n", b"\x1b", b"\n", b"b"]))


@given(LINES.map(b"".join), LINES.map(b"".join))
def test_a_difference_as_large_as_the_bound_is_shown_whole(old: bytes, new: bytes) -> None:
    """What a file weighs at least, which is looked at first, is never more than it weighs."""
    whole = file_diff(old, new, 1 << 20)
    rows = list(whole.rows())
    assert list(file_diff(old, new, whole.weight).rows()) == rows


def test_a_difference_that_is_too_large_is_refused_before_its_lines_are_written() -> None:
    rows = file_diff(b"", b"1\n" * 1000, 5000).rows()
    assert next(rows)["sign"] == "@"
    with pytest.raises(JobRefused, match="larger than 5000 bytes"):
        next(rows)
