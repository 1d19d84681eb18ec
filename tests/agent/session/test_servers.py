"""The agent's own MCP servers (row Q46): real processes good and hostile."""

from __future__ import annotations

import json
import sys
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from each import for_each
from fixtures import own_server
from fixtures.fake_model import ModelAnswer
from fixtures.session_host import SessionHost, session_host
from fixtures.world import fields, rows, world

from hive_core.agent.reconnect import wire_name
from hive_core.agent.server_tools import CALL, LIST
from hive_core.agent.session.runtimes.builtin import RuntimeCommand
from hive_core.agent.session.server_settings import ServerSettings, read_server_settings
from hive_core.agent.session.server_socket import ServerToolSocket
from hive_core.agent.session.servers import (
    McpServers,
    RequiredServerFailed,
    ServerTool,
)
from hive_core.errors import InvalidArgument, NotAllowed, Unreachable
from hive_core.model.config.agent_config import parse_agent_config
from hive_core.varlink import Client, Message

HOSTILE = ("ends", "floods", "hangs", "huge", "invalid", "many", "names")
START_SECONDS = 10.0


def command(behaviour: str) -> tuple[str, ...]:
    return (sys.executable, str(own_server.__file__), behaviour)


@pytest.fixture(name="servers", scope="module")
def _servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServers]:
    """A good server and all the hostile ones, behind one process."""
    rows = [
        ServerSettings("good", command("good"), required=True),
        ServerSettings("few", command("plain"), tools=("echo", "fly")),
        *(ServerSettings(name, command(name)) for name in HOSTILE),
    ]
    place = tmp_path_factory.mktemp("work")
    runtime = RuntimeCommand(folder=None, uid=None, environment={"SECRET_OF_THE_SESSION": "x"})
    servers = McpServers(runtime, rows, place, START_SECONDS)
    yield servers
    servers.close()


@pytest.fixture(name="tools", scope="module")
def _tools(servers: McpServers) -> dict[str, ServerTool]:
    return {tool.name: tool for tool in servers.tools()}


def call(servers: McpServers, tool: ServerTool, **arguments: object) -> tuple[str, bool]:
    pending = servers.begin_call(tool, arguments)
    assert pending.done.wait(60)
    return pending.content, pending.is_error


def faults(servers: McpServers) -> dict[str, str]:
    return {name: state.fault for name, state in servers._states.items() if state.fault}


def test_the_good_servers_are_offered_whatever_the_hostile_ones_do(
    servers: McpServers, tools: dict[str, ServerTool]
) -> None:
    names = {tool.tool for tool in tools.values() if tool.server == "good"}
    assert names == {"echo", "facts", "fail", "sleep", "start", "exit", "picture"}
    assert [tool.tool for tool in tools.values() if tool.server == "few"] == ["echo"]
    said = faults(servers)
    assert said["ends"] == "it ended with 1: no such  [31mdatabase"
    assert said["hangs"] == f"it did not answer within {START_SECONDS:g} s"
    assert said["huge"].startswith("it sent a line of more than")
    assert said["floods"].startswith("it sends what is not JSON-RPC")
    assert said.keys() == {"ends", "hangs", "huge", "floods"}


def test_what_no_provider_takes_is_left_out(tools: dict[str, ServerTool]) -> None:
    rows = {tool.tool: tool for tool in tools.values() if tool.server == "names"}
    assert rows.keys() == {"fine", "dot.ted"}
    assert rows["dot.ted"].name == "mcp__names__dot_ted"
    assert rows["fine"].description.startswith("a [2Jbxxx")
    assert len(rows["fine"].description) <= 1024
    many = [tool.tool for tool in tools.values() if tool.server == "many"]
    assert many == [f"tool{number:05}" for number in range(64)]


def test_a_call_has_its_result_and_a_failed_one_says_so(
    servers: McpServers, tools: dict[str, ServerTool]
) -> None:
    assert call(servers, tools["mcp__good__echo"], text="hé") == ("you said hé", False)
    assert call(servers, tools["mcp__good__fail"], text="x") == ("you said x", True)
    picture = call(servers, tools["mcp__good__picture"])
    assert picture == ("[image, image/png, not shown]", False)
    text, is_error = call(servers, tools["mcp__names__fine"])
    assert (text, is_error) == ("no such [2J method", True)


def test_a_cli_calls_them_through_its_session_under_the_same_grants(
    servers: McpServers, tools: dict[str, ServerTool], tmp_path: Path
) -> None:
    """The client in the container of the CLI is `hive-agent mcp`; tests/clis has real CLIs."""
    with (
        world(None, "root/lead:lead", "lead/worker:worker") as made,
        session_host(made, tmp_path) as host,
        closing(
            ServerToolSocket(tmp_path / "s", servers, host.server.socket_of("worker"))
        ) as server,
        ThreadPoolExecutor(1) as threads,
    ):

        def ask(operation: str, **params: object) -> Message:
            """The answer of the session, which asks the broker meanwhile."""
            with Client(str(tmp_path / "s")) as client:
                reply = threads.submit(client.call, wire_name(operation), params)
                host.until(reply.done)
                return reply.result()

        with pytest.raises(InvalidArgument, match="does not run"):
            ask(CALL, name="mcp__good__echo", arguments={"text": "hi"})
        assert ask(LIST) == {"tools": []}
        server.begin_turn([tools["mcp__good__echo"]], "")
        (offered,) = rows(ask(LIST)["tools"])
        assert offered["name"] == "mcp__good__echo"
        reply = ask(CALL, name="mcp__good__echo", arguments={"text": "hi"})
        assert reply == {"content": "you said hi", "is_error": False}
        (grant,) = host.events("use_tool")
        assert (fields(grant)["tool"], fields(grant)["argument"]) == ("mcp", "good echo")
        assert [fields(row)["status"] for row in host.events("end_tool")] == ["ok"]
        task = host.assign("Echo again.", plan_required=True)
        host.world.call("worker", "begin_task", task=task)
        server.begin_turn([tools["mcp__good__echo"]], task)
        with pytest.raises(NotAllowed, match="cannot use mcp: "):
            ask(CALL, name="mcp__good__echo", arguments={"text": "no"})
        assert len(host.events("end_tool")) == 1
        with Client(str(tmp_path / "s")) as client, pytest.raises(InvalidArgument):
            client.call("org.hive.Broker.UseTool", {})


def test_the_socket_of_a_cli_serves_a_few_connections_at_once_and_none_after_its_end(
    servers: McpServers, tmp_path: Path
) -> None:
    server = ServerToolSocket(tmp_path / "s", servers, "/nowhere")
    with ExitStack() as stack:
        for _ in range(8):
            client = stack.enter_context(Client(str(tmp_path / "s")))
            assert client.call(wire_name(LIST)) == {"tools": []}
        with Client(str(tmp_path / "s")) as one_more, pytest.raises(Unreachable):
            one_more.call(wire_name(LIST))
    server.close()
    with pytest.raises(Unreachable):
        Client(str(tmp_path / "s"))


def test_a_server_sees_nothing_of_the_session(
    servers: McpServers, tools: dict[str, ServerTool]
) -> None:
    facts = json.loads(call(servers, tools["mcp__good__facts"])[0])
    assert set(facts["environment"]) <= {"HOME", "LANG", "LC_CTYPE", "PATH"}
    assert Path(facts["folder"]).name.startswith("work")


def test_a_call_that_is_stopped_leaves_the_server_as_it_is(
    servers: McpServers, tools: dict[str, ServerTool]
) -> None:
    pending = servers.begin_call(tools["mcp__good__sleep"], {"text": "600"})
    servers.cancel(pending)
    assert pending.done.is_set()
    assert (pending.content, pending.is_error) == ("stopped, effect unknown", True)
    assert call(servers, tools["mcp__good__echo"], text="1")[0] == "you said 1"


def test_a_server_that_sends_no_json_to_a_call_is_ended(
    servers: McpServers, tools: dict[str, ServerTool]
) -> None:
    assert call(servers, tools["mcp__invalid__fine"])[1] is True
    assert "it sends what is not JSON-RPC" in faults(servers)["invalid"]


def test_a_server_that_ends_in_a_call_is_started_again_with_the_next_turn(
    servers: McpServers, tools: dict[str, ServerTool]
) -> None:
    gone = "the server good has ended: it ended with 3"
    text, is_error = call(servers, tools["mcp__good__exit"])
    assert (text, is_error) == (f"{gone}; the effect of the call is unknown", True)
    assert call(servers, tools["mcp__good__echo"]) == (gone, True)
    assert "mcp__good__echo" in {tool.name for tool in servers.tools()}
    assert call(servers, tools["mcp__good__echo"], text="2")[0] == "you said 2"


def test_the_end_of_the_session_ends_the_servers_and_what_they_started(
    servers: McpServers, tools: dict[str, ServerTool]
) -> None:
    pid = int(call(servers, tools["mcp__good__start"])[0])
    servers.close()
    deadline = time.monotonic() + 30
    while is_running(pid):
        assert time.monotonic() < deadline
    with pytest.raises(RequiredServerFailed, match="the required MCP server good failed"):
        servers.tools()


def is_running(pid: int) -> bool:
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            != "Z"
        )
    except FileNotFoundError:
        return False


CONFIG = """
[mcp.own]
command = [{python}, {script}, "plain"]
required = true
"""


def test_a_turn_calls_its_servers_under_grants(tmp_path: Path) -> None:
    python, script = json.dumps(sys.executable), json.dumps(str(own_server.__file__))
    (tmp_path / "agent.toml").write_text(CONFIG.format(python=python, script=script))
    with (
        world(None, "root/lead:lead", "lead/worker:worker") as made,
        session_host(made, tmp_path) as host,
    ):
        host.environment["HIVE_CONFIG"] = str(tmp_path)
        host.model.script = [
            ModelAnswer(calls=[("a", "mcp__own__echo", {"text": "hi"})]), ModelAnswer("done"),
            ModelAnswer(calls=[("b", "mcp__own__echo", {"text": "no"})]), ModelAnswer("refused"),
        ]  # fmt: skip
        host.start()
        host.send("Echo.")
        assert host.until(host.replies) == ["done"]
        (result,) = host.of_kind("result")
        assert (result["content"], result["is_error"]) == ("you said hi", False)
        (grant,) = host.events("use_tool")
        assert (fields(grant)["tool"], fields(grant)["argument"]) == ("mcp", "own echo")
        assert [fields(row)["status"] for row in host.events("end_tool")] == ["ok"]
        assert "servers of your own" in host.model.bodies[0].decode()
        offered = [row["function"] for row in tools_of(host, 0)]
        assert {"mcp__own__echo", "bash"} <= {row["name"] for row in offered}
        assert "mcp" not in {row["name"] for row in offered}
        # A plan that waits for approval locks them like every tool that executes.
        task = f"task-{host.assign('Echo again.', plan_required=True)}"
        (result,) = host.until(lambda: host.of_kind("result", task))
        assert result["is_error"] is True
        assert "cannot use mcp: " in str(result["content"])
        assert len(host.events("end_tool")) == 1


def tools_of(host: SessionHost, number: int) -> list[dict[str, dict[str, object]]]:
    tools = host.model.requests()[number]["tools"]
    assert isinstance(tools, list)
    return tools


@pytest.fixture(name="parked", scope="module")
def _parked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionHost]:
    """A session whose required server fails, so that no turn goes on."""
    folder = tmp_path_factory.mktemp("parked")
    (folder / "agent.toml").write_text('[mcp.own]\ncommand = ["false"]\nrequired = true\n')
    with (
        world(None, "root/lead:lead", "lead/worker:worker") as made,
        session_host(made, folder) as host,
    ):
        host.environment["HIVE_CONFIG"] = str(folder)
        host.start()
        yield host


def test_a_required_server_that_fails_parks_the_turn_and_says_why(parked: SessionHost) -> None:
    parked.send("Echo.")
    parked.until(lambda: parked.events("escalate"))
    assert parked.model.bodies == []
    letters = [str(row["body"]) for row in parked.world.mail("lead")]
    assert any("the required MCP server own failed: it ended with 1" in it for it in letters)


def test_a_task_is_cancelled_although_its_required_server_fails(parked: SessionHost) -> None:
    """Without a new start of the machine, and the next task has its turn."""
    task = parked.assign("Echo.")
    parked.until(lambda: parked.of_kind("park", f"task-{task}"))
    later = parked.assign("Echo again.")
    parked.world.call("lead", "cancel_task", task=task, reason="not needed")
    parked.until(lambda: parked.task(task)["state"] == "cancelled")
    assert parked.events("forced") == []
    parked.until(lambda: parked.of_kind("park", f"task-{later}"))


@for_each("text", [
        "mcp = 5", "[mcp.a__b]\ncommand = ['x']", "[mcp.A]\ncommand = ['x']", "[mcp.a]",
        "[mcp.a]\ncommand = []", "[mcp.a]\ncommand = 5", "[mcp.a]\ncommand = ['x']\nenv = {}",
        "[mcp.a]\ncommand = ['x']\nrequired = 'yes'", "[mcp.a]\ncommand = ['x']\ntools = 'x'",
        "\n".join(f"[mcp.a{number}]\ncommand = ['x']" for number in range(9)),
    ])  # fmt: skip
def test_the_session_refuses_the_settings_that_an_approval_refuses(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(text)
    with pytest.raises(InvalidArgument):
        parse_agent_config(tomllib.loads(text))
    with pytest.raises(InvalidArgument):
        read_server_settings(file)


def test_the_settings_are_read_with_their_defaults(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    assert read_server_settings(file) == ()
    file.write_text("[mcp.b]\ncommand = 'x -y'\ntools = ['t']\n[mcp.a]\ncommand = ['z']\n")
    assert read_server_settings(file) == (
        ServerSettings("a", ("z",)), ServerSettings("b", ("x", "-y"), tools=("t",)),
    )  # fmt: skip
