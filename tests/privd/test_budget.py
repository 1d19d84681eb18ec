"""What runs as root stays small enough to be read whole, and imports nothing it need not."""

import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

import hive_core

PACKAGE = Path(hive_core.__file__).parent
LIMIT, LISTS, SCRIPTS = 800, 136, 70
LISTED = """
import sys
from pathlib import Path
import hive_core.privd.server
print(*(module.__file__ for name, module in sys.modules.items() if name.startswith("hive_core")))
"""


def imported_files() -> list[Path]:
    """Every file of ours that is loaded with the helper, as Python itself sees it."""
    command = [sys.executable, "-c", LISTED]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    return [Path(name) for name in done.stdout.split()]


def code_lines(path: Path) -> int:
    """Lines that hold code: no blank lines, comments or docstrings."""
    text = path.read_text()
    talk: set[int] = set()
    for part in ast.walk(ast.parse(text)):
        if isinstance(part, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = part.body[0] if part.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                talk.update(range(first.lineno, (first.end_lineno or 0) + 1))
    empty = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in empty | {tokenize.ENDMARKER}:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - talk)


def test_all_that_root_imports_is_within_the_budget() -> None:
    counted = {str(path.relative_to(PACKAGE)): code_lines(path) for path in imported_files()}
    assert sum(counted.values()) <= LIMIT, counted


def test_the_lists_that_root_fills_in_are_few_lines() -> None:
    """Properties of units and flags of containers: not code, but root reads them."""
    kinds = ("flags", "properties", "places", "words", "unit")
    paths = [path for kind in kinds for path in (PACKAGE / "privd/unit_files").glob(f"*.{kind}")]
    texts = [path.read_text().splitlines() for path in paths]
    assert sum(not line.startswith("#") for text in texts for line in text) <= LISTS


def test_the_scripts_that_root_runs_are_few_lines() -> None:
    scripts = [path for path in (PACKAGE / "privd").glob("hive-*") if path.is_file()]
    lines = [
        line
        for path in scripts
        for line in path.read_text().splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    names = {path.name for path in scripts}
    assert names == {"hive-bound", "hive-gate", "hive-prepare", "hive-run", "hive-stopped"}
    assert len(lines) <= SCRIPTS


def test_the_standard_library_is_enough() -> None:
    """An interpreter without site-packages loads it."""
    code = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); import hive_core.privd.server"
    subprocess.run([sys.executable, "-ISc", code], check=True)


def test_only_the_helpers_own_rooms_are_loaded() -> None:
    rooms = {str(path.relative_to(PACKAGE)) for path in imported_files()}
    allowed = {"__init__.py", "model/__init__.py", "model/names.py", "plan/__init__.py",
               "plan/actions.py", "plan/fields.py", "plan/kinds.py", "plan/render.py"}  # fmt: skip
    assert {room for room in rooms if not room.startswith("privd/")} == allowed
