"""Any program is an agent: `hive-agent serve` in real containers, through stops and crashes.

Also programs in Python, and clients of MCP in a container, on the same host.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from environments import need_environment
from long import times

pytestmark = pytest.mark.lab
EXAMPLES = Path(__file__).parents[2] / "examples"

AS_USER = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "env", "HOME=/tmp")
# It prints the names of the tools, and what two calls were answered with.
MCP_CLIENT = """
import asyncio, json
from mcp import StdioServerParameters
from mcp.client import Client

async def talk():
    async with Client(StdioServerParameters(command="hive-agent", args=["mcp"])) as client:
        tools = (await client.list_tools()).tools
        sent = await client.call_tool("send", {"to": "root", "body": "over MCP"})
        refused = await client.call_tool("send", {"to": "nobody", "body": "x"})
    hints = [tool.annotations.model_dump() for tool in tools]
    print(json.dumps([
        [tool.name for tool in tools], hints, sent.structured_content, sent.is_error,
        refused.structured_content, refused.is_error,
    ]))

asyncio.run(talk())
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    return shared_host.prepare("wire")


def serving(host: HiveHost, name: str, script: str) -> None:
    host.hive("agent", "create", name, "--", "hive-agent", "serve", "--", "sh", "-c", script)


def wait_for(look: Callable[[], Any], seconds: float = 60) -> Any:  # noqa: ANN401 - what it finds
    """What a look finds, once it finds something."""
    ends = time.monotonic() + seconds
    while not (result := look()):
        assert time.monotonic() < ends
        time.sleep(0.1)
    return result


def send(host: HiveHost, name: str, body: str) -> str:
    return host.run("hive", "send", name, body, check=False).stdout


def try_send(host: HiveHost, name: str, body: str) -> bool:
    """The same without a command."""
    with suppress(OSError):
        return bool(host.call("Send", to=name, body=body, idempotency_key=body)["id"])
    return False


def waiting(host: HiveHost, agent: str | None = None) -> list[dict[str, Any]]:
    """What is in an inbox, or in the operator's; empty while no daemon answers."""
    with suppress(OSError):
        words = {} if agent is None else {"agent": agent}
        return list(host.call("ListMessages", limit=100, **words)["messages"])
    return []


def answers(host: HiveHost, name: str) -> list[str]:
    return [message["body"] for message in waiting(host) if message["from"] == name]


def test_the_command_sees_the_sender_and_its_own_agent(host: HiveHost) -> None:
    serving(host, "curious", 'echo "$HIVE_NAME/$HIVE_PARENT: $HIVE_FROM ($HIVE_RELATION)"')
    said = host.hive("chat", "curious", text="who am i?\n")
    assert said == "curious/root: operator (operator)\n"


def test_a_session_agent_keeps_its_conversation_until_its_user_ends_it(host: HiveHost) -> None:
    """K42: kept across tasks and stops; what its user prefers is an artifact; a stop ends it."""
    store = '{"name": "preferences", "text": "tea", "visibility": "user"}'
    serving(
        host, "butler",
        f"{{ cat; echo; }} >>/tree/state/said; hive-agent call StoreArtifact '{store}' >&2;"
        " grep -o 'I am [a-z]*' /tree/state/said | tail -n 1",
    )  # fmt: skip
    assert host.hive("chat", "butler", text="I am ada\n") == "I am ada\n"
    task = host.call("AssignTask", agent="butler", description="count the spoons")["task"]
    wait_for(lambda: host.call("GetTask", task=task)["task"]["result"])
    host.hive("stop", "butler")
    host.hive("start", "butler")
    assert host.hive("chat", "butler", text="who am i?\n") == "I am ada\n"
    host.hive("stop", "butler")
    (artifact,) = host.call("ListArtifacts")["artifacts"]
    assert (artifact["name"], artifact["visibility"]) == ("preferences", "user")
    assert host.hive("wait", "butler", "--for", "stopped", "--timeout", "10") == "butler stopped\n"


def test_a_command_that_fails_three_times_makes_a_dead_letter_and_tells_the_sender(
    host: HiveHost,
) -> None:
    serving(host, "clumsy", "echo tried >>/tree/state/tries; exit 7")
    host.hive("send", "clumsy", "please")
    (note,) = wait_for(
        lambda: [message for message in waiting(host) if message["kind"] == "dead_letter"]
    )
    assert "the command ended with 7" in note["body"]
    (dead,) = host.json("inbox", "clumsy", "--dead")
    assert dead["body"] == "please"
    assert host.inside("clumsy", "cat", "/tree/state/tries") == "tried\n" * 3
    host.hive("inbox", "--done", note["id"])


def test_an_agent_stopped_at_work_handles_the_message_again_after_its_start(
    host: HiveHost,
) -> None:
    slow = "echo $$ >>/tree/state/runs; test -e /tree/state/quick || sleep 1000; cat"
    serving(host, "slow", slow)
    host.hive("send", "slow", "work")
    wait_for(lambda: host.inside("slow", "cat", "/tree/state/runs", check=False))
    host.inside("slow", "touch", "/tree/state/quick")
    host.hive("stop", "slow")
    host.hive("start", "slow")
    assert wait_for(lambda: answers(host, "slow"), 20) == ["work"]
    assert len(host.inside("slow", "cat", "/tree/state/runs").splitlines()) == 2


@pytest.mark.sized
def test_repeated_daemon_crashes_lose_no_message_and_duplicate_no_answer(
    host: HiveHost,
) -> None:
    serving(host, "echo", "cat")
    before = host.main_pid("echo")
    bodies = [f"message {number}" for number in range(times(10, 50))]
    for number, body in enumerate(bodies):
        if number % 10 == 5:
            host.run("systemctl", "kill", "--signal=KILL", "hived.service")
        # The command tries until a daemon answers; the others have nothing in their way.
        wait_for(partial(send if number % 10 == 5 else try_send, host, "echo", body))
    wait_for(lambda: len(answers(host, "echo")) >= len(bodies), 90)
    assert sorted(answers(host, "echo")) == sorted(bodies)
    assert host.json("inbox", "echo") == []
    assert host.main_pid("echo") == before


def test_the_example_answers_messages_and_does_tasks(host: HiveHost) -> None:
    program = (EXAMPLES / "echo.py").read_text()
    host.hive("agent", "create", "example", "--role", "worker", "--", "python3", "-c", program)
    assert "is there an echo?" in host.hive("send", "example", "is there an echo?", "--wait", "20")
    assert "and a task?" in host.hive("task", "assign", "example", "and a task?", "--wait")


def test_a_secret_is_an_environment_variable_of_the_command(host: HiveHost) -> None:
    command = ["hive-agent", "serve", "--secret-env", "api-key", "--", "sh", "-c", "echo $API_KEY"]
    host.hive("agent", "create", "keyed", "--role", "worker", "--capability", "secret:api-key",
              "--", *command)  # fmt: skip
    host.hive("secret", "set", "keyed", "api-key", text="a-long-random-value\n")
    assert "a-long-random-value" in host.hive("send", "keyed", "x", "--wait", "20")


def test_a_missing_program_is_named_in_the_log(host: HiveHost) -> None:
    host.fails(3, "agent", "create", "lost", "--", "/home/me/agent.py")
    assert "cannot run /home/me/agent.py: no such program in this container" in host.hive(
        "logs", "lost"
    )


@pytest.fixture(scope="module")
def talking(host: HiveHost) -> HiveHost:
    host.grow(ann="root", bob={"parent": "ann", "role": "worker"})
    return host


def test_an_mcp_client_in_a_container_acts_as_its_agent(talking: HiveHost) -> None:
    host = talking
    need_environment("runtime")
    python = ("PYTHONPATH=/opt/hive/runtime", "/usr/bin/python3", "-c", MCP_CLIENT)
    names, hints, sent, failed, refusal, refused = json.loads(
        host.inside("ann", *AS_USER, *python).splitlines()[-1]
    )
    assert not failed
    assert refused
    letters = [row for row in host.mail("root") if row["body"] == "over MCP"]
    assert [(row["id"], row["from"]) for row in letters] == [(sent["id"], "ann")]
    assert refusal["error"] == "NotFound"
    assert "list_agents" in refusal["next"]
    listed = host.ask("ann", "ListToolset")["tools"]
    assert names == [row["name"] for row in listed if row["kind"] == "operation"]
    assert all(None not in (hint[name] for name in hint if name != "title") for hint in hints)


def test_in_a_container_without_the_runtime_mcp_says_what_is_missing(talking: HiveHost) -> None:
    done = talking.enter("bob", "env", "HIVE_RUNTIME=/opt/none", "hive-agent", "mcp", check=False)
    assert done.returncode == 78
    assert "/opt/none is not there" in done.stderr
    assert "scripts/install" in done.stderr
