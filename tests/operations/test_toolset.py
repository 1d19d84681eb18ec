"""list_toolset: what the model of an agent sees, and who may look at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.world import Reply, World, names, rows, world

from hive_core.agent import tool_input
from hive_core.model.work.tools import LOCAL_TOOLS, TOOLS
from hive_core.operations import load
from hive_core.operations.tools.schemas import parameters_schema


@pytest.fixture(name="hive", scope="module")
def _hive() -> Iterator[World]:
    with world(None, "root/lead:lead", "lead/wu:worker", "wu/tim:task", "lead/ada:architect") as it:
        yield it


WHO = {"wu": "", "lead": "", "root": "", "operator": "", "tim": "NotAllowed", "ada": "NotAllowed"}


@pytest.mark.parametrize(("caller", "error"), WHO.items())
def test_an_agent_its_ancestors_and_the_operator_read_it(
    hive: World, caller: str, error: str
) -> None:
    assert hive.fault(caller, "list_toolset", agent="wu") == error


def test_the_operator_names_an_agent(hive: World) -> None:
    assert hive.fault("operator", "list_toolset") == "InvalidArgument"


def tools(hive: World, name: str) -> dict[object, Reply]:
    return {row["name"]: row for row in rows(hive.call(name, "list_toolset")["tools"])}


def test_a_worker_has_tools_of_both_kinds_and_a_lead_executes_nothing(hive: World) -> None:
    """T1."""
    worker, lead = tools(hive, "wu"), tools(hive, "lead")
    assert {row["kind"] for row in worker.values()} == {"operation", "execution"}
    execution = {name for name, row in lead.items() if row["kind"] == "execution"}
    assert execution == LOCAL_TOOLS.keys()
    assert worker["bash"]["kind"] == "execution"
    assert "assign_task" in lead
    assert "assign_task" not in worker
    assert hive.call("ada", "list_toolset")["behaviour"] == "worker"


def test_the_list_of_the_agent_restricts_its_tools_of_execution(hive: World) -> None:
    hive.call("lead", "spawn", name="gus", role="worker", tools=["bash(git *)", "read"])
    result = tools(hive, "gus")
    assert TOOLS.keys() & result.keys() == {"bash", "read"}
    assert str(result["bash"]["description"]).endswith("Only: bash(git *).")
    assert "Only" not in str(result["read"]["description"])


def test_a_granted_capability_shows_at_the_next_call(hive: World) -> None:
    assert "set_trigger" in tools(hive, "lead")
    hive.call("operator", "revoke_capability", agent="lead", capability="trigger")
    assert "set_trigger" not in tools(hive, "lead")
    hive.call("operator", "grant_capability", agent="lead", capability="trigger")


@pytest.mark.parametrize("who", ["lead", "wu", "tim", "ada"])
def test_the_same_agent_gets_the_same_tools_in_the_same_order(hive: World, who: str) -> None:
    """Q3: and none of them twice."""
    first = hive.call(who, "list_toolset")
    assert hive.call(who, "list_toolset") == first
    assert len(set(map(str, names(first["tools"])))) == len(rows(first["tools"]))


def members(schema: object) -> Iterator[dict[str, object]]:
    """Every object inside a schema."""
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from members(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from members(value)


@pytest.mark.parametrize("who", ["lead", "wu", "tim", "ada", "root"])
def test_a_schema_is_plain_and_has_what_a_model_sets(hive: World, who: str) -> None:
    for name, row in tools(hive, who).items():
        assert row["description"], name
        schema = row["schema"]
        assert isinstance(schema, dict)
        assert (schema["type"], schema["additionalProperties"]) == ("object", False)
        properties = schema["properties"]
        assert isinstance(properties, dict)
        assert "idempotency_key" not in properties
        for part in members(schema):
            assert not {"$ref", "$defs", "maxLength"} & part.keys(), name
            assert part.get("type") != "null", name
        undescribed = [key for key, value in properties.items() if "description" not in value]
        assert not undescribed, name


def test_what_a_model_must_set_is_what_the_operation_requires() -> None:
    for operation in load().values():
        schema = operation.params.model_json_schema(mode="validation")
        assert parameters_schema(schema)["required"] == schema.get("required", []), operation.name


def test_a_seconds_wait_is_hidden_and_the_wait_of_a_delegation_is_not() -> None:
    """T4: it parks the caller's turn and blocks no call."""
    registry = load()
    parts = parameters_schema(registry["spawn"].params.model_json_schema())["properties"]
    assert "wait" not in parts
    delegation = registry["spawn_agent_and_assign_task"].params.model_json_schema()
    assert parameters_schema(delegation)["properties"]["wait"]["type"] == "boolean"


def test_the_client_in_the_container_takes_what_the_schemas_of_execution_say() -> None:
    assert set(tool_input.TOOLS) == TOOLS.keys()
    for tool in (*TOOLS.values(), *LOCAL_TOOLS.values()):
        names = {tool.name, *tool.aliases}
        assert {tool_input.tool_name(name) for name in names} == {tool.name}
        assert tool_input._PARAMETERS[tool.name].keys() == tool.parameters.keys()
        assert tool_input._REQUIRED[tool.name] == tool.required
    aliases = sum(1 + len(tool.aliases) for tool in TOOLS.values())
    assert len(tool_input.NAMES) == aliases + len(LOCAL_TOOLS)
