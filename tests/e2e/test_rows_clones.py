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
from environments import environment_of

pytestmark = pytest.mark.lab

MODELS = """
default = "actor"
[providers.s]
kind = "scripted"
path = "/etc/hive/rules.toml"
[models.actor]
provider = "s"
name = "actor-1"
price_in = 1.0
price_out = 1.0
"""
# Who is told to fork does so; its clone runs one command and says what that printed: its uid, and
# that other sub-agents cannot enter its workspace. The parent repeats the result.
RULES = r"""
[[rules]]
match = "^Scopes that you may write: own"
text = '{"changes": [{"name": "own/preference/length", "text": "Short answers."}]}'
[[rules]]
on = "text"
match = "prepare the heir"
[[rules.calls]]
name = "edit"
[rules.calls.arguments]
path = "skills/bees/SKILL.md"
new = '''
---
name: bees
description: What bees do.
---
Look first.
'''
[[rules.calls]]
name = "edit"
arguments = {path = "skills/bees/notes/find.txt", new = "behind the house"}
[[rules.calls]]
name = "create_colony"
[rules.calls.arguments]
name = "heir"
task = "Know the bees."
skill_path = "skills/bees"
inherit = "full"
[[rules]]
on = "text"
match = "Write down what the bees"
calls = [{name = "bash", arguments = {command = "id"}}]
[[rules]]
tool = "bash"
match = "(without it|disabled|no tool)"
calls = [{name = "finish_task", arguments = {status = "success", summary = "no bash: \\1"}}]
[[rules]]
on = "text"
match = "fork it"
calls = [{name = "hive_fork_subagent", arguments = {task = "count the stars"}}]
[[rules]]
tool = "hive_fork_subagent"
match = '"status": ?"success".*(uid 6\d+)'
text = 'my clone had \1'
[[rules]]
tool = "hive_fork_subagent"
match = "count the stars"
calls = [{name = "bash", arguments = {command = "id -u; stat -c %a-%g ."}}]
[[rules]]
tool = "bash"
match = '(?s)(6[01]\d{3}).*750-1000'
text = 'uid \1'
[[rules]]
on = "text"
match = "use the server"
calls = [{name = "mcp__own__whoami", arguments = {}}]
[[rules]]
tool = "mcp__own__whoami"
match = '(uid \d+ .*)'
text = 'my server had \1'
[[rules]]
on = "text"
match = "fork twice"
calls = [{name = "hive_fork_subagent", arguments = {agent = "outer", task = "OUTER"}}]
[[rules]]
on = "text"
match = "OUTER"
calls = [{name = "bash", arguments = {command = '''
echo mine >secret; cat secret
python3 /run/hive/config/connect.py here.example.org:443 other.example.org:443'''}}]
[[rules]]
tool = "bash"
match = '(?s)mine.*403.*403'
calls = [{name = "hive_fork_subagent", arguments = {agent = "inner", task = "INNER"}}]
[[rules]]
on = "text"
match = "INNER"
calls = [{name = "bash", arguments = {command = '''
id -u; for sub in $(ls /run/hive/sub); do cat ../$sub/secret 2>&1 && echo seen; done
python3 /run/hive/config/connect.py here.example.org:443'''}}]
[[rules]]
tool = "bash"
match = '(?s)(6[01]\d{3})(?!.*seen).*denied.*closed'
text = 'inner \1 alone'
[[rules]]
tool = "hive_fork_subagent"
match = '"content": ?"(inner 6\d+ alone)"'
text = 'outer said \1'
[[rules]]
tool = "hive_fork_subagent"
match = '"content": ?"(outer said [^"]*)"'
text = '\1'
[[rules]]
text = "well"
tokens_in = 100
tokens_out = 20
"""
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
# Name, user, capabilities and no_new_privs of the fork server and of what it forked.
FORKED = r"""
cd /proc; for name in hive-forkserver hive-runtime; do
  sed -sn '/^\(Name\|Uid\|CapEff\|NoNewPrivs\):/p' $(grep -lx $name */comm | sed s/comm/status/) |
    awk '{printf "%s ", $2} END {print ""}'
done
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
    made = HiveHost(lab)
    made.run("sh", "-c", "mkdir -p /etc/hive; cat >/etc/hive/models.toml", text=MODELS)
    made.run("sh", "-c", "cat >/etc/hive/rules.toml", text=RULES)
    made.setup()
    made.settings('[deploy]\nwindow = 1\n[egress]\nallow = ["*.example.org:443"]\n')
    made.run("sh", "-c", "echo 127.0.0.1 here.example.org >>/etc/hosts")
    made.restart()
    made.grow(ann={"role": "worker", "parent": "root", "add_capabilities": ["subagents"]})
    made.wait("running", "ann")
    yield made
    made.close_connections()


def need_runtime() -> None:
    """A lab without a network has no libraries of models; all else here is tested without them."""
    if environment_of("runtime") is None:
        pytest.skip("what sessions import could not be fetched")


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


def test_a_session_forks_a_clone_which_runs_as_its_own_user(host: HiveHost) -> None:
    """The whole way: model, session, sockets, a process of another user, metering, the result."""
    need_runtime()
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
    need_runtime()
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
    need_runtime()
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
