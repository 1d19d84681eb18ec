"""A contract for import-linter: a package gets by on the standard library and two short lists.

`allowed` are modules of ours; `packages` are those of others that the package itself may import.
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
    packages = fields.ListField(subfield=fields.StringField(), required=False)

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
        return _names(self.allowed)

    @property
    def _packages(self) -> set[str]:
        return set(_names(self.packages))

    def _breaches(self, graph: ImportGraph) -> Iterator[str]:
        inside = {self._source, *graph.find_descendants(self._source)}
        ours = set(self._allowed) & graph.modules
        around = {part for name in inside | ours for part in _path(name)} & graph.modules
        fine = inside | around
        for importer in fine:
            for imported in graph.find_modules_directly_imported_by(importer):
                package = imported.split(".")[0]
                if importer in inside and package in self._packages:
                    continue
                if imported not in fine and package not in sys.stdlib_module_names:
                    yield f"{importer} imports {imported}"


def _names(field: object) -> list[str]:
    """The value of a field, which is a field in the class and its value in the instance."""
    assert field is None or isinstance(field, list)
    return [str(name) for name in field or ()]


def _path(name: str) -> Iterator[str]:
    """`a.b.c` as `a`, `a.b`, `a.b.c`."""
    return accumulate(name.split("."), "{}.{}".format)
