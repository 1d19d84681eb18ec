"""Sub-agents inside a container (rows Z14, H25): two uids of one container, each with its sockets.

They attack as their uid: the sockets of their agent, those of the other one, their depth, their
deadline.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.hivehost import HiveHost
from e2e.labhost import Lab
from e2e.subagent_host import make_subagent_host

pytestmark = pytest.mark.lab

# A process of this uid in the container, which claims to be its agent, and what it was answered at
# each socket: a call of hived, or a status of HTTP. Empty: not served.
TRY = """
import http.client, json, os, socket, sys
os.environ.update(HIVE_DEPTH="0", HIVE_CLONE_DEPTH="0", HIVE_NAME="root")
os.setgroups([]), os.setgid(int(sys.argv[1])), os.setuid(int(sys.argv[1]))
def call(path, method, parameters):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    connection.connect(path)
    if method.startswith("/"):
        client = http.client.HTTPConnection("model")
        client.sock = connection
        client.request("POST", method, json.dumps(parameters))
        return client.getresponse().status
    call = {"method": "org.hive.Broker." + method, "parameters": parameters}
    connection.sendall(json.dumps(call).encode() + bytes(1))
    data = b""
    while not data.endswith(bytes(1)):
        data += connection.recv(65536) or bytes(1)
    return json.loads(data[:-1] or b"null")
answers = []
for path, method, parameters in json.loads(sys.argv[2]):
    try:
        answers.append(call(path, method, parameters))
    except (OSError, http.client.HTTPException) as error:
        answers.append(type(error).__name__)
print(json.dumps(answers))
"""
Words = tuple[str, str, dict[str, Any]]
CHAT: tuple[str, dict[str, Any]] = (
    "/v1/chat/completions", {"model": "actor", "messages": [{"role": "user", "content": "x"}]},
)  # fmt: skip
WHO: tuple[str, dict[str, Any]] = ("Whoami", {})
BROKER, MODEL = "/run/hive/broker.sock", "/run/hive/model.sock"
GONE = ("FileNotFoundError", "ConnectionRefusedError")


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[HiveHost]:
    made = make_subagent_host(lab)
    made.grow(ann={"role": "worker", "parent": "root", "add_capabilities": ["subagents"]})
    made.wait("running", "ann")
    yield made
    made.close_connections()


def open_sub(host: HiveHost, **more: object) -> dict[str, Any]:
    words = {"kind": "named", "name": "echo", "tools": ["get_task"], "timeout_seconds": 600}
    reply = host.ask("ann", "OpenSubagent", **{**words, **more})
    assert not reply.error, reply
    return dict(reply.parameters)


def attempt(host: HiveHost, uid: int, *words: Words) -> list[Any]:
    """What a process with this uid in ann's container gets at each socket."""
    text = host.inside("ann", "/usr/bin/python3", "-Ic", TRY, str(uid), json.dumps(words))
    answers: list[Any] = json.loads(text)
    return answers


def sub_rows(host: HiveHost) -> list[dict[str, Any]]:
    return list(host.call("ListSubagents", agent="ann")["subagents"])


def close_all(host: HiveHost) -> None:
    for row in sub_rows(host):
        assert not host.ask("ann", "CloseSubagent", id=row["id"], status="success").error


def test_each_uid_has_its_own_sockets_and_no_others(host: HiveHost) -> None:
    """Neither a sub-agent those of its agent or of another one, nor the agent those of one."""
    one, two = open_sub(host), open_sub(host)
    doors = [(BROKER, MODEL), *((sub["broker_socket"], sub["model_socket"]) for sub in (one, two))]
    tries = [(path, *words) for broker, model in doors for path, words in (
        (broker, WHO), (model, CHAT),
    )]  # fmt: skip
    for owner, uid in enumerate((0, one["uid"], two["uid"], 61183)):
        answers = attempt(host, uid, *tries)
        served = [isinstance(answer, dict) or answer == 200 for answer in answers]
        assert served == [number // 2 == owner for number in range(6)], (uid, answers)
    mine = attempt(host, one["uid"], (one["broker_socket"], *WHO))[0]["parameters"]
    assert (mine["name"], mine["subagent"]) == ("ann", one["id"])
    refused = [event for event in host.events(limit=1000) if event["operation"] == "connect"]
    assert {event["fields"].get("sub") for event in refused} >= {None, one["id"], two["id"]}
    close_all(host)


def test_a_sub_agent_cannot_raise_what_it_may_do(host: HiveHost) -> None:
    """Its socket says who it is; its environment and its words say nothing."""
    one, two = open_sub(host), open_sub(host)
    door = one["broker_socket"]
    opening = {"kind": "clone", "name": "clone", "tools": [], "timeout_seconds": 9}
    attacks: list[tuple[str, dict[str, Any]]] = [
        ("OpenSubagent", opening), ("OpenSubagent", {**opening, "depth": 0}),
        ("CloseSubagent", {"id": two["id"], "status": "error"}), ("Spawn", {"name": "new"}),
        ("Send", {"to": "root", "body": "x"}), ("Send", {"to": two["inbox"], "body": "x"}),
        ("ListMessages", {"agent": "ann"}), ("UseTool", {"tool": "bash", "argument": ["id"]}),
    ]  # fmt: skip
    answers = attempt(host, one["uid"], *((door, *attack) for attack in attacks))
    errors = {answer["error"].rpartition(".")[2] for answer in answers}
    assert errors <= {"NotAllowed", "InvalidParameter"}, answers
    assert len(sub_rows(host)) == 2
    words: list[Words] = [(door, "Send", {"to": "ann", "body": "done"}), (door, "Recv", {})]
    sent, received = attempt(host, one["uid"], *words)
    assert "error" not in sent
    assert received["parameters"]["messages"] == []
    (letter,) = host.mail("ann")
    assert (letter["from"], letter["relation"]) == (one["inbox"], "subagent")
    close_all(host)


def test_its_calls_of_models_are_counted_to_its_agent(host: HiveHost) -> None:
    one = open_sub(host)
    assert attempt(host, one["uid"], (one["model_socket"], *CHAT)) == [200]
    host.until(lambda: sub_rows(host)[0]["tokens_in"] == 100, "it was not charged")
    assert f"ann/{one['id']}" in host.hive("model", "calls", "--agent", "ann")
    assert one["id"] in host.hive("agent", "show", "ann")
    sums = host.call("GetUsage", agent="ann")["sums"]
    assert any((row["key"], row["kind"]) == ("ann", "tokens_in") for row in sums)
    close_all(host)


def test_it_ends_at_its_deadline_and_with_the_daemon(host: HiveHost) -> None:
    """What it has open ends too, also after hived was killed."""
    short = open_sub(host, timeout_seconds=1)
    recv: Words = (short["broker_socket"], "Recv", {"wait": 20.0})
    answer = attempt(host, short["uid"], recv)[0]
    assert answer in (None, *GONE, "ConnectionResetError") or answer["error"].endswith("NotFound")
    host.until(lambda: not sub_rows(host), "it outlived its deadline")
    both: list[Words] = [
        (short["broker_socket"], *WHO), (short["model_socket"], *CHAT),
    ]  # fmt: skip
    assert set(attempt(host, short["uid"], *both)) <= set(GONE)
    for end in (host.restart, host.kill):
        left = open_sub(host)
        end()
        host.answers()
        host.close_connections()
        both = [(left["broker_socket"], *WHO), (left["model_socket"], *CHAT)]
        assert set(attempt(host, left["uid"], *both)) <= set(GONE)
        assert sub_rows(host) == []
        assert host.inside("ann", "ls", "/run/hive/sub", check=False) == ""
    whys = [event["fields"].get("why") for event in host.events(limit=1000)]
    assert whys.count("the daemon was restarted") == 2
    assert "its deadline has passed" in whys
