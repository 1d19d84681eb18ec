"""The wire from the outside: shapes, errors, exit codes, keys, jobs and streams on a real host.

Rows H5, H17, K27 (no claimed identity) and the names that outsiders rely on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.hivehost import HiveHost, Reply
from e2e.labhost import Lab, in_tree, trixie_tree
from long import at_most

from hive_core.agent import catalog

pytestmark = pytest.mark.lab

TREE: dict[str, str | None] = {
    "root": None, "lead": "root", "kid": "lead", "other": "root", "echo": "root",
}  # fmt: skip
OPERATIONS = {operation.name: operation.entry for operation in catalog.load()}
ECHO = (
    "read -r x; case $x in bad*) echo tried >&2; exit 1;; quiet*) ;;"
    ' *) echo "$HIVE_FROM:$HIVE_RELATION:$x";; esac'
)


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[HiveHost]:
    made = HiveHost(lab)
    made.setup()
    made.grow(lead={"role": "lead", "title": "Chief"}, other={"role": "lead"},
              echo={"command": ["hive-agent", "serve", "--", "sh", "-c", ECHO]})  # fmt: skip
    command = ["sh", "-c", "env; exec sleep 1000"]
    made.grow(kid={"parent": "lead", "role": "worker", "command": command})
    yield made
    made.close_connections()


@pytest.fixture(autouse=True)
def tidy(host: HiveHost) -> Iterator[None]:
    yield
    host.prune(TREE)


def raw(host: HiveHost, *frames: bytes) -> list[dict[str, Any]]:
    """Everything that comes back on one connection of the operator's until it is closed."""
    wire = host.connect(wait=1.0)
    result = []
    try:
        for frame in frames:
            wire.write(frame)
        while True:
            result.append(wire.read())
    except (ConnectionError, TimeoutError):
        return result
    finally:
        wire.close()


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
        "state": "running", "activity": row["activity"],
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
        "priority", "sent_at", "attempt", "source", "wait_id",
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
        "commit", "refused", "agents", "hived", "alarms", "waiting", "failed", "tasks",
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


KINDS: dict[str, object] = {"string": "x", "array": [5], "number": 5}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_parameters_outside_the_schema_are_refused(host: HiveHost, name: str) -> None:
    """What is missing, unknown or wrongly typed is InvalidParameter, and says why."""
    entry: Any = OPERATIONS[name]
    method = entry["method"]

    def expect_refusal(parameters: dict[str, object], parameter: str) -> None:
        reply = host.call(method, **parameters)
        assert (reply.error, reply.parameters["parameter"]) == ("InvalidParameter", parameter)
        assert reply.reason

    schema = entry["params"]
    properties, required = schema.get("properties", {}), schema.get("required", [])
    fitting = {key: _sample(properties[key], schema) for key in required}
    expect_refusal({**fitting, "nonsense": 1}, "nonsense")
    for key in required:
        reply = host.call(method, **{k: v for k, v in fitting.items() if k != key})
        assert reply.error == "InvalidParameter"
        assert reply.parameters == {"parameter": key, "reason": "it is missing"}
    for key, property_ in properties.items():
        kinds = [property_, *property_.get("anyOf", [])]
        types = {one["type"] for one in kinds if "type" in one}
        if types:
            types |= {"number"} if "integer" in types else set()
            wrong = next(value for kind, value in KINDS.items() if kind not in types)
            expect_refusal({**fitting, key: wrong}, key)
    if entry["mutates"]:
        assert "idempotency_key" in properties


def _sample(schema: dict[str, Any], whole: dict[str, Any]) -> object:
    """Something that fits, and means nothing."""
    while "$ref" in schema or "anyOf" in schema:
        named = schema.get("$ref", "").rpartition("/")[2]
        schema = whole["$defs"][named] if named else schema["anyOf"][0]
    if "enum" in schema or "const" in schema:
        return schema.get("const") or schema["enum"][0]
    kind = schema.get("type", "string")
    if kind == "object":
        needed = schema.get("required", [])
        return {name: _sample(schema["properties"][name], whole) for name in needed}
    if kind == "array":
        return [_sample(schema.get("items", {}), whole)]
    return {"string": "zzz", "integer": 1, "number": 1.0, "boolean": True}[kind]


def test_invalid_values_within_the_schema_are_refused(host: HiveHost) -> None:
    """InvalidArgument {field, reason}."""
    for method, parameters, field in (
        ("Spawn", {"name": "a--b"}, "name"),
        ("Spawn", {"name": "x", "image": "nowhere"}, "image"),
        ("Spawn", {"name": "x", "capabilities": ["nonsense"]}, "capabilities"),
        ("Spawn", {"name": "x", "role": "task", "tier": "strategic"}, "tier"),
        ("Why", {"caller": "kid", "operation": "nonsense"}, "operation"),
        ("GrantCapability", {"agent": "kid", "capability": "nonsense"}, "capability"),
    ):
        reply = host.call(method, **parameters)
        assert reply.error == "InvalidArgument", (method, parameters, reply)
        assert reply.parameters["field"] == field
        assert reply.reason


def test_numbers_and_sizes_out_of_range_are_refused(host: HiveHost) -> None:
    """Grace 0-30, wait at most 50, lease 1-3600, priority 0-3, a body of 64 KiB."""
    for method, parameters in (
        ("Stop", {"agent": "kid", "grace": 30.5}), ("Stop", {"agent": "kid", "grace": -1}),
        ("Stop", {"agent": "kid", "wait": 51}), ("Recv", {"wait": 51}), ("Recv", {"lease": 0}),
        ("Recv", {"lease": 3601}), ("Send", {"to": "kid", "body": "x", "priority": 4}),
        ("Send", {"to": "kid", "body": "x", "priority": -1}), ("WaitJob", {"id": "x", "wait": 51}),
        ("Send", {"to": "kid", "body": "x" * 65537}), ("Send", {"to": "kid", "body": "é" * 32769}),
    ):  # fmt: skip
        reply = host.call(method, **parameters)
        assert reply.error in {"InvalidParameter", "InvalidArgument"}, (method, parameters, reply)
    for body in ("x" * 65536, "é" * 32768, ""):
        assert host.ask("lead", "Send", to="kid", body=body)["id"]
    assert [len(message["body"]) for message in host.mail("kid")] == [65536, 32768, 0]
    assert host.ask("kid", "Recv", lease=3600, wait=0)["messages"] == []


def same(one: Reply, other: Reply) -> bool:
    assert not one.error, one
    return one == other


# Method, parameters, and other parameters that conflict under the same key.
REPEATED: list[tuple[str, dict[str, object], dict[str, object]]] = [
    ("Spawn", {"name": "pet", "parent": "lead"}, {"name": "pot", "parent": "lead"}),
    ("Send", {"to": "kid", "body": "once"}, {"to": "kid", "body": "twice"}),
    ("Stop", {"agent": "other"}, {"agent": "kid"}),
    ("Restart", {"agent": "other"}, {"agent": "kid"}),
    ("Kill", {"agent": "other"}, {"agent": "kid"}),
    ("Start", {"agent": "other"}, {"agent": "kid"}),
    ("Update", {"agent": "other"}, {"agent": "kid"}),
    ("Allow", {"agent": "kid", "other": "other"}, {"agent": "kid", "other": "root"}),
    ("Disallow", {"agent": "kid", "other": "other"}, {"agent": "kid", "other": "root"}),
    ("GrantCapability", {"agent": "kid", "capability": "meta.read"},
     {"agent": "kid", "capability": "broadcast"}),
    ("RevokeCapability", {"agent": "kid", "capability": "meta.read"},
     {"agent": "kid", "capability": "broadcast"}),
    ("Move", {"agent": "pet", "parent": "other"}, {"agent": "pet", "parent": "root"}),
    ("Destroy", {"agent": "pet"}, {"agent": "kid"}),
]  # fmt: skip


def test_a_key_makes_a_call_safe_to_repeat(host: HiveHost) -> None:
    """The first result again; other parameters are Conflict."""
    for number, (method, first, second) in enumerate(REPEATED):
        key = f"key-{number}"
        one = host.call(method, **first, idempotency_key=key)
        assert same(one, host.call(method, **first, idempotency_key=key)), method
        if method == "Move":  # agents that lose access are restarted
            assert host.call("WaitJob", id=one["job"], wait=40)["state"] == "done"
        assert host.call(method, **second, idempotency_key=key).error == "Conflict", method
    for method in ("Ack", "Nack", "Wake"):
        assert "idempotency_key" in json.dumps(OPERATIONS[method.lower()]["params"])
    assert [message["body"] for message in host.mail("kid")] == ["once"]


def test_a_key_belongs_to_its_caller(host: HiveHost) -> None:
    woken = host.ask("kid", "Wake", body="w", idempotency_key="key-1")
    assert same(woken, host.ask("kid", "Wake", body="w", idempotency_key="key-1"))
    assert host.ask("lead", "Wake", body="w", idempotency_key="key-1")["id"] != woken["id"]


def test_a_key_survives_refusals_and_daemon_restarts(host: HiveHost) -> None:
    # A refusal is not kept: the same key may succeed later.
    refused = host.call("Start", agent="late", idempotency_key="late")
    assert refused.error == "NotFound"
    host.grow(late="root")
    assert not host.call("Start", agent="late", idempotency_key="late").error
    host.mail("kid")
    sent = host.ask("kid", "Send", to="lead", body="kept", idempotency_key="k")
    host.run("systemctl", "restart", "hived.service")
    host.close_connections()
    assert same(sent, host.ask("kid", "Send", to="lead", body="kept", idempotency_key="k"))


def test_long_operations_are_jobs(host: HiveHost) -> None:
    """Answered at once, `wait` after the effect, get_job, wait_job, `more`."""
    began = time.monotonic()
    job = host.call("Stop", agent="other")["job"]
    assert time.monotonic() - began < at_most(2)
    done = host.call("WaitJob", id=job, wait=20)
    assert (done["state"], done["operation"], done["agents"]) == ("done", "stop", ["other"])
    assert host.call("GetJob", id=job)["ended"]
    news = host.stream("GetJob", 20, id=host.call("Start", agent="other")["job"])
    assert news[-1]["state"] == "done"
    assert [state["state"] for state in news[:-1]] == ["running"] * (len(news) - 1)
    assert host.call("Locate", agent="other")["state"] == "running"
    mine = host.ask("lead", "Stop", agent="kid")["job"]
    assert host.ask("lead", "WaitJob", id=mine, wait=20)["state"] == "done"
    assert host.ask("other", "GetJob", id=mine).error == "NotFound"
    assert host.call("WaitJob", id="nonsense").error == "NotFound"
    assert host.hive("wait", "--for", f"job={mine}", "--timeout", "5") is not None
    failing = host.call("Spawn", name="fails", command=["/no/such/program"], wait=30)
    assert failing.error == "NotRunning", failing


def test_a_stream_continues_until_the_client_leaves(host: HiveHost) -> None:
    """`more` on recv, get_logs, list_events."""
    host.mail("kid")
    for number in range(3):
        host.ask("lead", "Send", to="kid", body=f"n{number}")
    pages = host.follow("kid", "Recv", 1, max=1)
    assert [message["body"] for message in pages[0]["messages"]] == ["n0"]
    wire = host.connect()
    try:
        wire.write(b'{"method":"org.hive.Broker.ListEvents","parameters":{"last":1},"more":true}\0')
        assert len(wire.read()["parameters"]["events"]) == 1
        host.ask("kid", "Stop", agent="lead")
        (event,) = wire.read()["parameters"]["events"]
        assert (event["caller"], event["target"], event["allowed"]) == ("kid", "lead", False)
    finally:
        wire.close()
    plain = host.stream("Whoami", 2)
    assert len(plain) == 1
    with host.lab.popen(["hive", "events", "-f", "-n", "1", "-o", "jsonl"], stdout=-1) as follow:
        assert follow.stdout is not None
        before = json.loads(follow.stdout.readline())["seq"]
        host.ask("kid", "Stop", agent="lead")
        assert json.loads(follow.stdout.readline())["seq"] > before
        follow.kill()


def test_losing_the_right_ends_a_stream(host: HiveHost) -> None:
    """H10: logs of a descendant that moves away are refused at the next page.

    Also to an agent that is not restarted for that.
    """
    host.grow(pet={"parent": "lead", "command": ["sh", "-c", "while :; do date; sleep 0.1; done"]})
    host.until(lambda: host.ask("lead", "GetLogs", agent="pet")["lines"], "no lines")
    words = ("hive-agent", "call", "GetLogs", '{"agent": "pet"}', "--more")
    command = ["hive", "shell", "lead", "--", *words]
    with host.lab.popen(command, stdout=-1, stderr=-1) as follow:
        assert follow.stdout is not None
        assert json.loads(follow.stdout.readline())["lines"]
        host.call("Move", agent="pet", parent="other", no_restart=True, wait=20)
        said = follow.communicate(timeout=20)[1]
    assert follow.returncode == 4
    assert said == "hive-agent: no such agent: pet\n"


def test_invalid_frames_are_refused(host: HiveHost) -> None:
    """Refused, and the daemon goes on."""

    def one(body: str) -> bytes:
        return body.encode() + b"\0"

    whoami = '{"method":"org.hive.Broker.Whoami"}'
    bad = [
        one("nonsense"), one("[]"), one("{}"), one('{"method":5}'), one('{"method":"Whoami"}'),
        one('{"method":"org.hive.Broker.Whoami","parameters":[]}'),
        one('{"a":' * 40 + "1" + "}" * 40),
        one('{"method":"a","method":"b"}'), one('{"method":"org.hive.Broker.Send","parameters":'
            '{"to":"kid","body":NaN}}'), one('{"method":"\\ud800"}'), b"\xff\xfe\0", b"\0",
        b'{"method":"' + b"x" * (1 << 20) + b'"}\0', one(whoami[:-1] + ',"nonsense":true}'),
    ]  # fmt: skip
    for frame in bad:
        assert all("error" in reply for reply in raw(host, frame)), frame[:80]
        assert not host.call("Whoami").error
    unknown = host.call("Nonsense")
    assert (unknown.error, unknown.parameters) == (
        "MethodNotFound", {"method": "org.hive.Broker.Nonsense"},
    )  # fmt: skip
    other = host.call("org.example.Nothing.Do")
    assert (other.error, other.parameters) == (
        "InterfaceNotFound",
        {"interface": "org.example.Nothing"},
    )
    info = host.call("org.varlink.service.GetInfo")
    assert "org.hive.Broker" in info["interfaces"]


def test_replies_keep_the_order_of_the_calls(host: HiveHost) -> None:
    """Pipelined calls on one connection."""
    wire = host.connect()
    try:
        names = ["root", "lead", "kid", "nobody", "other"] * 20
        wire.write(b"".join(
            json.dumps({"method": "org.hive.Broker.Locate", "parameters": {"agent": name}}).encode()
            + b"\0" for name in names
        ))  # fmt: skip
        for name in names:
            reply = Reply.of(wire.read())
            assert reply.error == ("NotFound" if name == "nobody" else "")
            assert reply.error or reply["agent"] == name
    finally:
        wire.close()


def test_the_caller_is_the_socket_and_a_uid_of_its_range(host: HiveHost) -> None:
    """Another agent's uid, or one of the host, on an agent's socket is not answered."""
    uuid, base = host.uuid("kid"), host.call("Locate", agent="lead")["uid_base"]
    path = f"/run/hive/agents/{uuid}/run/broker.sock"
    ask = (
        "import socket as s; w = s.socket(s.AF_UNIX); w.settimeout(5); w.connect(PATH)\n"
        'try:\n w.sendall(b\'{"method":"org.hive.Broker.Whoami"}\\0\'); print(w.recv(999))\n'
        "except OSError as e: print(b'')"
    ).replace("PATH", repr(path))
    own = host.call("Locate", agent="kid")["uid_base"]
    for uid in (0, base, own - 1, own + 65536, 65534):
        user = ("setpriv", f"--reuid={uid}", "--groups", str(hive_group(host)))
        assert host.run(*user, "/usr/bin/python3", "-Ic", ask, check=False).stdout in {"b''\n", ""}
    user = ("setpriv", f"--reuid={own + 1000}", "--groups", str(hive_group(host)))
    assert '"name":"kid"' in host.run(*user, "/usr/bin/python3", "-Ic", ask).stdout


def hive_group(host: HiveHost) -> int:
    return int(host.run("getent", "group", "hive").stdout.split(":")[2])


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


def test_mail_is_delivered_again_until_it_is_acked(host: HiveHost) -> None:
    """Leased, ordered, 5 attempts, then a dead letter and the sender is told."""
    host.mail("kid")
    host.mail("lead")
    ids = [host.ask("lead", "Send", to="kid", body=f"{n}")["id"] for n in range(5)]
    urgent = host.ask("lead", "Send", to="kid", body="now", priority=0)["id"]
    first = host.ask("kid", "Recv", max=2)["messages"]
    assert [message["id"] for message in first] == [urgent, ids[0]]
    host.ask("kid", "Ack", ids=[urgent, ids[0]])
    for attempt in range(1, 6):
        (got,) = host.ask("kid", "Recv", max=1)["messages"]
        assert (got["id"], got["attempt"]) == (ids[1], attempt)
        dead = host.ask("kid", "Nack", ids=[ids[1]], why="no time")["dead"]
        assert dead == ([ids[1]] if attempt == 5 else [])
    (letter,) = host.mail("lead")
    assert (letter["from"], letter["relation"], letter["reply_to"]) == ("daemon", "daemon", ids[1])
    assert [message["id"] for message in host.ask("kid", "Recv")["messages"]] == ids[2:]
    assert host.ask("kid", "Recv")["messages"] == []
    began = time.monotonic()
    assert host.ask("kid", "Recv", wait=0.5)["messages"] == []
    assert 0.4 < time.monotonic() - began < at_most(5)
    assert host.ask("kid", "Ack", ids=ids[2:])["acked"] == 3
    lost = host.ask("lead", "Send", to="kid", body="late", ttl=0.3)["id"]
    host.until(
        lambda: lost in {message["id"] for message in host.json("inbox", "kid", "--dead")}, "ttl", 5
    )
    assert host.ask("kid", "Recv", lease=1)["messages"] == []


def test_a_message_is_delivered_again_after_its_lease(host: HiveHost) -> None:
    """Not acked within its lease, it is given again."""
    host.mail("kid")
    sent = host.ask("lead", "Send", to="kid", body="again")["id"]
    (one,) = host.ask("kid", "Recv", lease=1)["messages"]
    (two,) = host.ask("kid", "Recv", wait=30)["messages"]
    assert [(message["id"], message["attempt"]) for message in (one, two)] == [(sent, 1), (sent, 2)]
    host.ask("kid", "Ack", ids=[sent])
