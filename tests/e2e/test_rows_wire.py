"""The wire from the outside: errors, keys, jobs and streams on a real host.

Rows H17, K27 (no claimed identity) and the names that outsiders rely on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.echo_tree import TREE, make_echo_host
from e2e.hivehost import HiveHost, Reply
from e2e.shared_hosts import SharedHost
from each import for_each
from long import at_most

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


KINDS: dict[str, object] = {"string": "x", "array": [5], "number": 5}


@for_each("name", sorted(OPERATIONS))
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


def hive_group(host: HiveHost) -> int:
    return int(host.run("getent", "group", "hive").stdout.split(":")[2])


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


def test_mail_is_delivered_again_until_it_is_acked(host: HiveHost) -> None:
    """Leased, ordered, 5 attempts, then a dead letter and a notice to the sender."""
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
    """A message that is not acknowledged within its lease is delivered again."""
    host.mail("kid")
    sent = host.ask("lead", "Send", to="kid", body="again")["id"]
    (one,) = host.ask("kid", "Recv", lease=1)["messages"]
    (two,) = host.ask("kid", "Recv", wait=30)["messages"]
    assert [(message["id"], message["attempt"]) for message in (one, two)] == [(sent, 1), (sent, 2)]
    host.ask("kid", "Ack", ids=[sent])
