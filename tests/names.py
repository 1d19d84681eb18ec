"""Counts what makes code hard to read: `python tests/names.py [list] [all]`; tests hold the counts.

Names that say nothing, files and functions that are too long, and with `all` the calls that a
request takes (`benchmarks/hops.py`); with `list` also where each of them is.

A function is a verb with its object, or the name of what it returns. A bare participle is neither,
unless it is a property. A value is called what it holds. A public class name stands for one class.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
ROOMS: Final = ("hive_core", "tests", "benchmarks", "examples")
LONGEST_FILE: Final = 400
LONGEST_FUNCTION: Final = 40
# One file on purpose: it is copied alone into containers that have nothing of ours.
LONG_ON_PURPOSE: Final = frozenset({"tests/probe/probe.py"})
KINDS: Final = (
    "class names in more than one module", f"files longer than {LONGEST_FILE} lines",
    f"functions longer than {LONGEST_FUNCTION} lines", "functions named by a bare participle",
    "values named by an empty word",
)  # fmt: skip
EMPTY_WORDS: Final = frozenset({"each", "found", "given", "kept", "told", "what"})
_PARTICIPLES: Final = frozenset(
    """
    begun bound broken brought built caught chosen come dealt done drawn driven fallen fed
    felt forbidden forgotten found frozen given gone got grown heard held hidden kept
    known laid led left lent lost made meant met paid risen said seen sent shed shown sold
    spent spoken stolen stood struck stuck sunk swept taken taught thrown told torn
    understood undone unread unsent untold woken won worn written
""".split()  # noqa: SIM905 - a list of words is a text
)
_NO_PARTICIPLES: Final = frozenset({"embed", "exceed", "feed", "need", "proceed", "seed", "speed"})
_PARTICLES: Final = frozenset(
    """
    about again anew apart aside at away back by down for from in of off on out over to together
    up with
""".split()  # noqa: SIM905 - a list of words is a text
)


# An empty word as something is bound to it: `= : ,` and brackets behind it, or `in` of a loop.
_EMPTY_VALUE: Final = re.compile(rf"\b(?:{'|'.join(sorted(EMPTY_WORDS))})\b\s*(?:[]=:,)]|in\b)")
_PUBLIC_CLASS: Final = re.compile(r"^class ([^\W_]\w*)", re.MULTILINE)
_BLOCK: Final = re.compile(r" *(?:async def\b|def\b|class\b|@)")
_FUNCTION: Final = re.compile(r"\bdef\s+(\w+)")
_BINDING: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Name, ast.arg)


class Name(NamedTuple):
    """A name that says nothing and where it is bound, or the size of what is too long."""

    kind: str
    place: str
    name: str


def is_bare_participle(name: str) -> bool:
    """`moved`, `given_on`, `_told`; not `moved_agents`, which is the name of a thing."""
    first, *rest = name.strip("_").split("_")
    is_regular = first.endswith("ed") and len(first) > 3 and first not in _NO_PARTICIPLES
    is_participle = is_regular or first in _PARTICIPLES
    return is_participle and (not rest or (len(rest) == 1 and rest[0] in _PARTICLES))


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    words = " ".join(ast.unparse(decorator) for decorator in function.decorator_list)
    return any(word in words for word in ("property", "setter", "fixture"))


def _bindings(path: Path) -> Iterator[ast.AST]:
    """Nodes that bind a name. A field of a model may be the name of a setting, which is fixed."""
    text = path.read_text(encoding="utf-8")
    if not _may_be_empty(text):
        return
    fields = set[ast.AST]()
    for node in ast.walk(ast.parse(text)):  # a class comes before what is in it
        if isinstance(node, ast.ClassDef):
            fields |= {row.target for row in node.body if isinstance(row, ast.AnnAssign)}
        elif isinstance(node, _BINDING) and node not in fields:
            yield node


def _may_be_empty(text: str) -> bool:
    """Whether a search sees a name that says nothing: to parse every file takes seconds."""
    functions = set(_FUNCTION.findall(text))
    return bool(_EMPTY_VALUE.search(text)) or any(map(is_bare_participle, functions))


def _names_in(path: Path) -> Iterator[Name]:
    for node in _bindings(path):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if is_bare_participle(name) and not _is_property(node):
                    yield Name("functions named by a bare participle", _place(path, node), name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in EMPTY_WORDS:
                yield Name("values named by an empty word", _place(path, node), name)
            case _:
                pass


def _place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def _shared_class_names() -> Iterator[Name]:
    """Public classes of the package that have their name in common with another one."""
    paths: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted((ROOT / "hive_core").rglob("*.py")):
        for name in _PUBLIC_CLASS.findall(path.read_text(encoding="utf-8")):
            paths[name].append(path)
    for name, candidates in sorted(paths.items()):
        # To parse tells a class from a line of a text; few names are worth it.
        places = [
            _place(path, node)
            for path in (dict.fromkeys(candidates) if len(candidates) > 1 else ())
            for node in ast.parse(path.read_bytes()).body
            if isinstance(node, ast.ClassDef) and node.name == name
        ]
        if len(places) > 1:
            yield Name("class names in more than one module", ", ".join(places), name)


def empty_names() -> list[Name]:
    """Every name that says nothing."""
    paths = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return [*(name for path in paths for name in _names_in(path)), *_shared_class_names()]


def long_parts() -> list[Name]:
    """Every file and every function that is too long."""
    paths = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return [part for path in paths for part in long_parts_of(path)]


def long_parts_of(path: Path) -> Iterator[Name]:
    text, place = (
        path.read_text(encoding="utf-8"),
        str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path),
    )
    lines = len(text.splitlines())
    if lines > LONGEST_FILE and place not in LONG_ON_PURPOSE:
        yield Name(KINDS[1], place, f"{lines} lines")
    if _may_have_long_function(text):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    yield Name(KINDS[2], f"{place}:{node.lineno}", f"{node.name}, {lines} lines")


def _may_have_long_function(text: str) -> bool:
    """Whether a search sees one: a function ends at the next block that is not deeper."""
    blocks = [
        (number, len(line) - len(line.lstrip()), "def " in line)
        for number, line in enumerate(text.splitlines()) if _BLOCK.match(line)
    ]  # fmt: skip
    blocks.append((text.count("\n") + 1, -1, False))
    for at, (start, depth, is_function) in enumerate(blocks):
        end = next((row[0] for row in blocks[at + 1 :] if row[1] <= depth), start)
        if is_function and end - start > LONGEST_FUNCTION:
            return True
    return False


def _hops() -> Iterator[str]:
    """The counts of a request, measured now."""
    sys.path.insert(0, str(ROOT))
    from benchmarks import hops  # noqa: PLC0415 - a broker and a ledger

    with hops.crowd() as hive:
        for row in hops.count_rows(hive):
            aim = f" ({row['aim']})" if "aim" in row else ""
            yield f"{row['value']} {row['unit']}: {row['name']}{aim}"


def main() -> None:
    names = [*empty_names(), *long_parts()]
    if "list" in sys.argv[1:]:
        for name in names:
            sys.stdout.write(f"{name.place}: {name.name}\n")
    counts = Counter(name.kind for name in names)
    for kind in KINDS:
        sys.stdout.write(f"{counts[kind]} {kind}\n")
    if "all" in sys.argv[1:]:
        for line in _hops():
            sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
