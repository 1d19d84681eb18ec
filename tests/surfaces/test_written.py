"""What is derived from the registry: fresh in the tree, whole, and readable by others."""

from __future__ import annotations

import json

from each import for_each

from hive_core import errors
from hive_core.operations import load
from hive_core.surfaces import idl
from hive_core.surfaces.__main__ import ROOT, WRITTEN
from hive_core.surfaces.shape import Field, NamedType, Shapes

REGISTRY = load()


@for_each("place", sorted(WRITTEN))
def test_a_written_file_is_fresh(place: str) -> None:
    text = (ROOT / place).read_text(encoding="utf-8")
    assert text == WRITTEN[place](REGISTRY), "run: python -m hive_core.surfaces"


def test_operations_json_has_a_schema_for_every_parameter_and_result() -> None:
    data = json.loads((ROOT / "hive_core/cli/operations.json").read_text(encoding="utf-8"))
    assert data["interface"] == "org.hive.Broker"
    assert set(data["operations"]) == set(REGISTRY)
    for entry in data["operations"].values():
        assert entry["params"]["additionalProperties"] is False
        assert entry["result"]["type"] == "object"
        assert entry["who"]


def test_every_method_alias_and_error_is_in_the_description() -> None:
    text = idl.interface(REGISTRY)
    for value in REGISTRY.values():
        assert f"\nmethod {value.method}(" in text
    assert "\nmethod RequestSpawn(" in text
    for name in errors.BY_WIRE:
        if name.startswith(errors.HIVE):
            assert f"\nerror {name.removeprefix(errors.HIVE)} (" in text


def test_every_operation_has_its_place_in_the_reference() -> None:
    text = (ROOT / "docs/reference/operations.md").read_text(encoding="utf-8")
    for name, value in REGISTRY.items():
        assert f"\n## {name}\n" in text
        assert value.doc.splitlines()[0] in text


SCHEMA = {
    "type": "object",
    "required": ["plain", "maybe"],
    "properties": {
        "plain": {"type": "string", "description": "Plain."},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "late": {"type": "number", "default": 0},
        "many": {"type": "array", "items": {"$ref": "#/$defs/Row"}, "default": []},
        "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "word": {"enum": ["one", "two"], "type": "string"},
        "odd": {"enum": ["a-b", "c"], "type": "string"},
        "mixed": {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]},
        "any": {},
        "deep": {"anyOf": [{"$ref": "#/$defs/Colour"}, {"type": "null"}], "default": None},
    },
    "$defs": {
        "Row": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        "Colour": {"enum": ["red"], "type": "string"},
    },
}


def test_shapes_have_the_types_of_varlink() -> None:
    shapes = Shapes(set())
    collected = {field.name: field.type for field in shapes.fields(SCHEMA, absent=True)}
    assert collected == {
        "plain": "string",
        "maybe": "?int",
        "late": "?float",
        "many": "?[]Row",
        "map": "?[string]bool",
        "word": "?(one, two)",
        "odd": "?string",
        "mixed": "?object",
        "any": "?object",
        "deep": "?Colour",
    }
    assert shapes.types["Colour"].words == ("red",)
    params = {field.name: field.type for field in Shapes(set()).fields(SCHEMA, absent=False)}
    assert (params["late"], params["many"], params["maybe"]) == ("float", "[]Row", "?int")


def test_types_of_one_name_and_two_shapes_get_two_names() -> None:
    shapes = Shapes({"Taken"})
    one, two = NamedType("Row", "", (Field("x", "int", ""),)), NamedType("Row", "", ())
    assert [shapes.declare(entry) for entry in (one, two, one, two)] == [
        "Row", "Row2", "Row", "Row2",
    ]  # fmt: skip
    assert shapes.declare(NamedType("Taken", "")) == "Taken2"
