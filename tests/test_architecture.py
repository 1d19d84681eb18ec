"""docs/architecture.md lists what four operations run; the real ones run just that."""

from __future__ import annotations

import re

import pytest
from call_lists import PACKAGE, PAGE, TRACES, Function, call_lists, rows

PAGE_TEXT = PAGE.read_text(encoding="utf-8")


@pytest.fixture(name="lists", scope="module")
def _lists(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Function]]:
    return call_lists(tmp_path_factory.mktemp("lists"))


@pytest.mark.parametrize("name", ["request", *TRACES])
def test_the_listed_functions_are_what_runs_in_that_order(
    name: str, lists: dict[str, list[Function]]
) -> None:
    """`scripts/generate` writes the lists again."""
    match = re.search(rf"<!-- calls of {name} -->\n(.*?)\n<!-- end of", PAGE_TEXT, re.DOTALL)
    assert match is not None
    listed = [line.split("|")[1:3] for line in match[1].splitlines()[2:]]
    assert [tuple(cell.strip(" `") for cell in row) for row in listed] == rows(lists[name])


def test_the_folders_on_the_page_are_those_of_the_package() -> None:
    rooms = re.search(r"```\nhive_core/\n(.*?)```", PAGE_TEXT, re.DOTALL)
    assert rooms is not None
    named = set(re.findall(r"^  ([a-z_]+)/", rooms[1], re.MULTILINE))
    folders = {path.name for path in PACKAGE.iterdir() if any(path.glob("*.py"))}
    assert named == folders | {"seed"}
