"""K41: every row of the specification of work in the tree has a test in real containers.

The test names its rows in its docstring, so `grep -rn K14 tests/e2e` leads there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from each import for_each

TESTS = Path(__file__).parent
# A row that asks for a page: which, and the word that has to stand there.
PAGES = {"T15": ("docs/guide/tasks.md", "A2A"), "Z16": ("docs/guide/clones.md", "hive_delegate")}
ROWS = tuple(
    f"{letter}{number}"
    for letter, numbers in {
        "T": range(1, 16),
        "K": (*range(1, 38), 39, 42, 43),
        "H": (11, 20, 21, 25, 29),
        "Q": (*range(1, 25), *range(26, 48), 50, 51, 53, 54),
        "Z": range(1, 18),
    }.items()
    for number in numbers
)  # fmt: skip
_NAMED = re.compile(r"\b([TKHQZ])(\d+)(?:-\1?(\d+))?\b")


def rows_in(text: str) -> Iterator[str]:
    """Rows in a text; `K22-K24` is three of them."""
    for letter, first, last in _NAMED.findall(text):
        yield from (f"{letter}{number}" for number in range(int(first), int(last or first) + 1))


def docstrings_of(path: Path) -> Iterator[tuple[str, str]]:
    """Each test of a file, and what its docstring says."""
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name, ast.get_docstring(node) or ""


@cache
def coverage_by_row() -> dict[str, list[str]]:
    """Tests with real containers by the rows that they name."""
    result: dict[str, list[str]] = {}
    for path in sorted((TESTS / "e2e").glob("test_*.py")):
        for name, said in docstrings_of(path):
            for row in rows_in(said):
                result.setdefault(row, []).append(f"{path.stem}::{name}")
    return result


@for_each("row", [row for row in ROWS if row not in PAGES])
def test_a_row_is_shown_in_real_containers(row: str) -> None:
    assert coverage_by_row().get(row), f"no test in tests/e2e says that it shows {row}"


@pytest.mark.parametrize("row", PAGES)
def test_a_row_that_asks_for_a_page_has_it(row: str) -> None:
    page, word = PAGES[row]
    assert word in (TESTS.parent / page).read_text()
