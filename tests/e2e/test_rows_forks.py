"""Sessions that fork sub-agents (rows Z4, Z14, H29), and what else the model of a session has done.

The whole way: model, session, sockets, processes and networks of other users, the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.hivehost import HiveHost
from e2e.labhost import Lab
from e2e.subagent_host import make_subagent_host, need_runtime

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
COMMIT = """
cd /agents/eve/config; printf %s "$1" >agent.toml; printf %s "$2" >server.py; mkdir agents
printf %s "$3" >agents/outer.md; printf %s "$4" >agents/inner.md; printf %s "$5" >connect.py
git add -A; git -c user.name=eve -c user.email=eve@x commit -qm own; git rev-parse HEAD
"""
# Name, user, capabilities and no_new_privs of the fork server and of what it forked.
FORKED = r"""
cd /proc; for name in hive-forkserver hive-runtime; do
  sed -sn '/^\(Name\|Uid\|CapEff\|NoNewPrivs\):/p' $(grep -lx $name */comm | sed s/comm/status/) |
    awk '{printf "%s ", $2} END {print ""}'
done
"""


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[HiveHost]:
    need_runtime()
    made = make_subagent_host(lab)
    yield made
    made.close_connections()


def test_a_session_forks_a_clone_which_runs_as_its_own_user(host: HiveHost) -> None:
    """The whole way: model, session, sockets, a process of another user, metering, the result."""
    worker = {"parent": "root", "role": "worker", "runtime": "builtin"}
    host.grow(bob={**worker, "add_capabilities": ["subagents"]})
    assert not host.call("Send", to="bob", body="fork it").error

    def turns() -> list[dict[str, Any]]:
        return list(host.call("ListTurns", agent="bob")["turns"])

    host.until(turns, "no turn ended", seconds=60)
    (said,) = [turn["text"] for turn in turns()]
    opened, closed = (
        event["fields"] for event in host.events(limit=1000)
        if event["kind"] == "subagent" and event["fields"]["sub_kind"] == "clone"
    )  # fmt: skip
    assert said == f"my clone had uid {opened['uid']}", said
    assert (closed["status"], closed["metadata"]["agent"]) == ("success", "clone")
    assert closed["model_calls"] == 2
    calls = [row["fields"] for row in host.events(limit=1000) if row["kind"] == "model"]
    assert [call["sub"] for call in calls if call.get("sub") == opened["sub"]] == (
        [opened["sub"]] * 2
    )
    used = [row for row in host.events(limit=1000) if row["operation"] == "use_tool"]
    assert used[-1]["fields"]["sub"] == opened["sub"]
    assert host.inside("bob", "ls", "/run/hive/sub") == ""
    # The runtime was forked by a server that can take a user and end a process, and no more.
    server, runtime = host.inside("bob", "sh", "-c", FORKED).splitlines()
    assert server.split() == ["hive-forkserver", "0", "00000000000000e0", "1"]
    assert runtime.split() == ["hive-runtime", "1000", "0000000000000000", "1"]


@pytest.fixture(name="eve", scope="module")
def _eve(host: HiveHost) -> str:
    """A worker with an approved MCP server and two definitions of sub-agents."""
    worker = {"parent": "root", "role": "worker", "runtime": "builtin"}
    host.grow(eve={**worker, "add_capabilities": ["subagents", "network:egress-allowlist"]})
    host.wait("running", "eve")
    files = (CONFIG, SERVER, OUTER, INNER, CONNECT)
    commit = host.inside("eve", "sh", "-ec", COMMIT, "sh", *files).strip()
    words = {"agent": "eve", "commit": commit, "message": "a server"}
    id_ = str(host.ask("eve", "RequestApplyCommit", **words)["approval"])

    def state() -> str:
        return str(host.call("GetApproval", id=id_)["approval"]["state"])

    host.until(lambda: state() == "pending", "it was not reviewed", seconds=30)
    assert not host.call("Approve", id=id_, commit=commit[:8]).error
    host.until(lambda: state() == "deployed", "it was not deployed", seconds=60)
    return "eve"


def run_turn(host: HiveHost, agent: str, text: str) -> str:
    """Send a letter to an agent; what its turn says."""

    def turns() -> list[dict[str, Any]]:
        return list(host.call("ListTurns", agent=agent)["turns"])

    before = {turn["turn"] for turn in turns()}
    assert not host.call("Send", to=agent, body=text).error
    host.until(lambda: len(turns()) > len(before), "no turn ended", seconds=90)
    (said,) = [str(turn["text"]) for turn in turns() if turn["turn"] not in before]
    return said


def test_a_session_calls_an_mcp_server_of_its_own_as_the_user_of_its_tools(
    host: HiveHost, eve: str
) -> None:
    """Row Q46: an approved server in a real container."""
    assert run_turn(host, eve, "use the server").startswith("my server had uid 1000 with HOME LANG")
    used = [row for row in host.events(limit=1000) if row["operation"] == "use_tool"]
    assert used[-1]["fields"]["argument"] == "own whoami"


def test_a_sub_agent_has_its_session_start_the_one_that_it_opened(host: HiveHost, eve: str) -> None:
    """Z4, Z14, H29: each has a user and a network of its own, and reads nothing of the other."""
    said = run_turn(host, eve, "fork twice")
    events = [event["fields"] for event in host.events(limit=1000)
              if event["fields"].get("sub_name") in ("outer", "inner")]  # fmt: skip
    outer, inner = events[0], events[1]
    assert (outer["depth"], inner["depth"], inner["opener"]) == (1, 2, outer["sub"])
    assert said == f"outer said inner {inner['uid']} alone", (said, events)
    assert inner["uid"] != outer["uid"]
    assert [(event["sub"], event["status"]) for event in events[2:]] == [
        (inner["sub"], "success"), (outer["sub"], "success"),
    ]  # fmt: skip
    tried = [(event["fields"]["sub"], event["fields"]["host"], event["rule"])
             for event in host.events(limit=1000) if event["kind"] == "egress"]  # fmt: skip
    assert sorted(tried) == [
        (outer["sub"], "here.example.org", "address"),
        (outer["sub"], "other.example.org", "allow-list"),
    ]  # fmt: skip
    assert host.inside(eve, "sh", "-c", "ls /run/hive/sub /agents/eve/state/sub").split() == [
        "/agents/eve/state/sub:", "/run/hive/sub:",
    ]  # fmt: skip


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


def records(host: HiveHost, agent: str, *options: str) -> list[dict[str, Any]]:
    """The log of a conversation, as its container has it."""
    text = host.hive("session", "log", agent, *options, "-o", "jsonl")
    return [json.loads(line) for line in text.splitlines()]


def test_a_colony_has_what_its_queen_said_and_wrote_and_no_tool_without_its_credential(
    host: HiveHost,
) -> None:
    """Rows Q16, Q17, Q18, Q19, Q37: its conversation, its files, and a secret that is gone."""
    queen = {"role": "daemon", "profile": "queen", "parent": "root", "runtime": "builtin"}
    host.grow(queen={**queen, "add_capabilities": ["artifact.write"]})
    run_turn(host, "queen", "the bees are blue")
    run_turn(host, "queen", "prepare the heir")
    assert host.call("GetColony", agent="heir")["skill"] == "bees"
    assert not host.call("GrantCapability", agent="heir", capability="secret:token").error
    host.hive("secret", "set", "heir", "token", "--tool", "bash", text="s3cret")
    host.hive("secret", "rm", "heir", "token")
    host.hive("phase", "open", "heir")
    words = "Write down what the bees of your queen look like, and where one has to look."
    run = host.call("RunAgentWithInput", agent="queen", task=words)
    assert (run["credentials"], run["dropped"]) == (["token"], ["bash"])
    task = {"task": run["task"]}
    host.until(
        lambda: host.call("GetTask", **task)["task"]["state"] == "done", "no end", seconds=90
    )
    log = records(host, "heir", "--conversation", f"task-{run['task']}")
    (heritage,) = [json.dumps(row) for row in log if row["t"] == "inherit"]
    assert "the bees are blue" in heritage
    assert "prepare the heir" not in heritage  # Q16: of a turn that has not ended, nothing
    (answer,) = [row["content"] for row in log if row["t"] == "result"][:1]
    assert "credential" in answer, answer
    skill = "cd /agents/heir/state/skills/bees; cat SKILL.md notes/find.txt; touch notes/find.txt"
    as_tool = ("setpriv", "--reuid", "1000", "--clear-groups", "sh", "-c", skill)
    assert host.inside("heir", *as_tool, check=False).endswith("Look first.\nbehind the house")
    assert "Permission denied" in host.enter("heir", *as_tool, check=False).stderr
