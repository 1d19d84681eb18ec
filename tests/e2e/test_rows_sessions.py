"""What an approved configuration gives a session: MCP servers, named sub-agents, memory."""

from __future__ import annotations

from typing import Any

import pytest
from e2e.clone_host import deploy, prepare_clone_host, records, run_turn
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from environments import need_environment

pytestmark = pytest.mark.lab

# An MCP server of few lines, which says as whom it runs and what it was given.
SERVER = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    tool = {"name": "whoami", "inputSchema": {"type": "object"}}
    text = f"uid {os.getuid()} with {' '.join(sorted(os.environ))}"
    result = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "own", "version": "1"}},
        "tools/list": {"tools": [tool]},
        "tools/call": {"content": [{"type": "text", "text": text}]},
    }.get(asked["method"])
    answer = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""
CONFIG = """
[mcp.own]
command = ["python3", "/run/hive/config/server.py"]
required = true
[subagents]
allow_clones = false
[memory]
enabled = true
every = 1
cooldown = 0
"""
# The sub-agent of eve writes a secret of its own, and has another one started that looks for it.
OUTER = """---
tools: [bash, hive_fork_subagent]
network: [here.example.org:443]
---
Delegate.
"""
INNER = "---\ntools: [bash]\n---\nLook around.\n"
# What the proxy of this process says to a CONNECT. Without one, the port of the agent is asked.
CONNECT = """
import os, socket, sys
port = int(os.environ.get("HTTPS_PROXY", ":3128").rpartition(":")[2])
for target in sys.argv[1:]:
    client = socket.create_connection(("127.0.0.1", port), 20)
    try:
        client.sendall(f"CONNECT {target} HTTP/1.1\\r\\n\\r\\n".encode())
        print(client.recv(99)[9:12].decode() or "closed")
    except OSError:
        print("closed")
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = prepare_clone_host(shared_host)
    need_environment("runtime")
    return made


@pytest.fixture(name="eve", scope="module")
def _eve(host: HiveHost) -> str:
    """A worker with an approved MCP server and two definitions of sub-agents, and no clones."""
    host.run("sh", "-c", "echo 127.0.0.1 here.example.org >>/etc/hosts")
    worker = {"parent": "root", "role": "worker", "runtime": "builtin"}
    host.grow(eve={**worker, "add_capabilities": ["subagents", "network:egress-allowlist"]})
    deploy(host, "eve", {
        "agent.toml": CONFIG, "server.py": SERVER, "agents/outer.md": OUTER,
        "agents/inner.md": INNER, "connect.py": CONNECT,
    })  # fmt: skip
    return "eve"


def test_a_session_calls_an_mcp_server_of_its_own_as_the_user_of_its_tools(
    host: HiveHost, eve: str
) -> None:
    """Row Q46: an approved server in a real container."""
    assert run_turn(host, eve, "use the server").startswith("my server had uid 1000 with HOME LANG")
    used = [row for row in host.own_events() if row["operation"] == "use_tool"]
    assert used[-1]["fields"]["argument"] == "own whoami"


def test_a_sub_agent_has_its_session_start_the_one_that_it_opened(host: HiveHost, eve: str) -> None:
    """Z4, Z14, H29: each has a user and a network of its own, and reads nothing of the other."""
    said = run_turn(host, eve, "fork twice")
    events = [event["fields"] for event in host.own_events()
              if event["fields"].get("sub_name") in ("outer", "inner")]  # fmt: skip
    outer, inner = events[0], events[1]
    assert (outer["depth"], inner["depth"], inner["opener"]) == (1, 2, outer["sub"])
    assert said == f"outer said inner {inner['uid']} alone", (said, events)
    assert inner["uid"] != outer["uid"]
    assert [(event["sub"], event["status"]) for event in events[2:]] == [
        (inner["sub"], "success"), (outer["sub"], "success"),
    ]  # fmt: skip
    tried = [(event["fields"]["sub"], event["fields"]["host"], event["rule"])
             for event in host.own_events() if event["kind"] == "egress"]  # fmt: skip
    assert sorted(tried) == [
        (outer["sub"], "here.example.org", "address"),
        (outer["sub"], "other.example.org", "allow-list"),
    ]  # fmt: skip
    assert host.inside(eve, "sh", "-c", "ls /run/hive/sub /agents/eve/state/sub").split() == [
        "/agents/eve/state/sub:", "/run/hive/sub:",
    ]  # fmt: skip


def test_a_fork_that_the_configuration_forbids_is_refused_with_the_key(
    host: HiveHost, eve: str
) -> None:
    """Z12, Z15: and the former name of the tool is answered with the new one."""
    opened = len(forks(host))
    assert run_turn(host, eve, "fork it") == "allow_clones = false"
    assert run_turn(host, eve, "use the old name") == "hive_delegate is now hive_fork_subagent"
    assert len(forks(host)) == opened


def forks(host: HiveHost) -> list[dict[str, Any]]:
    """What the log has of sub-agents that were opened."""
    return [row for row in host.own_events() if row["operation"] == "open_subagent"]


def test_a_session_reflects_on_a_turn_and_begins_the_next_one_with_the_memory(
    host: HiveHost, eve: str
) -> None:
    """Row Q38: in the background, as an artifact of its agent."""
    run_turn(host, eve, "hello")

    def memories() -> list[str]:
        rows = host.call("ListArtifacts", author=eve, prefix="memory/")["artifacts"]
        return [row["name"] for row in rows]

    host.until(lambda: memories() == ["memory/own/preference/length"], "it has no memory")
    run_turn(host, eve, "hello again")
    texts = [row["text"] for row in records(host, eve) if row.get("kind") == "memory"]
    assert "Short answers." in texts[-1], texts
