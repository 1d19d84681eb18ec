"""The rules of the house that no linter of the shelf knows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from each import for_each
from names import Name, long_parts, long_parts_of

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "hive_core").rglob("*.py"))
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b|\bpytest\.(skip|xfail)\b")
NO_NOUN = re.compile(r"class \w+(Manager|Helper|Util|Utils|Base|Service)\b")
NO_ROOM = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}


def test_modules_import_only_downwards_and_each_effect_library_has_one_importer() -> None:
    """import-linter over the contracts in pyproject.toml."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_no_file_and_no_function_of_any_room_is_too_long() -> None:
    """Also of the tests, the benchmarks and the examples."""
    assert long_parts() == []


def test_a_function_and_a_file_that_are_too_long_are_seen(tmp_path: Path) -> None:
    code = "    pass\n" * 40
    text = f"def short():\n{code[9:]}\n\ndef long():\n{code}\n\nclass A:\n    x = 1\n"
    assert [(part.kind, part.name) for part in parts_of(tmp_path, text)] == [
        ("functions longer than 40 lines", "long, 41 lines"),
    ]  # fmt: skip
    nested = f"def outer():\n    def inner():\n        pass\n{code}"
    assert [part.name for part in parts_of(tmp_path, nested)] == ["outer, 43 lines"]
    assert [part.name for part in parts_of(tmp_path, "x = 1\n" * 401)] == ["401 lines"]
    assert parts_of(tmp_path, "x = 1\n" * 400) == []


def parts_of(folder: Path, text: str) -> list[Name]:
    """The parts of a file that are too long."""
    (folder / "code.py").write_text(text, encoding="utf-8")
    return list(long_parts_of(folder / "code.py"))


@for_each("path", SOURCES)
def test_a_file_is_finished_and_named_for_what_it_holds(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not UNFINISHED.search(text)
    assert not NO_NOUN.search(text)
    assert not NO_ROOM.intersection((path.stem, path.parent.name))
