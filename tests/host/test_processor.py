"""Processor time of control groups, on hosts with one hierarchy and with the old ones beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from each import for_each

from hive_core.host.systemd.cpu_time import group_of, machine_cpu, name_of, read
from hive_core.model.agents.machine import Cpu, Machine

GROUP = "/hive.slice/hive-a.slice/hive-agent@bob.service"
STAT = "usage_usec 1234567\nuser_usec 1000000\nsystem_usec 234567\n"


def test_a_slice_lies_in_those_that_its_name_begins_with() -> None:
    assert group_of("hive-a.slice", "hive-agent@bob.service") == GROUP
    assert group_of("hive.slice", "x.service") == "/hive.slice/x.service"


@pytest.mark.parametrize("top", ["", "unified"])
def test_a_group_is_known_by_its_inode(tmp_path: Path, top: str) -> None:
    folder = tmp_path / top / GROUP[1:]
    folder.mkdir(parents=True)
    (folder / "cpu.stat").write_text(STAT)
    assert read(GROUP, tmp_path) == Cpu(name_of(str(folder.stat().st_ino)), 1_234_567)


def test_an_inode_that_comes_again_after_a_boot_is_another_group(tmp_path: Path) -> None:
    for boot in "ab":
        (tmp_path / boot).write_text(f"{boot}\n")
    assert [name_of("7", tmp_path / boot) for boot in "ab"] == ["a/7", "b/7"]
    assert name_of("7").partition("/")[0]


def test_a_hidden_boot_id_leaves_the_inode(tmp_path: Path) -> None:
    assert name_of("7", tmp_path / "none") == "/7"


@for_each("text", [None, "", "nr_periods 0\n", "usage_usec x\n", "usage_usec\n"])
def test_uncounted_usage_is_no_figure(tmp_path: Path, text: str | None) -> None:
    """`cpu.stat` of an old hierarchy tells of throttling only."""
    folder = tmp_path / GROUP[1:]
    folder.mkdir(parents=True, exist_ok=True)
    if text is not None:
        (folder / "cpu.stat").write_text(text)
    assert read(GROUP, tmp_path) is None
    assert read("/nobody.slice", tmp_path) is None


@pytest.mark.parametrize("group", ["", "/"])
def test_the_group_of_all_is_never_taken_for_one(tmp_path: Path, group: str) -> None:
    (tmp_path / "cpu.stat").write_text(STAT)
    assert read(group, tmp_path) is None


def test_what_does_not_run_uses_nothing() -> None:
    assert machine_cpu(Machine("u")) is None
