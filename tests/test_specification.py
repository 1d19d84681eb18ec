"""Every row that is cited is defined in docs/specification, and its tests cite it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from each import for_each

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/specification/README.md"
SUFFIXES = frozenset({".py", ".md", ".nix", ".sql", ".toml", ".sh"})
FOLDERS = ("hive_core", "tests", "docs", "nix", "benchmarks", "examples")
# R10 asks for several hosts; it is cited where that is said.
WITHOUT_TEST = frozenset({"R10"})
_CITED = re.compile(r"\b([TKHQRZ])(\d{1,2})(?:-\1?(\d{1,2}))?\b")
_ROW = re.compile(r"\| ([TKHQRZ]\d+) \| (.+) \| (.*) \|")
_DESIGN_PAGE = re.compile(
    r"\b(RUNTIME|SECURITY|ARCHITECTURE|CONTRACT|ECOSYSTEM|HOSTS)(?: \d|:? [a-z]|\b[.,])"
)


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in SUFFIXES and "golden" not in path.parts:
                yield path


@cache
def rows_cited_by(path: Path) -> frozenset[str]:
    return frozenset(
        f"{letter}{number}"
        for letter, first, last in _CITED.findall(path.read_text(encoding="utf-8"))
        for number in range(int(first), int(last or first) + 1)
    )


def table() -> dict[str, tuple[str, list[str]]]:
    """Each row of the page: what it asks for, and the test files that it names."""
    return {
        row: (text, re.findall(r"`([^`]+)`", tests))
        for row, text, tests in _ROW.findall(PAGE.read_text(encoding="utf-8"))
    }


ROWS = table()


def test_every_row_that_is_cited_is_defined() -> None:
    undefined = {
        f"{path.relative_to(ROOT)}: {row}"
        for path in sources()
        for row in rows_cited_by(path) - ROWS.keys()
    }
    assert undefined == set()


@cache
def _test_files() -> dict[str, list[Path]]:
    """The files of tests by name without ending; a row may name one that is in two folders."""
    files = defaultdict[str, list[Path]](list)
    for path in (ROOT / "tests").rglob("*.py"):
        files[path.stem].append(path)
    return files


@for_each("row", sorted(ROWS.keys() - WITHOUT_TEST))
def test_the_tests_of_a_row_cite_it(row: str) -> None:
    text, tests = ROWS[row]
    assert text.endswith((".", ".)"))
    assert tests
    for name in tests:
        assert any(row in rows_cited_by(path) for path in _test_files()[name]), (
            f"{name} does not cite {row}"
        )


def test_no_page_is_cited_that_the_repository_does_not_have() -> None:
    """`RUNTIME 8` means nothing to a reader of the repository alone."""
    foreign = {
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in sources() if path != Path(__file__)
        for match in _DESIGN_PAGE.finditer(path.read_text(encoding="utf-8"))
    }  # fmt: skip
    assert foreign == set()


def test_every_attack_that_is_cited_is_in_the_threat_model() -> None:
    model = (ROOT / "docs/threat-model.md").read_text(encoding="utf-8")
    defined = {int(number) for number in re.findall(r"^\| (\d+) \|", model, re.MULTILINE)}
    cited = {
        (int(number), str(path.relative_to(ROOT)))
        for path in sources()
        for number in re.findall(r"\battacks? (\d+)\b", path.read_text(encoding="utf-8"))
    }
    assert {(number, place) for number, place in cited if number not in defined} == set()
