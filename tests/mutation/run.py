"""`scripts/mutate`: breaks what decides in every small way, and counts what the tests notice.

cosmic-ray makes the mutants (`<` becomes `<=`, `and` becomes `or`, a number grows by one); they are
run here, since nothing may be written to a checkout that others are reading: each mutant is loaded
in a process of its own, forked from one that has imported everything that does not depend on it,
and the tests run there until one fails. A mutant that differs in annotations alone is none.
`equivalent.txt` names the survivors that change nothing, with the reason.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from typing_extensions import override

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
# What is asked about a module, quick ones first: nearly every mutant is dead before the last.
_DECIDING = tuple(
    f"policy/test_{name}" for name in ("standing", "route", "move", "decide", "visibility")
)
_GIVING = ("policy/test_move", "policy/test_grants")
TESTS = {
    "policy.relationship": _DECIDING,
    "policy.algebra": _DECIDING,
    "policy.rules": _DECIDING,
    "policy.decide": _DECIDING,
    "policy.grants": _GIVING,
    "policy.remainder": _GIVING,
    "model.agents.topology": (
        "policy/test_standing",
        "model/test_topology",
        "policy/test_visibility",
    ),
    "model.agents.capability": ("model/test_capability", "policy/test_grants"),
}
MODULES = tuple(f"hive_core.{name}" for name in TESTS)
BEFOREHAND = (
    "pytest", "hypothesis", "hypothesis.stateful", "pydantic", "hive_core.errors",
    "hive_core.model.agents.agent", "hive_core.model.names", "hive_core.model.wire.record",
)  # fmt: skip
WHOLE_MODEL = (
    *BEFOREHAND,
    "hive_core.model.agents.hive",
    "hive_core.model.agents.roles",
    "fixtures.topologies",
)
SECONDS = 120  # of the processor: a mutant that needs more runs in circles
ENOUGH = 95


class Mutant(NamedTuple):
    module: str
    source: str
    change: str  # the lines that differ, as they stand in equivalent.txt


class Broken(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Gives one module its broken source."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=str(_path(fullname)))

    @override
    def get_source(self, fullname: str) -> str:
        return self._mutant.source


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=" ".join(MODULES))
    parser.add_argument("modules", metavar="MODULE", nargs="*", default=MODULES)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time")
    parser.add_argument("--nice", type=int, default=19, help="how much others go first")
    parser.add_argument("--part", default="0/1", help="K/N: only every Nth mutant, from the Kth")
    chosen = parser.parse_args(arguments)
    os.nice(chosen.nice)
    for name in (
        BEFOREHAND if any(".model." in module for module in chosen.modules) else WHOLE_MODEL
    ):
        importlib.import_module(name)
    if len(survivors([whole(name) for name in chosen.modules], chosen.jobs)) < len(chosen.modules):
        sys.exit("the tests fail as it is")
    part, parts = map(int, chosen.part.split("/"))
    mutants = [mutant for name in chosen.modules for mutant in mutants_of(name)][part::parts]
    return _report(mutants, survivors(mutants, chosen.jobs))


def whole(module: str) -> Mutant:
    """The module as it is."""
    return Mutant(module, _path(module).read_text(encoding="utf-8"), "nothing")


def mutants_of(module: str) -> Iterator[Mutant]:
    """Every mutant of the module that is another program."""
    plugins = importlib.import_module("cosmic_ray.plugins")
    mutating = importlib.import_module("cosmic_ray.mutating")
    source = _path(module).read_text(encoding="utf-8")
    seen = {_meaning(source)}
    for name in sorted(plugins.operator_names()):
        operator, number = plugins.get_operator(name), 0
        if operator.arguments():
            continue  # wants to be told names
        while (broken := mutating.mutate_code(source, operator(), number)) is not None:
            number += 1
            meaning = _meaning(broken)
            if meaning not in seen:
                seen.add(meaning)
                yield Mutant(module, broken, _change(source, broken))


def _meaning(source: str) -> str:
    """The program without comments and docstrings."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant("")
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            node.decorator_list = [
                decorator for decorator in node.decorator_list if not _is_for_types(decorator)
            ]
    return ast.dump(tree)


def _is_for_types(decorator: ast.expr) -> bool:
    """Whether it only tells the type checker something."""
    return isinstance(decorator, ast.Name) and decorator.id in ("override", "abstractmethod")


def _change(source: str, broken: str) -> str:
    lines = difflib.unified_diff(source.splitlines(), broken.splitlines(), n=0, lineterm="")
    return " -> ".join(
        line[1:].strip() for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")
    )


def survivors(mutants: Sequence[Mutant], jobs: int) -> list[Mutant]:
    """Those that no test notices, some at a time, each in a process that can be lost."""
    left, running = [], dict[int, Mutant]()
    for mutant in (*mutants, *[None] * jobs):  # at the end none starts while the last ones end
        if len(running) == jobs or (mutant is None and running):
            left += _reap_mutant(running)
        if mutant is not None:
            child = os.fork()
            if child == 0:
                os._exit(_test_mutant(mutant))
            running[child] = mutant
    return left


def _reap_mutant(running: dict[int, Mutant]) -> list[Mutant]:
    child, status = os.wait()
    mutant = running.pop(child)
    if os.waitstatus_to_exitcode(status) != 0:
        return []
    print(f"survived\n{mutant.module}: {mutant.change}", flush=True)
    return [mutant]


def _test_mutant(mutant: Mutant) -> int:
    import hypothesis  # noqa: PLC0415 - both were imported before the fork
    import pytest  # noqa: PLC0415

    # How long something took must not kill a mutant.
    hypothesis.settings.register_profile(
        "again", derandomize=True, database=None, deadline=None, max_examples=30,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    hypothesis.settings.load_profile("again")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    sys.meta_path.insert(0, Broken(mutant))
    # hypothesis was imported before pytest could rewrite its assertions, which matters to nobody.
    quieted = "-Wignore::pytest.PytestAssertRewriteWarning"
    options = ("-x", "-q", "--noconftest", "-p", "no:cacheprovider", quieted, "--tb=no")
    files = [str(ROOT / f"tests/{test}.py") for test in TESTS[mutant.module.split(".", 1)[1]]]
    try:  # file by file: mostly the first is enough, and the others are not even loaded
        return int(any(pytest.main([*options, f"--rootdir={ROOT}", file]) for file in files))
    except BaseException:  # noqa: BLE001 - also SystemExit: whatever it is, the mutant was noticed
        return 1


def _report(mutants: list[Mutant], left: list[Mutant]) -> int:
    known = {line for line in EQUIVALENT.read_text().splitlines() if line and line[0] != "#"}
    equal = [mutant for mutant in left if f"{mutant.module}: {mutant.change}" in known]
    count, noticed = len(mutants) - len(equal), len(mutants) - len(left)
    share = 100 * noticed / count
    print(f"{len(mutants)} mutants, {len(equal)} of them equivalent; of the other {count}")
    print(f"{noticed} were noticed: {share:.1f} % (at least {ENOUGH})")
    return int(share < ENOUGH)


def _path(module: str) -> Path:
    return ROOT / f"{module.replace('.', '/')}.py"


if __name__ == "__main__":
    sys.path[:1] = [str(ROOT), str(ROOT / "tests")]
    sys.exit(main())
