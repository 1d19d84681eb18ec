"""A CLI forks named sub-agents through its session, which run on the built-in runtime.

The CLI is a stand-in that calls the tool; tests/clis has real ones.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fixtures.cli_host import CliHost, cli_host
from fixtures.fake_model import ModelAnswer
from fixtures.session_host import NAME, children_of
from fixtures.world import Reply, fields

from hive_core.agent.reconnect import wire_name
from hive_core.agent.server_tools import LIST
from hive_core.agent.session.server_socket import ServerToolSocket
from hive_core.errors import Unreachable
from hive_core.varlink import Client

FAKE = Path(__file__).parents[2] / "fixtures/fake_claude.py"
FORK = "hive_fork_subagent"
REVIEWER = "---\ntools: Read, Glob\n---\nYou are a REVIEWER.\n"


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[CliHost]:
    program = tmp_path / "clis/bin/claude"
    program.parent.mkdir(parents=True)
    shutil.copy(FAKE, program)
    program.chmod(0o755)
    (tmp_path / "config/agents").mkdir(parents=True)
    (tmp_path / "config/agents/reviewer.md").write_text(REVIEWER)
    with cli_host(tmp_path, "claude", tmp_path / "clis") as host:
        host.world.call("operator", "grant_capability", agent=NAME, capability="subagents")
        host.environment["HIVE_CONFIG"] = str(tmp_path / "config")

        def link_model(folder: Path) -> None:
            (folder / "model.sock").symlink_to(host.model.path)

        host.server.on_subagent = link_model
        host.begin()
        yield host


def ask(host: CliHost, **arguments: object) -> tuple[list[Any], dict[str, Any]]:
    """Have the CLI fork; the tools that it is shown, and the answer of its call."""
    host.send(f"fork {json.dumps(arguments)}")
    tools, answer = json.loads(str(host.until(host.replies)[-1]))
    return tools, answer


def subagent_events(host: CliHost) -> list[Reply]:
    return [fields(row) for row in host.world.events() if row["kind"] == "subagent"]


def test_a_cli_forks_a_named_sub_agent_of_its_configuration(host: CliHost) -> None:
    """Z1, Z8: on the wire of the agent's model, with the tools of the definition."""
    host.model.script = [ModelAnswer(calls=[("a", "list", {})]), ModelAnswer("no faults")]
    (host.workspace / "parents.txt").write_text("x")
    (tool,), answer = ask(host, agent="reviewer", task="review it")
    assert tool["name"] == FORK
    assert tool["schema"]["required"] == ["agent", "task"]
    assert answer["is_error"] is False
    result = json.loads(answer["content"])
    assert (result["status"], result["content"]) == ("success", "no faults")
    assert result["metadata"]["agent"] == "reviewer"
    first, second = (json.loads(body) for body in host.model.bodies)
    assert "You are a REVIEWER." in json.dumps(first["system"])
    assert {row["name"] for row in first["tools"]} == {"read", "list"}
    assert "parents.txt" in json.dumps(second["messages"])
    opened, closed = subagent_events(host)
    assert (opened["sub_kind"], opened["depth"]) == ("named", 1)
    assert (closed["status"], closed["sub"]) == ("success", opened["sub"])
    prompt = str(host.of_kind("system")[0]["text"])
    assert "`mcp__hive__hive_fork_subagent`" in prompt
    assert "clone" not in prompt.partition("## Your sub-agents")[2].partition("\n## ")[0]


@pytest.mark.parametrize(("arguments", "reason"), [
    ({"task": "x"}, "cannot clone: your conversation is kept by claude"),
    ({"task": "x", "agent": "clone"}, "clones need the runtime builtin"),
    ({"task": "x", "agent": "nemo"}, "there are: reviewer"),
])  # fmt: skip
def test_a_fork_that_a_cli_cannot_have_is_refused_with_the_reason(
    host: CliHost, arguments: dict[str, object], reason: str
) -> None:
    _, answer = ask(host, **arguments)
    assert answer["is_error"] is True
    assert reason in answer["content"]
    assert subagent_events(host) == []


def test_a_sub_agent_of_a_cli_is_killed_at_its_time_limit(host: CliHost) -> None:
    """Z11."""
    (Path(host.environment["HIVE_CONFIG"]) / "agents/reviewer.md").write_text("You SLEEP.\n")
    host.model.script = [ModelAnswer(calls=[("a", "bash", {"command": "sleep 602"})])]
    _, answer = ask(host, agent="reviewer", task="sleep", timeout_seconds=4)
    assert "did not end in 4 s and was killed" in answer["content"]
    assert subagent_events(host)[-1]["status"] == "timeout"
    assert children_of(host.server.processes[-1].pid, "--child") == []


def test_the_end_of_the_turn_ends_its_sub_agent(host: CliHost) -> None:
    """As where the session runs the model itself."""
    host.model.script = [ModelAnswer(calls=[("a", "bash", {"command": "sleep 603"})])]
    (Path(host.environment["HIVE_CONFIG"]) / "agents/reviewer.md").write_text("You SLEEP.\n")
    task = host.assign(f"fork {json.dumps({'agent': 'reviewer', 'task': 'sleep'})}")
    host.until(lambda: host.model.bodies)
    host.world.call("lead", "cancel_task", task=task)
    host.until(lambda: len(subagent_events(host)) == 2)
    assert children_of(host.server.processes[-1].pid, "--child") == []


def test_a_fork_that_a_cli_does_not_wait_for_ends_with_the_turn(host: CliHost) -> None:
    """Its process is kept for the next turn."""
    host.model.script = [ModelAnswer(calls=[("a", "bash", {"command": "sleep 604"})])]
    (Path(host.environment["HIVE_CONFIG"]) / "agents/reviewer.md").write_text("You SLEEP.\n")
    (host.state / "home").mkdir(parents=True, exist_ok=True)
    os.mkfifo(host.state / "home/forked")
    host.send(f"leave {json.dumps({'agent': 'reviewer', 'task': 'sleep'})}")
    host.until(lambda: host.model.bodies)
    (host.state / "home/forked").write_text("well")
    host.until(host.replies)
    host.until(lambda: len(subagent_events(host)) == 2)
    assert children_of(host.server.processes[-1].pid, "--child") == []
    assert children_of(host.server.processes[-1].pid, "claude") != []


def test_the_socket_of_a_cli_serves_its_user_alone(tmp_path: Path) -> None:
    """Z14: a sub-agent, or another user of the container, is not heard."""
    own = closing(ServerToolSocket(tmp_path / "a", None, "/nowhere"))
    other = closing(ServerToolSocket(tmp_path / "b", None, "/nowhere", os.geteuid() + 1))
    with own, other:
        with Client(str(tmp_path / "a")) as client:
            assert client.call(wire_name(LIST)) == {"tools": []}
        with Client(str(tmp_path / "b")) as client, pytest.raises(Unreachable):
            client.call(wire_name(LIST))
    with pytest.raises(OSError, match="refused"), socket.socket(socket.AF_UNIX) as gone:
        gone.connect(str(tmp_path / "a"))
