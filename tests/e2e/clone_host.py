"""The host of tests of sessions that fork; their models follow tests/fixtures/clones.toml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from e2e.hivehost import HiveHost
from e2e.shared_hosts import Agents, SharedHost

RULES = Path(__file__).parents[1] / "fixtures/clones.toml"
SETTINGS = '[deploy]\nwindow = 1\n[egress]\nallow = ["*.example.org:443"]\n'
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
[providers.m]
kind = "scripted"
path = "/etc/hive/rules.toml"
wire = "messages"
[models.writer]
provider = "m"
name = "writer-1"
"""
COMMIT = """
cd "/agents/$1/config"; shift
while [ $# -gt 0 ]; do mkdir -p "$(dirname "$1")"; printf %s "$2" >"$1"; shift 2; done
git add -A; git -c user.name=x -c user.email=x@x commit -qm own; git rev-parse HEAD
"""
# A process of this uid in the container, which claims to be its agent, and what it was answered at
# each socket: the answer of hived, or 200, or another status and its text. A name: an error.
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
        answer = client.getresponse()
        return 200 if answer.status == 200 else f"{answer.status} {answer.read().decode()}"
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


# A worker with a session, which several files use one after the other.
BOB: Agents = {
    "bob": {
        "parent": "root", "role": "worker", "runtime": "builtin", "add_capabilities": ["subagents"],
    },
}  # fmt: skip


def prepare_clone_host(shared_host: SharedHost, agents: Agents | None = None) -> HiveHost:
    """The host with its models, which answer by the rules."""
    files = {"models.toml": MODELS, "rules.toml": RULES.read_text()}
    return shared_host.prepare("clones", SETTINGS, files=files, agents=agents)


def attempt(host: HiveHost, agent: str, uid: int, *words: Words) -> list[Any]:
    """What a process with this uid in the container of an agent gets at each socket."""
    text = host.inside(agent, "/usr/bin/python3", "-Ic", TRY, str(uid), json.dumps(words))
    answers: list[Any] = json.loads(text)
    return answers


def propose(host: HiveHost, agent: str, files: dict[str, str]) -> tuple[str, str]:
    """Have an agent commit these files to its configuration: the approval, and the commit."""
    words = [word for row in files.items() for word in row]
    commit = host.inside(agent, "sh", "-ec", COMMIT, "sh", agent, *words).strip()
    request = {"agent": agent, "commit": commit, "message": "own"}
    return str(host.ask(agent, "RequestApplyCommit", **request)["approval"]), commit


def deploy(host: HiveHost, agent: str, files: dict[str, str]) -> None:
    """Have these files approved, and wait until they are deployed."""
    id_, commit = propose(host, agent, files)
    wait_for_approval(host, id_, "pending")
    assert not host.call("Approve", id=id_, commit=commit[:8]).error
    wait_for_approval(host, id_, "deployed")


def wait_for_approval(host: HiveHost, id_: str, state: str) -> None:
    def holds() -> bool:
        return bool(host.call("GetApproval", id=id_)["approval"]["state"] == state)

    host.until(holds, f"the approval is not {state}", seconds=60)


def run_turn(host: HiveHost, agent: str, text: str) -> str:
    """Send a letter to an agent; what its turn says."""

    def turns() -> dict[int, str]:
        rows = host.call("ListTurns", agent=agent)["turns"]
        return {row["turn"]: row["text"] for row in rows if row["conversation"] == "main"}

    before = turns().keys()
    assert not host.call("Send", to=agent, body=text).error
    host.until(lambda: turns().keys() - before, "no turn ended", seconds=90)
    (said,) = [said for turn, said in turns().items() if turn not in before]
    return said


def records(host: HiveHost, agent: str, *options: str) -> list[dict[str, Any]]:
    """The log of a conversation, as its container has it."""
    text = host.hive("session", "log", agent, *options, "-o", "jsonl")
    return [json.loads(line) for line in text.splitlines()]
