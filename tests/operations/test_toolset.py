"""list_toolset: the tools that an agent's model sees, and who may list them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

import pytest
from each import for_each
from fixtures.world import Reply, World, names, rows, world

from hive_core.agent import tool_input
from hive_core.model.agents.agent import AgentSpec, Role
from hive_core.model.agents.toolset import SERVER_TOOLS, tools_of_table
from hive_core.model.work.tools import LOCAL_TOOLS, TOOLS
from hive_core.operations import load
from hive_core.operations.tools.schemas import parameters_schema
from hive_core.operations.tools.toolset import _operation_row, toolset_rows


@pytest.fixture(name="hive", scope="module")
def _hive() -> Iterator[World]:
    with world(None, "root/lead:lead", "lead/wu:worker", "wu/tim:task", "lead/ada:architect") as it:
        yield it


WHO = {"wu": "", "lead": "", "root": "", "operator": "", "tim": "NotAllowed", "ada": "NotAllowed"}


@for_each("caller, error", WHO.items())
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


@for_each("who", ["lead", "wu", "tim", "ada"])
def test_the_same_agent_gets_the_same_tools_in_the_same_order(hive: World, who: str) -> None:
    """Q3: and none of them twice."""
    first = hive.call(who, "list_toolset")
    assert hive.call(who, "list_toolset") == first
    assert len(set(map(str, names(first["tools"])))) == len(rows(first["tools"]))


def test_tools_that_the_caller_has_read_are_left_out_until_they_change(hive: World) -> None:
    first = hive.call("lead", "list_toolset")
    again = hive.call("lead", "list_toolset", known=first["digest"])
    assert again == {**first, "tools": []}
    assert hive.call("wu", "list_toolset", known=first["digest"])["tools"]
    hive.call("operator", "revoke_capability", agent="lead", capability="trigger")
    changed = hive.call("lead", "list_toolset", known=first["digest"])
    assert len(rows(changed["tools"])) < len(rows(first["tools"]))
    hive.call("operator", "grant_capability", agent="lead", capability="trigger")
    assert hive.call("lead", "list_toolset") == first


def test_a_list_of_commands_is_part_of_the_digest(hive: World) -> None:
    """Two agents with the same tools, and other commands of one of them."""
    rows_of = {who: hive.call(who, "list_toolset") for who in ("wu", "tim", "ada")}
    digests = {who: str(reply["digest"]) for who, reply in rows_of.items()}
    equal = {(a, b) for a in rows_of for b in rows_of if rows_of[a]["tools"] == rows_of[b]["tools"]}
    assert equal == {(a, b) for a in digests for b in digests if digests[a] == digests[b]}


def members(schema: object) -> Iterator[dict[str, object]]:
    """Every object inside a schema."""
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from members(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from members(value)


@for_each("who", ["lead", "wu", "tim", "ada", "root"])
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
    # The session itself calls tools of the agent's own servers.
    tools = [tool for tool in TOOLS.values() if tool.name not in SERVER_TOOLS.tools]
    assert set(tool_input.TOOLS) == {tool.name for tool in tools}
    for tool in (*tools, *LOCAL_TOOLS.values()):
        names = {tool.name, *tool.aliases}
        assert {tool_input.tool_name(name) for name in names} == {tool.name}
        assert tool_input._PARAMETERS[tool.name].keys() == tool.parameters.keys()
        assert tool_input._REQUIRED[tool.name] == tool.required
    aliases = sum(1 + len(tool.aliases) for tool in tools)
    assert len(tool_input.NAMES) == aliases + len(LOCAL_TOOLS)


def test_the_toolset_names_the_entries_for_tools_of_own_servers(world: World) -> None:
    world.call("operator", "spawn", name="wu", parent="root", role="worker")
    tools = ["read", "mcp(git *)"]
    world.call("operator", "spawn", name="we", parent="root", role="worker", tools=tools)
    entries = {
        name: world.call("operator", "list_toolset", agent=name)["server_tools"]
        for name in ("root", "wu", "we")
    }
    assert entries == {"root": [], "wu": ["mcp"], "we": ["mcp(git *)"]}
    world.call("we", "use_tool", tool="mcp", argument=["git", "log"])
    assert world.fault("we", "use_tool", tool="mcp", argument=["hub", "log"]) == "NotAllowed"


# What may end, replace or remove something, and what may be called twice. A new tool joins one of
# these lists where it is so.
DESTRUCTIVE = {
    "allocate_budget", "bash", "cancel_reminder", "cancel_task", "delete_artifact", "destroy",
    "edit", "hive_fork_subagent", "kill", "move", "reap_zombies", "remove_trigger", "restart",
    "set_trigger", "sleep", "stop", "stop_work", "stop_worker", "undo", "update",
}  # fmt: skip
IDEMPOTENT = {
    "approve_plan", "cancel_reminder", "cancel_task", "delete_artifact", "destroy", "follow_topic",
    "kill", "move", "remove_trigger", "set_trigger", "sleep", "start", "stop", "stop_work",
    "unfollow_topic",
}  # fmt: skip
OPEN_WORLD = {"bash", "hive_fork_subagent", "request_update_meta_inputs"}


def test_hints_say_what_a_tool_may_do() -> None:
    spec = AgentSpec(uuid=UUID(int=1), role=Role.WORKER, capabilities=("subagents",))
    execution = [row for row in toolset_rows(spec) if row.kind != "operation"]
    registry = load()
    operations = {name for name in tools_of_table() if name in registry}
    hints = {
        **{row.name: row.hints for row in execution},
        **{name: _operation_row(registry[name]).hints for name in operations},
    }
    assert set(tools_of_table()) == hints.keys()
    reads = {name for name, hint in hints.items() if hint.read_only}
    assert {"list_agents", "get_task", "whoami", "read", "read_skill"} <= reads
    assert not {"send", "spawn", "answer"} & reads
    assert {name for name, hint in hints.items() if hint.destructive} == DESTRUCTIVE
    assert {name for name, hint in hints.items() if hint.idempotent} == IDEMPOTENT | reads
    assert {name for name, hint in hints.items() if hint.open_world} == OPEN_WORLD


def test_whatever_stops_or_destroys_is_destructive_under_any_name() -> None:
    declared = load()["stop"]
    assert replace(declared, name="halt").is_destructive
    assert not declared.destructive
    assert not replace(load()["get_task"], destructive=True).is_destructive


@for_each("first", ["stop", "sleep", "start", "kill", "follow_topic"])
def test_what_is_idempotent_has_no_further_effect(first: str) -> None:
    with world(None, "root/lead:lead", "lead/wu:worker") as hive:
        params = {"topic": "news"} if first == "follow_topic" else {"agent": "wu"}
        hive.call("lead", first, **params)
        before = state_of(hive)
        hive.call("lead", first, **params)
        assert state_of(hive) == before


def state_of(hive: World) -> object:
    """What a second call must not change: wishes for the agents, and what they follow."""
    agents = rows(hive.call("operator", "list_agents")["agents"])
    return agents, hive.ledger.queues.follows.of(hive.uuid("lead")), hive.mail("wu")
