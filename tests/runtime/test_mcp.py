"""`hive-agent mcp`: the SDK's client over standard input and output against a real broker."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from agent.broker_server import broker_server
from fixtures.mcp_client import CLIENT, McpHost
from fixtures.world import Reply, rows, world

pytestmark = pytest.mark.slow

if TYPE_CHECKING:  # half a second to import, in each process that only collects the tests
    from mcp import types
    from mcp.client import Client

MODES = ("auto", "legacy")
HELLO: Reply = {
    "jsonrpc": "2.0", "id": 0, "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}  # fmt: skip
READY: Reply = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.fixture(name="host", scope="module")
def _host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpHost]:
    with (
        world(None, "root/lead:lead", "lead/worker:worker", "lead/tom:worker") as made,
        broker_server(made, tmp_path_factory.mktemp("mcp")) as server,
        closing(McpHost(server)) as host,
    ):
        yield host


def operations(host: McpHost, agent: str) -> list[Reply]:
    """The operations of an agent's toolset, as the broker lists them."""
    listed = rows(host.world.call(agent, "list_toolset")["tools"])
    return [row for row in listed if row["kind"] == "operation"]


def content(result: types.CallToolResult) -> dict[str, object]:
    """The structured content; the text says the same."""
    from mcp.types import TextContent  # noqa: PLC0415

    (block,) = result.content
    assert isinstance(block, TextContent)
    fields = result.structured_content
    assert block.text == json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    assert isinstance(fields, dict)
    return fields


def refusal(result: types.CallToolResult) -> dict[str, object]:
    """The content of a result that is an error."""
    assert result.is_error
    fields = content(result)
    assert {"error", "reason", "next"} <= fields.keys()
    return fields


@pytest.mark.parametrize(
    ("agent", "mode"), [("lead", "auto"), *(("worker", mode) for mode in MODES)]
)
def test_a_client_sees_the_operations_of_the_toolset_in_their_order(
    host: McpHost, agent: str, mode: str
) -> None:
    tools = host.tools(agent, mode)
    expected = operations(host, agent)
    assert [*tools] == [row["name"] for row in expected]
    assert [tool.input_schema for tool in tools.values()] == [row["schema"] for row in expected]
    assert ("assign_task" in tools) == (agent == "lead")
    assert not {"bash", "edit", "read_skill"} & tools.keys()


def test_every_tool_has_every_hint(host: McpHost) -> None:
    tools = {**host.tools("lead"), **host.tools("worker"), **host.tools("root")}
    assert len(tools) > 40
    for tool in tools.values():
        hints = tool.annotations
        assert hints is not None
        for hint in (
            hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint,
            hints.open_world_hint,
        ):  # fmt: skip
            assert isinstance(hint, bool), tool.name


def test_no_schema_has_what_the_server_sets_or_a_union_with_null(host: McpHost) -> None:
    for name, tool in host.tools("lead").items():
        assert not {"idempotency_key", "in_turn_of"} & tool.input_schema["properties"].keys(), name
        assert '"null"' not in json.dumps(tool.input_schema), name


@pytest.mark.parametrize("mode", MODES)
def test_a_call_takes_effect_and_has_structured_content(host: McpHost, mode: str) -> None:
    sent = host.run(
        "worker", lambda client: client.call_tool("send", {"to": "lead", "body": mode}), mode
    )
    assert not sent.is_error
    fields = content(sent)
    (letter,) = (row for row in host.world.mail("lead") if row["body"] == mode)
    assert (letter["id"], letter["from"]) == (fields["id"], "worker")


def test_calls_of_one_client_run_at_once_and_absent_values_may_be_null(host: McpHost) -> None:
    async def story(client: Client) -> list[types.CallToolResult]:
        return await asyncio.gather(*(
            client.call_tool("send", {
                "to": "lead", "body": f"part {number}", "thread": None, "kind": None,
            })
            for number in range(8)
        ))  # fmt: skip

    assert not any(result.is_error for result in host.run("tom", story))
    bodies = {row["body"] for row in host.world.mail("lead") if row["from"] == "tom"}
    assert bodies == {f"part {number}" for number in range(8)}


def test_a_refused_call_says_what_to_do_next(host: McpHost) -> None:
    fields = refusal(host.call("lead", "stop", agent="lead"))
    assert fields["error"] == "NotAllowed"
    assert fields["rule"]
    assert fields["next"] == (
        "Do not repeat this call. Do what is needed in another way, or get a decision with `ask`."
    )


def test_a_tool_of_another_role_does_not_exist(host: McpHost) -> None:
    fields = refusal(host.call("worker", "assign_task", agent="tom", description="x", title="y"))
    assert fields["reason"] == "tool 'assign_task' does not exist"
    assert str(fields["next"]).startswith("Call one of get_task, create_plan, ")


def test_an_unknown_agent_is_looked_up(host: McpHost) -> None:
    fields = refusal(host.call("lead", "send", to="nobody", body="x"))
    assert fields["error"] == "NotFound"
    assert "`list_agents`" in str(fields["next"])


BAD = {
    "missing": ({"to": "lead"}, "body", "body: Text, at most 64 KiB."),
    "of another type": ({"to": "lead", "body": 1}, "body", "body: Text, at most 64 KiB."),
    "unknown": (
        {"to": "lead", "body": "x", "subject": "y"}, "subject",
        "Its parameters are to (required), body (required), kind, thread",
    ),
    "of the server": ({"to": "lead", "body": "x", "idempotency_key": "k"}, "idempotency_key", ""),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "field", "hint"), BAD.values(), ids=BAD)
def test_a_bad_argument_is_named_with_what_is_right(
    host: McpHost, arguments: dict[str, object], field: str, hint: str
) -> None:
    before = host.world.mail("lead")
    fields = refusal(host.call("worker", "send", **arguments))
    assert fields.get("field", fields.get("parameter", field)) == field
    assert field in str(fields["reason"])
    assert str(fields["next"]).startswith("Correct the arguments and call `send` again.")
    assert hint in str(fields["next"])
    assert host.world.mail("lead") == before


def test_a_wrong_word_is_answered_with_the_right_ones(host: McpHost) -> None:
    fields = refusal(
        host.call("worker", "escalate", issue="stuck", severity="awful", context="none")
    )
    assert "severity is one of " in str(fields["next"])


def test_arguments_that_no_message_can_hold_are_refused(host: McpHost) -> None:
    fields = refusal(host.call("worker", "send", to="lead", body="x" * (1 << 20)))
    assert fields["error"] == "InvalidArgument"
    assert fields["field"] == "arguments"


def tool_call(number: object, body: str) -> Reply:
    params = {"name": "send", "arguments": {"to": "lead", "body": body}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def test_a_repeated_request_has_one_effect_and_its_first_result(host: McpHost) -> None:
    _, first, again, other = host.run_lines(
        "worker", HELLO, READY, tool_call(7, "once"), tool_call(7, "once"), tool_call("7", "once")
    )
    assert first == again
    assert other["result"]["structuredContent"] != first["result"]["structuredContent"]
    assert len([row for row in host.world.mail("lead") if row["body"] == "once"]) == 2
    # Another connection has requests of its own.
    host.run_lines("worker", HELLO, READY, tool_call(7, "once"))
    assert len([row for row in host.world.mail("lead") if row["body"] == "once"]) == 3


def test_what_is_sent_for_a_message_is_sent_in_its_turn(host: McpHost) -> None:
    letter = str(host.world.call("operator", "send", to="root", body="start")["id"])
    host.world.mail("root")
    host.run_alone(
        "root", lambda client: client.call_tool("send", {"to": "lead", "body": "hop"}),
        HIVE_MESSAGE_ID=letter,
    )  # fmt: skip
    (sent,) = (row for row in host.world.mail("lead") if row["body"] == "hop")
    assert sent["hops"] == 1


def test_a_file_in_the_workspace_is_not_taken_for_a_module(host: McpHost, tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise SystemExit('taken')")
    result = host.run_alone(
        "worker", lambda client: client.call_tool("whoami", {}), folder=tmp_path
    )
    assert content(result)["name"] == "worker"


def test_a_changed_capability_shows_in_the_tools(host: McpHost) -> None:
    host.world.call("operator", "revoke_capability", agent="lead", capability="trigger")
    assert "set_trigger" not in host.tools("lead")
    host.world.call("operator", "grant_capability", agent="lead", capability="trigger")
    assert "set_trigger" in host.tools("lead")


def run_command(folder: Path, runtime: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"], "HIVE_SOCKET": str(folder / "no.sock"), "HIVE_RUNTIME": runtime,
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, str(CLIENT), "mcp", *words], env=environment, capture_output=True,
        text=True, input="", timeout=60, check=False,
    )  # fmt: skip


def test_without_the_runtime_the_command_says_so(tmp_path: Path) -> None:
    ended = run_command(tmp_path, str(tmp_path / "none"))
    assert ended.returncode == 78
    assert ended.stderr == (
        f"hive-agent: cannot start the runtime: {tmp_path}/none is not there (No such file or"
        " directory); the host installs it with scripts/install\n"
    )
    assert run_command(tmp_path, "", "--help").stdout.startswith("usage: hive-agent mcp")


def test_the_server_ends_with_its_client(tmp_path: Path) -> None:
    ended = run_command(tmp_path, "")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


# Raw JSON, as no client of the SDK would write it.
HOSTILE = {
    "a lone surrogate as a name": '{"\\ud800": 1}',
    "a lone surrogate as a value": '{"to": "lead", "body": "\\ud800"}',
    "no number": '{"to": "lead", "body": "x", "priority": NaN}',
    "a number out of range": '{"to": "lead", "body": "x", "priority": 1e999}',
    "an integer of 400 digits": '{"to": "lead", "body": "x", "priority": %s}' % ("9" * 400),
    "deep": '{"to": "lead", "body": ' + "[" * 100 + "]" * 100 + "}",
    "deeper": '{"to": "lead", "body": ' + "[" * 5000 + "]" * 5000 + "}",
    "a long name": '{"%s": 1}' % ("n" * 10_000),
    "no object": "[1, 2]",
}


def test_hostile_arguments_leave_the_server_answering(host: McpHost) -> None:
    before = len(host.world.mail("lead"))
    head = '{"jsonrpc": "2.0", "id": %d, "method": "tools/call", "params": {"name": "%s",'
    lines = [
        f'{head % (number, "send")} "arguments": {arguments}}}}}\n'
        for number, arguments in enumerate(HOSTILE.values(), 100)
    ]
    lines += [f'{head % (200, "fly")} "arguments": {{}}}}}}\n', "nonsense\n", "\n"]
    answers = host.run_raw("worker", [HELLO, READY], lines, tool_call(300, "still here"))
    final = answers[-1]
    assert final["id"] == 300
    assert not final["result"].get("isError")
    for answer in answers[1:-1]:
        assert "error" in answer or answer["result"]["isError"], answer
    assert len(host.world.mail("lead")) == before + 1
