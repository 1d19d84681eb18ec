"""The table `[maid]` of hive.toml: what a check may be, and how many there may be (K36)."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_core.errors import InvalidArgument
from hive_core.host.config.settings import load
from hive_core.model.work.checks import MaidCheck

TRUE = '["true"]'


MAID = "[daemons]\nmaid = true\n"


def write_checks(folder: Path, text: str) -> Path:
    file = folder / "hive.toml"
    file.write_text(MAID + text)
    return file


def check(name: str, command: str = TRUE, more: str = "") -> str:
    return f"[maid.checks.{name}]\ncommand = {command}\n{more}\n"


def test_a_check_says_what_it_runs_how_often_and_how_long(tmp_path: Path) -> None:
    text = check("disk", '["df", "-h"]', "every = 60\nseconds = 5") + check("net")
    checks = load(write_checks(tmp_path, text)).maid.checks
    assert checks == {
        "disk": MaidCheck(command=("df", "-h"), every=60, seconds=5),
        "net": MaidCheck(command=("true",), every=300, seconds=30),
    }


@pytest.mark.parametrize(
    ("text", "field", "why"),
    [
        ("".join(check(f"c{n}") for n in range(17)), "maid.checks", "at most 16"),
        (check("Disk"), "maid.checks.Disk", "a text that matches"),
        (check("a--b"), "maid.checks.a--b", "a text that matches"),
        (check("x" * 21), f"maid.checks.{'x' * 21}", "at most 20"),
        (check("a", "'df \"-h'"), "maid.checks.a.command", "cannot split"),
        (check("a", "[]"), "maid.checks.a.command", "must start with a program"),
        (check("a", '[""]'), "maid.checks.a.command", "must start with a program"),
        (check("a", '["a\\u0000"]'), "maid.checks.a.command", "must not contain NUL"),
        (check("a", f'["{"x" * 1100}"]'), "maid.checks.a.command", "longer than 1024 bytes"),
        (check("a", TRUE, "every = 0"), "maid.checks.a.every", "allowed is a number from 1 to"),
        (
            check("a", TRUE, "every = 1e9"),
            "maid.checks.a.every",
            "allowed is a number from 1 to 604800",
        ),
        (check("a", TRUE, "seconds = 0"), "maid.checks.a.seconds", "allowed is a number from 1 to"),
        (
            check("a", TRUE, "seconds = 3601"),
            "maid.checks.a.seconds",
            "allowed is a number from 1 to 3600",
        ),
        (check("a", TRUE, "role = 1"), "maid.checks.a.role", "unknown key; there are"),
        ("[maid.checks.a]\n", "maid.checks.a.command", "is missing"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_name(
    tmp_path: Path, text: str, field: str, why: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        load(write_checks(tmp_path, text))
    assert refused.value.fields["field"] == field
    assert why in refused.value.reason


def test_checks_so_often_that_they_leave_no_room_for_agents_are_refused(tmp_path: Path) -> None:
    """The agent of each check is kept for a day, with its range of uids."""
    assert (
        load(write_checks(tmp_path, check("a", TRUE, "every = 18"))).maid.kept_agents(86_400)
        == 4800
    )
    often = check("a", TRUE, "every = 17")
    with pytest.raises(InvalidArgument, match=r"maid\.checks: .* 5083 agents .* 5000 may be") as no:
        load(write_checks(tmp_path, often))
    assert no.value.fields["field"] == "maid.checks"
    load(write_checks(tmp_path, often + "[retention]\narchive = 3600\n"))


def test_so_many_runs_a_day_are_refused_however_soon_they_are_forgotten(tmp_path: Path) -> None:
    """Each leaves two commits in the history, for ever."""
    soon = "[retention]\narchive = 0\n"
    load(write_checks(tmp_path, check("a", TRUE, "every = 8.64") + soon))
    for often in (check("a", TRUE, "every = 8.6"),
                  "".join(check(f"c{n}", TRUE, "every = 1") for n in range(16))):  # fmt: skip
        with pytest.raises(InvalidArgument, match=r"runs a day .* 10000 may be") as refused:
            load(write_checks(tmp_path, often + soon))
        assert refused.value.fields["field"] == "maid.checks"


@pytest.mark.parametrize("daemons", ["", "[daemons]\nmaid = false\nqueen = true\n"])
def test_checks_without_a_checker_are_refused(tmp_path: Path, daemons: str) -> None:
    file = tmp_path / "hive.toml"
    file.write_text(daemons + check("a"))
    with pytest.raises(InvalidArgument, match="checks need the maid") as refused:
        load(file)
    assert refused.value.fields["field"] == "maid.checks"
