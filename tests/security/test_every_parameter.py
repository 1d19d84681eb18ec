"""Attack 36 on every operation there is: no value of any parameter is a fault of the daemon's.

Each place where a value can stand gets one of those that break programs, the next place the next
one. What fits the schema is carried out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from each import for_each
from fixtures.world import World, world

from hive_core.model.wire.record import OPERATOR
from hive_core.operations import load

TEXTS: Final = (
    "", "\0", "a\0b", "\n", "\x1b[2J", "\u202e", "x" * 64, "x" * 5000, "\U0001d518" * 300, "../..",
    "/", "*", "%", "'", "(a+)+$", "1e309", "9" * 40, "\u0663", "\u00b2", OPERATOR, "daemon", "root",
    "f" * 12, "f" * 13, "q" + "f" * 15, "0 0 31 2 *", "bash(", "0" * 32, "A", "lead/q", "-",
)  # fmt: skip
NUMBERS: Final = (
    0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**19, 0.5, -0.0, 5e-324,
    1e17, 1e18, 9.3e18, 1e19, 1e300, -1e300, 253402300800.0, True,
)  # fmt: skip
OTHERS: Final[tuple[object, ...]] = (
    None, [], {}, [[]], {"a": {"b": [None]}}, [None] * 65, {"": ""}, "x", 1,
)  # fmt: skip
OF_TYPE: Final = {"string": TEXTS, "integer": NUMBERS, "number": NUMBERS}
EDGES: Final = ("root", "root/lead:lead", "lead/wu:worker", "lead/wo:worker")
Schema = Mapping[str, Any]
Path = tuple[str | int, ...]


def places(schema: Schema, defs: Schema, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Where a value can stand, and of which type it should be."""
    schema = defs[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    for option in schema.get("anyOf", ()):
        yield from places(option, defs, path)
    for key, property_ in schema.get("properties", {}).items():
        yield from places(property_, defs, (*path, key))
    if "items" in schema:
        yield from places(schema["items"], defs, (*path, 0))
    if path and "type" in schema:
        yield path, str(schema["type"])


def usual(schema: Schema, defs: Schema, name: str = "") -> Any:  # noqa: ANN401
    """The least that fits."""
    schema = defs[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if "anyOf" in schema:
        return usual(schema["anyOf"][0], defs, name)
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if "properties" in schema:
        needed = schema.get("required", ())
        return {key: usual(schema["properties"][key], defs, key) for key in needed}
    named = {"agent": "wu", "to": "wu", "other": "wo", "owner": "wu", "parent": "lead"}
    plain = {
        "integer": 1, "number": 1.0, "boolean": False, "object": {}, "string": named.get(name, "x"),
        "array": [usual(schema["items"], defs, name)] if "items" in schema else [],
    }  # fmt: skip
    return plain.get(str(schema.get("type")), "x")


def put(whole: Any, path: Path, value: object) -> Any:  # noqa: ANN401
    """The parameters with this value at that place."""
    if not path:
        return value
    first, *rest = path
    if isinstance(first, int):
        head = whole[0] if isinstance(whole, list) and whole else None
        return [put(head, tuple(rest), value)]
    before = whole if isinstance(whole, dict) else {}
    return {**before, first: put(before.get(first), tuple(rest), value)}


@pytest.fixture(scope="module", name="hive")
def _hive() -> Iterator[World]:
    with world(None, *EDGES[1:]) as made:
        yield made


def grow_again(hive: World) -> None:
    """Whom a call before has destroyed."""
    for edge in EDGES:
        if edge.rpartition("/")[2].partition(":")[0] not in hive.hive.specs:
            hive.grow(edge)


@for_each("name", sorted(load()))
def test_no_parameter_value_is_an_internal_error(hive: World, name: str) -> None:
    schema = load()[name].params.model_json_schema()
    defs, faults = schema.get("$defs", {}), list[str]()
    for number, (path, type_) in enumerate(places(schema, defs)):
        values = (*OF_TYPE.get(type_, ()), *OTHERS)
        value = values[(number + len(name)) % len(values)]
        for caller in (OPERATOR, "lead"):
            grow_again(hive)
            params = put(usual(schema, defs), path, value)
            exchange = hive.ask(caller, name, **params)
            hive.settle()
            exchange.close()
            if exchange.replies and str(exchange.replies[-1].get("error")).endswith("Internal"):
                faults.append(f"{caller} {json.dumps(params)[:200]}")
    assert not faults
