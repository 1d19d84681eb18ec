"""`operations.json`: the registry as data, for programs that must not import it.

The CLI and the in-container client read it, because importing the registry takes ten times as long
as starting them. It also has the JSON schema of every result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hive_core.broker.operation import Operation
from hive_core.broker.request import INTERFACE
from hive_core.broker.scopes import class_of
from hive_core.surfaces.shape import params_schema, result_schema


def operations_json(registry: Mapping[str, Operation]) -> str:
    """The text of the file."""
    operations = {name: _entry(operation) for name, operation in registry.items()}
    document = {"interface": INTERFACE, "operations": operations}
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _entry(operation: Operation) -> dict[str, Any]:
    params = params_schema(operation)
    thing = operation.whose.param if operation.whose is not None else None
    return {
        "method": operation.method,
        "doc": operation.doc,
        "who": operation.allow.text,
        "mutates": operation.mutates,
        "scope": class_of(operation).value,
        "stream": operation.streams,
        "target": operation.target,
        "second": operation.second,
        "aliases": sorted(operation.aliases),
        "params": params,
        # The parameter that names its subject, if it is optional.
        "thing": None if thing in params.get("required", ()) else thing,
        "result": result_schema(operation),
    }
