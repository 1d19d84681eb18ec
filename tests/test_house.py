"""The rules of the house that no linter of the shelf knows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "hive_core").rglob("*.py"))
LONGEST = 400
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b|\bpytest\.(skip|xfail)\b")
NO_NOUN = re.compile(r"class \w+(Manager|Helper|Util|Utils|Base|Service)\b")
NO_ROOM = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}


def test_modules_import_only_downwards_and_each_effect_library_has_one_importer() -> None:
    """import-linter over the contracts in pyproject.toml."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_short_finished_and_named_for_what_it_holds(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST
    assert not UNFINISHED.search(text)
    assert not NO_NOUN.search(text)
    assert not NO_ROOM.intersection((path.stem, path.parent.name))
