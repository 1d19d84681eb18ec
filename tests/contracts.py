"""A contract for import-linter: a package gets by on the standard library and a short list of ours.

The modules on the list, and the packages around them (which Python imports on the way), are held
to the same rule, so what the contract allows is all that is ever loaded.
"""

import sys
from collections.abc import Iterator
from itertools import accumulate

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from typing_extensions import override


class OnlyContract(Contract):
    source = fields.StringField()
    allowed = fields.ListField(subfield=fields.StringField())

    @override
    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        breaches = sorted(self._breaches(graph)) if self._source in graph.modules else []
        return ContractCheck(kept=not breaches, metadata={"breaches": breaches})

    @override
    def render_broken_contract(self, check: ContractCheck) -> None:
        for breach in check.metadata["breaches"]:
            output.print_error(breach)

    @property
    def _source(self) -> str:
        return str(self.source)

    @property
    def _allowed(self) -> list[str]:
        names: object = self.allowed  # a field in the class, its value in the instance
        assert isinstance(names, list)
        return [str(name) for name in names]

    def _breaches(self, graph: ImportGraph) -> Iterator[str]:
        inside = {self._source, *graph.find_descendants(self._source)}
        ours = set(self._allowed) & graph.modules
        around = {part for name in inside | ours for part in _path(name)} & graph.modules
        fine = inside | around
        for importer in fine:
            for imported in graph.find_modules_directly_imported_by(importer):
                if imported not in fine and imported.split(".")[0] not in sys.stdlib_module_names:
                    yield f"{importer} imports {imported}"


def _path(name: str) -> Iterator[str]:
    """`a.b.c` as `a`, `a.b`, `a.b.c`."""
    return accumulate(name.split("."), "{}.{}".format)
