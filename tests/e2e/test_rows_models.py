"""Calls of models from inside containers: rights, accounts, and where the keys are.

Rows K22, K23, Q39, Q41 and Q43.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from random import Random
from typing import Any

import long
import pytest
from chaos.session_load import MODELS as LOAD_MODELS
from chaos.session_load import POINTS, SETTINGS, VICTIMS, SessionLoad
from chaos.session_oracle import outcomes, verdict
from e2e import inside, key_search
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab("slow")

CHAT = "/v1/chat/completions"
SECRET = "sk-lab-0a1b2c3d4e5f60718293"  # noqa: S105 - of a provider that is part of the test
MODELS = """
default = "actor"
[providers.s]
kind = "scripted"
path = "/etc/hive/rules.toml"
[providers.h]
base_url = "http://127.0.0.1:8099/v1"
key = "mine"
[models.actor]
provider = "s"
name = "actor-1"
price_in = 1.0
price_out = 1.0
[models.paid]
provider = "h"
name = "paid-1"
price_in = 10.0
price_out = 10.0
"""
RULES = """
[[rules]]
match = "^slow"
text = "%s"
chunk = 10
pause = 0.1
tokens_in = 50
tokens_out = 50
[[rules]]
text = "well"
tokens_in = 100
tokens_out = 20
""" % ("word " * 120)
# A call on the socket of hive-model's accounts.
CONTROL = """
import socket
connection = socket.socket(socket.AF_UNIX)
connection.connect("/run/hive/model-control.sock")
try:
    connection.sendall(b'{"method":"org.hive.Broker.NoteModel"}' + bytes(1))
    print(connection.recv(99))
except ConnectionError:
    print(b"")
"""
# It answers with its caller's key where it is asked to, and in streams, as a bad provider would.
PROVIDER = """
import http.server, json
class Provider(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        key = self.headers["authorization"]
        with open("/run/provider.log", "a") as log:
            log.write(f"{asked['model']} {key}\\n")
        if asked.get("stream"):
            return self.break_off({"error": {"message": f"bad key {key}"}})
        leaks = "leak" in str(asked["messages"])
        answer = {"error": {"message": f"bad key {key}"}} if leaks else {
            "id": "1", "object": "chat.completion", "model": asked["model"],
            "choices": [{"index": 0, "finish_reason": "stop",
                         "message": {"role": "assistant", "content": "paid"}}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}
        data = json.dumps(answer).encode()
        self.send_response(400 if leaks else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def break_off(self, error):
        chunk = {"id": "1", "choices": [{"index": 0, "delta": {"content": "begun"}}]}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", "9999")  # more than there is
        self.end_headers()
        for part in (chunk, error):
            self.wfile.write(b"data: %s\\n\\n" % json.dumps(part).encode())
http.server.ThreadingHTTPServer(("127.0.0.1", 8099), Provider).serve_forever()
"""


SOCKETS: dict[str, str] = {}  # where the sockets of agents in their containers are reached


@dataclass(frozen=True)
class ModelAnswer:
    status: int
    headers: dict[str, str]
    text: str
    whole: bool

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON is anything
        return json.loads(self.text)


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    files = {"models.toml": MODELS + LOAD_MODELS, "rules.toml": RULES}
    made = shared_host.prepare("clones", SETTINGS, files=files)
    made.run("sh", "-c", "cat >/run/provider.py", text=PROVIDER)
    made.run("systemd-run", "--quiet", "--unit=provider", "/usr/bin/python3", "/run/provider.py")
    made.run(
        "sh", "-c", "umask 027; cat >/etc/hive/keys/mine; chgrp hive-model /etc/hive/keys/mine",
        text=SECRET,
    )  # fmt: skip
    made.run("systemctl", "restart", "hive-model.service")
    while made.mail("root"):
        pass  # of the files before
    made.grow(ann="root", bob={"parent": "root", "add_capabilities": ["model:paid"]})
    assert not allocate(made, "operator", "root", 1_000_000).error
    return made


def allocate(host: HiveHost, caller: str, agent: str, amount: int) -> Any:  # noqa: ANN401 - a reply
    words = {"agent": agent, "kind": "tokens", "amount": amount}
    if caller == "operator":
        return host.call("AllocateBudget", **words)
    return host.ask(caller, "AllocateBudget", **words)


def request(
    host: HiveHost, agent: str, call: tuple[str, object],
    headers: Mapping[str, str] | None = None, begun: threading.Event | None = None,
) -> ModelAnswer:  # fmt: skip
    """A call at the socket in the container. `begun` is set once a part of the answer is there."""
    uuid = host.uuid(agent)
    if uuid not in SOCKETS:
        SOCKETS[uuid] = str(host.socket_inside(agent, inside.MODEL))
    connection = http.client.HTTPConnection("model", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    with closing(connection):
        connection.sock.connect(SOCKETS[uuid])
        path, body = call
        method, data = ("GET", None) if body is None else ("POST", json.dumps(body))
        connection.request(method, path, data, dict(headers or {}))
        response = connection.getresponse()
        parts, whole = list[bytes](), True
        try:
            while part := response.read1(4096):
                parts.append(part)
                if begun is not None:
                    begun.set()
        except (OSError, http.client.HTTPException):
            whole = False
    text = b"".join(parts).decode()
    return ModelAnswer(response.status, dict(response.getheaders()), text, whole)


def chat(
    host: HiveHost, agent: str, text: str, model: str = "actor", /, *,
    headers: Mapping[str, str] | None = None, **more: object,
) -> ModelAnswer:  # fmt: skip
    body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    return request(host, agent, (CHAT, body), headers)


def charged_tokens(host: HiveHost, agent: str) -> int:
    """Tokens that were charged for calls of an agent."""
    sums = host.call("GetUsage", agent=agent)["sums"]
    kinds = ("tokens_in", "tokens_out")
    return sum(row["amount"] for row in sums if row["key"] == agent and row["kind"] in kinds)


def model_events(host: HiveHost, agent: str) -> list[dict[str, Any]]:
    rows = [row for row in host.own_events() if row["kind"] == "model"]
    return [row["fields"] for row in rows if row["caller"] == agent]


def test_a_call_from_a_container_is_answered_and_charged_as_the_provider_counted(
    host: HiveHost,
) -> None:
    """K22, Q39: one event a call, with its tokens; the budget of the tree pays."""
    before = charged_tokens(host, "ann")
    answer = chat(host, "ann", "hello")
    assert (answer.status, answer.json["choices"][0]["message"]["content"]) == (200, "well")
    host.until(lambda: charged_tokens(host, "ann") == before + 120, "it was not charged")
    assert model_events(host, "ann")[-1].items() >= {
        "alias": "actor", "wire": "chat", "tokens_in": 100, "tokens_out": 20, "source": "measured",
    }.items()  # fmt: skip
    listed = request(host, "ann", ("/v1/models", None)).json["data"]
    assert [row["id"] for row in listed] == ["actor"]


def test_a_model_that_the_agent_may_not_call_is_refused(host: HiveHost) -> None:
    refused = chat(host, "ann", "hello", "paid")
    assert (refused.status, "paid" in refused.text) == (403, True)
    assert chat(host, "ann", "hello", "nonsense").status == 404
    assert chat(host, "bob", "hello", "paid").json["choices"][0]["message"]["content"] == "paid"
    assert request(host, "ann", ("/v1/files", {"x": 1})).status == 404


def test_at_the_end_of_its_budget_an_agent_is_told_whose_it_is_and_goes_on_with_more(
    host: HiveHost,
) -> None:
    """K22: 402, which no client repeats by itself. Q43: its giver is warned before that."""
    host.grow(poor="root")
    assert not allocate(host, "root", "poor", 300).error
    answers = [chat(host, "poor", "hello")]
    while answers[-1].status == 200:
        assert len(answers) < 5
        answers.append(chat(host, "poor", "hello"))
    refused = answers[-1]
    assert refused.status == 402
    assert refused.headers["x-should-retry"] == "false"
    assert "budget of poor" in refused.text
    assert charged_tokens(host, "poor") == 120 * (len(answers) - 1)
    warnings = [row["body"] for row in host.mail("root") if row["kind"] == "budget"]
    assert "the token budget of poor runs low: 240 of 300 tokens spent" in warnings
    assert not allocate(host, "root", "poor", 1000).error
    assert chat(host, "poor", "hello").status == 200


def test_tokens_an_hour_are_bounded_as_the_provider_counted_them(host: HiveHost) -> None:
    """K23: 429 with the seconds to wait; an agent that is given more goes on before that."""
    host.grow(busy="root")
    words = {"agent": "busy", "kind": "tokens_per_hour"}
    assert not host.call("AllocateBudget", amount=100, **words).error
    assert chat(host, "busy", "hello").status == 200
    host.until(lambda: charged_tokens(host, "busy") == 120, "it was not charged")
    refused = chat(host, "busy", "hello")
    assert (refused.status, "120 of 100 tokens an hour" in refused.text) == (429, True)
    assert 3500 < int(refused.headers["retry-after"]) <= 3660
    assert charged_tokens(host, "busy") == 120
    assert not host.call("AllocateBudget", amount=1000, **words).error
    host.until(lambda: chat(host, "busy", "hello").status == 200, "it is still refused")


def test_a_call_that_names_what_is_others_charges_nothing_to_them(host: HiveHost) -> None:
    """K22: the socket says who calls; a task, a sub-agent, an agent and a key are claims."""
    assigned = host.call("AssignTask", agent="bob", description="dig", deadline=0)
    before = {name: charged_tokens(host, name) for name in ("ann", "bob", "root")}
    asked = host.run("cat", "/run/provider.log", check=False).stdout
    refused = chat(host, "ann", "hello", headers={"x-hive-task": assigned["task"]})
    assert (refused.status, "not a task of the agent" in refused.text) == (403, True)
    uuid = host.uuid("bob")
    headers = {"authorization": f"Bearer {SECRET}", "x-api-key": SECRET, "x-hive-agent": uuid,
               "x-hive-sub": "s1", "x-hive-hand-back": "1"}  # fmt: skip
    claims = {"user": uuid, "agent": uuid, "sub": "s1", "metadata": {"agent": uuid}}
    assert chat(host, "ann", "hello", "paid", headers=headers, **claims).status == 403
    assert chat(host, "ann", "hello", headers=headers, **claims).status == 200
    host.until(lambda: charged_tokens(host, "ann") == before["ann"] + 120, "it was not charged")
    for name in ("bob", "root"):
        assert charged_tokens(host, name) == before[name]
    assert not [row for row in model_events(host, "bob") if row["alias"] == "actor"]
    assert host.run("cat", "/run/provider.log", check=False).stdout == asked
    assert not host.call("CancelTask", task=assigned["task"]).error


def test_the_key_of_a_provider_is_in_its_file_and_nowhere_else(host: HiveHost) -> None:
    """The whole disk, and files in memory, but the provider's; an agent's /usr is the host's."""
    assert chat(host, "bob", "hello", "paid").status == 200
    leaked = chat(host, "bob", "leak it", "paid")
    assert (leaked.status, SECRET in leaked.text) == (400, False)
    broken = chat(host, "bob", "hello", "paid", stream=True)
    assert ("begun" in broken.text, SECRET in broken.text) == (True, False)
    assert f"paid-1 Bearer {SECRET}" in host.run("cat", "/run/provider.log").stdout
    since = int(host.lab.path("/etc/hive/models.toml").stat().st_mtime)
    for agent in ("ann", "bob"):
        assert key_search.files_inside(host, agent, SECRET, since) == "/run/seen\n"
        assert key_search.processes_inside(host, agent, SECRET) == ""
    assert key_search.processes(host, SECRET) == ""
    assert key_search.files_in_memory(host, SECRET) == "/run/seen\n"
    assert key_search.written_files(host, SECRET) == ["/etc/hive/keys/mine"]
    assert SECRET not in host.run("journalctl", "--no-pager", "--output=export").stdout
    assert SECRET not in json.dumps(host.own_events())


def test_only_the_proxy_reads_the_key(host: HiveHost) -> None:
    for user, group in (("hive", "hive"), ("hive-small", "hive-small"), ("nobody", "nogroup")):
        as_user = ("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups")
        done = host.run(*as_user, "cat", "/etc/hive/keys/mine", check=False)
        assert "Permission denied" in done.stderr


def test_a_container_reaches_no_socket_of_the_accounts_or_of_others(host: HiveHost) -> None:
    listed = host.inside("ann", "ls", "/run/hive").split()
    assert "model.sock" in listed
    assert not {"model-control.sock", "hand-model.sock", "operator.sock"} & set(listed)
    other = f"/run/hive/agents/{host.uuid('bob')}/run/model.sock"
    done = host.enter("ann", "test", "-e", other, check=False)
    assert done.returncode == 1
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    done = host.run(*nobody, "/usr/bin/python3", "-Ic", connect, other, check=False)
    assert "PermissionError" in done.stderr
    # This one is open to all, and answers nobody but hive-model.
    for user in ((), nobody):
        assert host.run(*user, "/usr/bin/python3", "-Ic", CONTROL).stdout == "b''\n"


def stream_while(host: HiveHost, agent: str, daemon: str) -> ModelAnswer:
    """A stream, in the middle of which a daemon is killed."""
    answers: list[ModelAnswer] = []
    messages = [{"role": "user", "content": "slow"}]
    body = {"model": "actor", "stream": True, "messages": messages}
    begun = threading.Event()
    thread = threading.Thread(
        target=lambda: answers.append(request(host, agent, (CHAT, body), begun=begun))
    )
    thread.start()
    assert begun.wait(60), "the answer did not begin"
    host.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", daemon)
    thread.join(60)
    return answers[0]


def test_hived_is_killed_in_a_stream_and_the_call_is_charged_once(host: HiveHost) -> None:
    before, events = charged_tokens(host, "ann"), len(model_events(host, "ann"))
    answer = stream_while(host, "ann", "hived.service")
    host.close_connections()
    host.answers()
    assert (answer.status, answer.whole, answer.text.endswith("data: [DONE]\n\n")) == (
        200, True, True,
    )  # fmt: skip
    host.until(lambda: charged_tokens(host, "ann") == before + 100, "it was not charged")
    assert len(model_events(host, "ann")) == events + 1
    assert chat(host, "ann", "hello").status == 200


def test_hive_model_is_killed_in_a_stream_and_the_next_call_waits_for_it(host: HiveHost) -> None:
    answer = stream_while(host, "ann", "hive-model.service")
    assert (answer.status, answer.whole) == (200, False)
    # The socket is hived's too: the connection queues until the new hive-model has it.
    assert chat(host, "ann", "hello").status == 200


@pytest.mark.sized
def test_sessions_lose_and_repeat_nothing_when_anything_is_killed(host: HiveHost) -> None:
    """Row Q41: at records of the log and at random moments, while tasks and mail come in."""
    seed = long.seed()
    random = Random(f"{seed} sessions")  # noqa: S311 - a schedule, no secret
    load = SessionLoad(
        host, seed, workers=long.times(1, 3), daemons=long.times(1, 2), steps=long.times(4, 6)
    )
    load.start()
    points = [(victim, kind) for kind in POINTS for victim in VICTIMS]
    by_chance = [(random.choice(VICTIMS), "") for _ in range(60)]
    last = random.choice(VICTIMS)
    plan = [*points, *by_chance] if long.asked.chosen else [
        (victim, "" if victim == last else random.choice(POINTS)) for victim in VICTIMS
    ]  # fmt: skip
    for victim, kind in random.sample(plan, len(plan)):
        load.strike_at(victim, kind, random)
    load.settle()
    if long.asked.chosen:
        load.wait_for_lost_calls()
    evidence = load.evidence()
    long.figure(
        "kills of sessions", seed=seed, kills=Counter(victim for victim, _ in load.kills),
        at_records=sum(bool(kind) for _, kind in load.kills), **outcomes(evidence),
    )  # fmt: skip
    faults = verdict(evidence)
    assert not faults, f"--seed {seed}\n" + "\n".join(faults[:20])
    assert len(load.kills) >= len(plan) // 2, f"--seed {seed}"
