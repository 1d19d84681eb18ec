"""The long forms: what chooses a size, and what is left of a measurement."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CASE = """
import long, pytest

@pytest.mark.sized
def test_sized():
    long.figure("seen", size=long.times(2, 9), seconds=long.seconds(3, 30), seed=long.seed())

@pytest.mark.long
def test_long():
    long.figure("only long")
"""


def ran(folder: Path, *words: str) -> tuple[str, list[dict[str, object]]]:
    """A suite of two tests below the same conftest: what pytest says, and the figures."""
    (folder / "tests").mkdir()
    for name in ("conftest.py", "long.py"):
        (folder / "tests" / name).write_text((TESTS / name).read_text())
    (folder / "tests" / "test_case.py").write_text(CASE)
    (folder / "pyproject.toml").write_text((TESTS.parent / "pyproject.toml").read_text())
    command = [sys.executable, "-m", "pytest", "--figures", "out.jsonl", "--seed", "7", *words]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}  # conftest.py imports from there
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (folder / "out.jsonl").read_text().splitlines()
    return done.stdout, [json.loads(line) for line in lines]


def test_the_default_run_is_short_and_leaves_out_long_tests(tmp_path: Path) -> None:
    """In several processes; the long runs below have one."""
    said, figures = ran(tmp_path, "-n", "2")
    assert figures == [{"name": "seen", "size": 2, "seconds": 3, "seed": 7}]
    assert json.dumps(figures[0]) in said


@pytest.mark.parametrize("minutes", [None, 0.5])
def test_the_long_run_takes_both_kinds_and_their_long_sizes(
    tmp_path: Path, minutes: float | None
) -> None:
    asked = ["--minutes", str(minutes)] if minutes else []
    _, figures = ran(tmp_path, "-m", "long or sized", "--long", *asked)
    seconds = minutes * 60 if minutes else 1800
    seen = {"name": "seen", "size": 9, "seconds": seconds, "seed": 7}
    assert figures == [seen, {"name": "only long"}]
