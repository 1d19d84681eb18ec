"""The page of threats and the tests speak of the same attacks, and the page misses none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from each import for_each

from hive_core.plan.actions import KINDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/threat-model.md"
WANTED = {*range(1, 53), *range(56, 67)}
_ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
_NAMED = re.compile(r"[Aa]ttacks? ((?:\d+(?:,| and|, and)? ?)+)")
_TITLE = re.compile(r"test_(?:attack_)?((?:\d+_)+)")


def rows() -> dict[int, list[str]]:
    """The places that the page names, by number of the attack."""
    findall = _ROW.findall(PAGE.read_text())
    return {int(number): re.findall(r"`(tests/[^`]+)`", places) for number, _, _, places in findall}


def numbers(text: str) -> set[int]:
    result = {int(digits) for part in _NAMED.findall(text) for digits in re.findall(r"\d+", part)}
    title = _TITLE.match(text)
    return result | ({int(word) for word in title[1].strip("_").split("_")} if title else set())


def functions(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Tests of a file, with what they say of themselves and what the file says."""
    whole = ast.get_docstring(tree) or ""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, f"{ast.get_docstring(node) or ''}\n{whole}"


@cache
def _tests_of(file: str) -> dict[str, str]:
    return dict(functions(ast.parse((ROOT / file).read_text())))


def test_the_page_has_every_attack_once() -> None:
    result = [int(row[0]) for row in _ROW.findall(PAGE.read_text())]
    assert sorted(result) == sorted(WANTED)


@for_each("number", sorted(WANTED))
def test_every_attack_has_existing_tests_that_name_it(number: int) -> None:
    places = rows()[number]
    assert places
    named = 0
    for place in places:
        file, _, name = place.partition("::")
        tests = _tests_of(file)
        chosen = {name} if name else {test for test in tests if test.startswith("test_")}
        assert chosen
        assert chosen <= tests.keys(), place
        named += any(number in numbers(name) | numbers(tests[name]) for name in chosen)
    assert named, f"none of these names attack {number}: {places}"


def test_attack_5_no_daemon_enters_a_container() -> None:
    """The one entering that is left is into a user namespace alone, to set bounds in it."""
    inside = re.compile(r"nsenter|setns|machinectl|(?<!-)chroot|/root/\{")
    result = {}
    for file in sorted((ROOT / "hive_core").rglob("*")):
        room = file.relative_to(ROOT / "hive_core").parts[0]
        if file.suffix in (".pyc", ".json") or not file.is_file() or room in ("cli", "testing"):
            continue
        lines = file.read_text().splitlines()
        if lines := [line.strip() for line in lines if inside.search(line)]:
            result[file.name] = lines
    assert list(result) == ["hive-gate"], result
    assert all('nsenter --user="/proc/$first/ns/user" sh' in line for line in result["hive-gate"])
    assert not {"Enter", "Exec", "Copy", "Shell"} & KINDS.keys()
