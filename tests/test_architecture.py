"""docs/architecture.md lists what `send`, `start` and `move` run; the real ones run just that."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from call_lists import PACKAGE, PAGE, TRACES, rows

PAGE_TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list(TRACES))
def test_the_listed_functions_are_what_runs_in_that_order(name: str, tmp_path: Path) -> None:
    """`scripts/generate` writes the lists again."""
    match = re.search(rf"<!-- calls of {name} -->\n(.*?)\n<!-- end of", PAGE_TEXT, re.DOTALL)
    assert match is not None
    listed = [line.split("|")[1:3] for line in match[1].splitlines()[2:]]
    functions = rows(TRACES[name](tmp_path))
    assert [tuple(cell.strip(" `") for cell in row) for row in listed] == functions


def test_the_folders_on_the_page_are_those_of_the_package() -> None:
    rooms = re.search(r"```\nhive_core/\n(.*?)```", PAGE_TEXT, re.DOTALL)
    assert rooms is not None
    named = set(re.findall(r"^  ([a-z_]+)/", rooms[1], re.MULTILINE))
    folders = {path.name for path in PACKAGE.iterdir() if any(path.glob("*.py"))}
    assert named == folders | {"seed"}
