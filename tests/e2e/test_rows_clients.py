"""What clients on a real host get: shapes, listings, exit codes and commands (row H5)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.echo_tree import TREE, make_echo_host
from e2e.hivehost import HiveHost
from e2e.labhost import in_tree, trixie_tree
from e2e.shared_hosts import SharedHost

from hive_core.agent import catalog

pytestmark = pytest.mark.lab
OPERATIONS = {operation.name: operation.entry for operation in catalog.load()}


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    return make_echo_host(shared_host)


@pytest.fixture(autouse=True)
def tidy(host: HiveHost) -> Iterator[None]:
    yield
    host.prune(TREE)


def test_units_processes_and_environment(host: HiveHost) -> None:
    """Unit names; the first child of the main process is the container's first."""
    for unit in ("hived", "hive-privd", *(f"hive-agent@{name}" for name in TREE)):
        assert host.run("systemctl", "is-active", f"{unit}.service").stdout == "active\n"
    for name in TREE:
        main = host.main_pid(name)
        first = host.run("cat", f"/proc/{main}/task/{main}/children").stdout.split()[0]
        status = host.run("cat", f"/proc/{first}/status").stdout
        (inner,) = (line.split() for line in status.splitlines() if line.startswith("NSpid:"))
        assert inner[-1] == "1"
        mapping = host.run("cat", f"/proc/{first}/uid_map").stdout.split()
        assert (mapping[0], int(mapping[1]) >= 65536, mapping[2]) == ("0", True, "65536")
    lines = {line["text"] for line in host.ask("kid", "GetLogs")["lines"]}
    assert {"HIVE_NAME=kid", "HIVE_PARENT=lead", "HIVE_SOCKET=/run/hive/broker.sock"} <= lines
    root = host.run(
        "sh", "-c", f"cat /proc/$(pgrep -P {host.main_pid('root')})/environ", check=False
    )
    assert "HIVE_PARENT" not in root.stdout
    assert (
        host.run("stat", "-c", "%a %G", "/run/hive/operator.sock").stdout == "660 hive-operator\n"
    )


def test_an_agent_gets_the_documented_shapes(host: HiveHost) -> None:
    """Whoami, list_agents, spawn, send, recv, ack, identity.json."""
    me = host.ask("lead", "Whoami").parameters
    assert me.keys() >= {"name", "uuid", "parent", "role", "title", "tier", "capabilities",
                         "children", "limits"}  # fmt: skip
    assert (me["name"], me["parent"], me["role"], me["title"]) == ("lead", "root", "lead", "Chief")
    assert (me["tier"], me["children"], me["limits"]) == ("operational", ["kid"], {})
    live = json.loads(host.inside("lead", "cat", "/run/hive/identity.json"))
    assert live.keys() >= {"name", "uuid", "parent", "role", "title", "capabilities", "children"}
    assert {key: me[key] for key in live} == live
    (row,) = host.ask("lead", "ListAgents", root="kid")["agents"]
    assert row == {
        "name": "kid", "uuid": host.uuid("kid"), "parent": "lead", "role": "worker", "title": "",
        "state": "running", "activity": row["activity"], "quarantine": "",
    }  # fmt: skip
    assert row["activity"] in {"idle", "running", "blocked"}
    made = host.ask("lead", "Spawn", name="pet").parameters
    assert made.keys() == {"name", "uuid", "job"}
    defaults = host.call("ListAgents", root="pet")["agents"][0]
    assert (defaults["role"], defaults["parent"]) == ("agent", "lead")
    sent = host.ask("kid", "Send", to="lead", body="ünï ☃", priority=1, kind="note", ttl=60)
    assert sent.parameters == {"id": sent["id"], "thread": sent["id"], "priority": 2}
    (got,) = (
        message
        for message in host.ask("lead", "Recv", max=50)["messages"]
        if message["kind"] == "note"
    )
    assert got.keys() == {
        "id", "from", "from_uuid", "relation", "to", "body", "kind", "thread", "reply_to",
        "priority", "sent_at", "attempt", "source", "wait_id", "hops",
    }  # fmt: skip
    assert (got["id"], got["from"], got["relation"]) == (sent["id"], "kid", "child")
    assert (got["body"], got["priority"], got["attempt"]) == ("ünï ☃", 2, 1)
    assert abs(got["sent_at"] - time.time()) < 60
    assert host.ask("lead", "Ack", ids=[got["id"]]).parameters == {"acked": 1}
    assert host.ask("lead", "Ack", ids=[got["id"]]).parameters == {"acked": 0}


def test_the_operator_gets_the_documented_shapes(host: HiveHost) -> None:
    """Tree, status, why, events as JSON."""
    (root,) = host.json("tree")
    assert root.keys() >= {"name", "uuid", "parent", "role", "state", "activity", "children"}
    assert [child["name"] for child in root["children"]] == ["echo", "lead", "other"]
    status = host.json("status")
    assert status.keys() == {
        "commit", "refused", "agents", "hived", "alarms", "waiting", "quarantines", "failed",
        "tasks", "models", "egress", "disk", "used",
    }  # fmt: skip
    assert status["agents"] == {"running": 5}
    assert status["hived"].keys() >= {"version", "since"}
    assert len(status["commit"]) == 40
    why = host.json("why", "lead", "stop", "kid")
    assert why.keys() == {"allowed", "action", "rule", "reason", "chain", "commit"}
    assert (why["allowed"], why["chain"], why["commit"]) == (
        True,
        ["kid", "lead"],
        status["commit"],
    )
    lines = host.hive("events", "-o", "jsonl").splitlines()
    first = json.loads(lines[0])
    assert first.keys() >= {"seq", "time", "kind", "caller", "operation", "target", "allowed",
                            "rule", "reason", "commit", "request"}  # fmt: skip
    assert first["seq"] == 1
    jobs = host.call("ListJobs")["jobs"]
    assert jobs[0].keys() >= {"id", "operation", "state", "agents", "started", "ended", "error"}


@pytest.mark.parametrize("command", ["tree", "inbox lead", "logs kid", "events", "restore",
                                     "converge --dry-run", "gc --dry-run", "status"])  # fmt: skip
def test_every_listing_has_its_outputs(host: HiveHost, command: str) -> None:
    """-o table|json|jsonl|name; data on stdout; no colour into a pipe."""
    words = command.split()
    assert isinstance(host.json(*words), list | dict)
    for line in host.hive(*words, "-o", "jsonl").splitlines():
        json.loads(line)
    assert "{" not in host.hive(*words, "-o", "name")
    table = host.run("hive", *words)
    assert "\x1b" not in table.stdout + table.stderr
    assert host.run("hive", *words, "-o", "xml", check=False).returncode == 2


def test_exit_codes_match_the_errors(host: HiveHost) -> None:
    """0, 1, 2, 3, 4, 5, 75, 124; one line on stderr, nothing on stdout."""
    cases = [
        (0, "tree"), (1, "agent create kid"), (2, "agent create Kid"), (2, "tree --nonsense"),
        (2, "nonsense"), (2, "stop kid --grace 31"), (2, "stop kid --grace -1"), (2, "destroy kid"),
        (2, "why kid nonsense lead"), (4, "stop nobody"), (4, "logs nobody"),
        (4, "why nobody stop kid"),
        (4, "send nobody x"), (4, "move kid --parent nobody"), (4, "restore nobody"),
        (5, "destroy root --yes"), (5, "why kid stop lead"), (5, "move lead --parent kid"),
        (5, 'call Stop {"agent":"lead"} --as kid'), (4, 'call Stop {"agent":"other"} --as kid'),
        (124, "wait kid --for stopped --timeout 0.1"), (124, "wait kid --for parked --timeout 0"),
        (2, "wait kid --for nonsense"), (2, "cap grant kid nonsense"), (2, "call GetLogs {"),
        (2, 'call GetLogs {"nonsense":1}'), (2, "call Nonsense"),
    ]  # fmt: skip
    result = {}
    for status, command in cases:
        done = host.run("hive", *command.split(), check=False)
        result[command] = (done.returncode, bool(done.stderr.strip()))
        assert status == 0 or "why" in command or done.stdout == "", done
        assert "Traceback" not in done.stderr
    said = {command: status != 0 and command != "why kid stop lead" for status, command in cases}
    assert result == {command: (status, said[command]) for status, command in cases}
    host.call("Stop", agent="other", wait=20)
    assert "not running" in host.fails(3, "shell", "other")
    host.fails(3, "call", "Whoami", "--as", "other")
    big = host.call("Spawn", name="full", max_children=0)
    assert not big.error
    over = host.run("hive", "call", "Spawn", '{"name": "x"}', "--as", "full", check=False)
    host.wait("running", "full")
    over = host.run("hive", "call", "Spawn", '{"name": "x"}', "--as", "full", check=False)
    assert over.returncode == 75


def test_varlinkctl_talks_to_both_sockets(host: HiveHost) -> None:
    """Varlink; varlinkctl introspects and calls the operator's socket."""
    trixie_tree()

    def ctl(*words: str) -> str:
        return host.run(*in_tree(["varlinkctl", "--no-pager", *words], "/run/hive")).stdout

    socket = "/run/hive/operator.sock"
    assert "org.hive.Broker" in ctl("list-interfaces", socket)
    assert "method Whoami" in ctl("introspect", socket, "org.hive.Broker")
    assert json.loads(ctl("call", "--json=short", socket, "org.hive.Broker.Whoami", "{}"))[
        "name"
    ] == "operator"  # fmt: skip


def test_hive_agent_offers_the_commands_of_an_agent(host: HiveHost) -> None:
    """`hive-agent` whoami, agents, spawn, start, stop, restart, kill, logs, send, ..."""

    def agent(name: str, *words: str, check: bool = True) -> Any:  # noqa: ANN401 - JSON
        said = host.inside(name, "hive-agent", *words, check=check)
        return json.loads(said) if said.startswith(("{", "[")) else said

    assert agent("lead", "whoami")["name"] == "lead"
    assert "kid" in json.dumps(agent("lead", "agents"))
    agent("lead", "spawn", "pet", "--role", "worker", "--", "sleep", "1000")
    host.wait("running", "pet")
    for verb in ("stop", "start", "restart", "kill"):
        agent("lead", verb, "pet", "--wait", "20")
    assert host.call("Locate", agent="pet")["state"] == "stopped"
    agent("lead", "destroy", "pet", "--wait", "20")
    assert "HIVE_NAME=kid" in json.dumps(agent("lead", "logs", "kid"))
    host.mail("kid")
    sent = agent("lead", "send", "kid", "from the shell")
    got = agent("kid", "recv")["messages"]
    assert got[0]["body"] == "from the shell"
    assert got[0]["id"] in json.dumps(sent)
    assert agent("kid", "ack", got[0]["id"])
    agent("kid", "wake", "me")
    assert [message["body"] for message in host.mail("kid")] == ["me"]
    assert agent("kid", "call", "Whoami", "{}")["name"] == "kid"
    for status, words in ((5, "stop lead"), (4, "stop other"), (2, "nonsense"), (2, "stop")):
        done = host.enter("kid", "hive-agent", *words.split(), check=False)
        assert done.returncode == status, done


def test_serve_makes_any_program_an_agent(host: HiveHost) -> None:
    """Serve: body on stdin, HIVE_* in the environment, stdout is the reply, 3 tries."""
    host.mail("root")
    asked = host.ask("root", "Send", to="echo", body="hello")["id"]
    reply = host.ask("root", "Recv", wait=20)["messages"][0]
    assert (reply["body"].strip(), reply["reply_to"]) == ("root:parent:hello", asked)
    host.ask("root", "Ack", ids=[reply["id"]])
    host.ask("root", "Send", to="echo", body="quiet")
    bad = host.ask("root", "Send", to="echo", body="bad")["id"]
    messages = host.ask("root", "Recv", wait=30)["messages"]
    assert len(messages) == 1
    assert messages[0]["relation"] == "daemon"
    assert messages[0]["reply_to"] == bad or bad in messages[0]["body"]
    host.ask("root", "Ack", ids=[messages[0]["id"]])
    assert bad in {message["id"] for message in host.json("inbox", "echo", "--dead")}
    tries = host.call("GetLogs", agent="echo", grep="tried")["lines"]
    assert len(tries) == 3
    assert host.json("inbox", "echo") == []
