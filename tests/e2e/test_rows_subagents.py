"""Sub-agents inside a container (rows Z14, H25): two uids of one container, each with its sockets.

They attack as their uid: the sockets of their agent, those of the other one, its files, its
processes, its budget, their depth, their deadline.
"""

from __future__ import annotations

from typing import Any

import pytest
from e2e.clone_host import (
    BOB,
    BROKER,
    CHAT,
    GONE,
    MODEL,
    WHO,
    Words,
    attempt,
    prepare_clone_host,
    run_turn,
)
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from environments import need_environment

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    need_environment("runtime")
    made = prepare_clone_host(shared_host, agents=BOB)
    made.grow(ann={"role": "worker", "parent": "root", "add_capabilities": ["subagents"]})
    return made


def open_sub(host: HiveHost, agent: str = "ann", **more: object) -> dict[str, Any]:
    words = {"kind": "named", "name": "echo", "tools": ["get_task"], "timeout_seconds": 600}
    reply = host.ask(agent, "OpenSubagent", **{**words, **more})
    assert not reply.error, reply
    return dict(reply.parameters)


def sub_rows(host: HiveHost, agent: str = "ann") -> list[dict[str, Any]]:
    return list(host.call("ListSubagents", agent=agent)["subagents"])


def close_all(host: HiveHost, agent: str = "ann") -> None:
    for row in sub_rows(host, agent):
        assert not host.ask(agent, "CloseSubagent", id=row["id"], status="success").error


def test_each_uid_has_its_own_sockets_and_no_others(host: HiveHost) -> None:
    """H25, Z14: neither a sub-agent those of its agent or another one, nor the agent its."""
    one, two = open_sub(host), open_sub(host)
    doors = [(BROKER, MODEL), *((sub["broker_socket"], sub["model_socket"]) for sub in (one, two))]
    tries = [(path, *words) for broker, model in doors for path, words in (
        (broker, WHO), (model, CHAT),
    )]  # fmt: skip
    for owner, uid in enumerate((0, one["uid"], two["uid"], 61183)):
        answers = attempt(host, "ann", uid, *tries)
        served = [isinstance(answer, dict) or answer == 200 for answer in answers]
        assert served == [number // 2 == owner for number in range(6)], (uid, answers)
    mine = attempt(host, "ann", one["uid"], (one["broker_socket"], *WHO))[0]["parameters"]
    assert (mine["name"], mine["subagent"]) == ("ann", one["id"])
    refused = [event for event in host.own_events() if event["operation"] == "connect"]
    assert {event["fields"].get("sub") for event in refused} >= {None, one["id"], two["id"]}
    close_all(host)


def test_a_sub_agent_cannot_raise_what_it_may_do(host: HiveHost) -> None:
    """H25, Z4: its socket says who it is; its environment and its words say nothing."""
    one, two = open_sub(host), open_sub(host)
    door = one["broker_socket"]
    opening = {"kind": "clone", "name": "clone", "tools": [], "timeout_seconds": 9}
    attacks: list[tuple[str, dict[str, Any]]] = [
        ("OpenSubagent", opening), ("OpenSubagent", {**opening, "depth": 0}),
        ("CloseSubagent", {"id": two["id"], "status": "error"}), ("Spawn", {"name": "new"}),
        ("Send", {"to": "root", "body": "x"}), ("Send", {"to": two["inbox"], "body": "x"}),
        ("ListMessages", {"agent": "ann"}), ("UseTool", {"tool": "bash", "argument": ["id"]}),
    ]  # fmt: skip
    answers = attempt(host, "ann", one["uid"], *((door, *attack) for attack in attacks))
    errors = {answer["error"].rpartition(".")[2] for answer in answers}
    assert errors <= {"NotAllowed", "InvalidParameter"}, answers
    assert len(sub_rows(host)) == 2
    words: list[Words] = [(door, "Send", {"to": "ann", "body": "done"}), (door, "Recv", {})]
    sent, received = attempt(host, "ann", one["uid"], *words)
    assert "error" not in sent
    assert received["parameters"]["messages"] == []
    (letter,) = host.mail("ann")
    assert (letter["from"], letter["relation"]) == (one["inbox"], "subagent")
    close_all(host)


def test_its_calls_of_models_are_counted_to_its_agent(host: HiveHost) -> None:
    """Z14: one purse."""
    one = open_sub(host)
    assert attempt(host, "ann", one["uid"], (one["model_socket"], *CHAT)) == [200]
    host.until(lambda: sub_rows(host)[0]["tokens_in"] == 100, "it was not charged")
    assert f"ann/{one['id']}" in host.hive("model", "calls", "--agent", "ann")
    assert one["id"] in host.hive("agent", "show", "ann")
    sums = host.call("GetUsage", agent="ann")["sums"]
    assert any((row["key"], row["kind"]) == ("ann", "tokens_in") for row in sums)
    close_all(host)


# Attempts of a sub-agent's user on its agent, one a line: whatever succeeds is printed.
ATTACKS = """
import ctypes, errno, os, pathlib, signal, socket, sys
REFUSED = errno.EACCES, errno.EPERM, errno.ENOENT, errno.EROFS, errno.ECONNREFUSED
uid, own, other = int(sys.argv[1]), *sys.argv[2:4]
home = pathlib.Path("/agents", sys.argv[4])
pids = {}
for place in pathlib.Path("/proc").glob("[0-9]*"):
    if int(place.name) != os.getpid():
        pids.setdefault((place / "comm").read_text().strip(), int(place.name))
forks = [line.split()[-1] for line in open("/proc/net/unix") if len(line.split()) > 7]
os.setgroups([]), os.setgid(uid), os.setuid(uid)
def connect(path):
    socket.socket(socket.AF_UNIX).connect(path.replace("@", chr(0), 1))
def trace(pid):
    if ctypes.CDLL(None, use_errno=True).ptrace(16, pid, 0, 0):  # PTRACE_ATTACH
        raise OSError(ctypes.get_errno(), "ptrace")
attacks = {
    "write a file of its work": lambda: (home / "state/work/x").write_text("x"),
    "change a file of its work": lambda: (home / "state/work/notes").write_text("x"),
    "read its conversation": lambda: (home / "state/session/main/log").read_bytes(),
    "change its conversation": lambda: (home / "state/session/main/log").open("ab"),
    "list its conversations": lambda: os.listdir(home / "state/session"),
    "write its configuration": lambda: (home / "config/agent.toml").write_text("x"),
    "write the history of it": lambda: (home / "config/.git/HEAD").write_text("x"),
    "write the deployed one": lambda: pathlib.Path("/run/hive/config/x").write_text("x"),
    "write its state": lambda: (home / "state/x").write_text("x"),
    "enter another sub-agent": lambda: os.listdir(home / "state/sub" / other),
    "remove another sub-agent": lambda: os.rename(home / "state/sub" / other, home / "state/y"),
    "read its credentials": lambda: os.listdir("/run/hive/credentials"),
    "read its environment": lambda: pathlib.Path("/proc/1/environ").read_bytes(),
    "end its first process": lambda: os.kill(1, signal.SIGTERM),
    **{f"end {name}": lambda pid=pid: os.kill(pid, 9) for name, pid in pids.items()},
    **{f"trace {name}": lambda pid=pid: trace(pid) for name, pid in pids.items()},
    **{f"connect to {path}": lambda path=path: connect(path)
       for path in forks if own not in path},
}
for name, attack in attacks.items():
    try:
        attack()
    except OSError as error:
        if error.errno not in REFUSED:
            print(name, error)
        continue
    print(name)
print(len(attacks), *sorted(pids))
"""


def test_it_reaches_neither_files_nor_processes_of_its_agent(host: HiveHost) -> None:
    """H25, Z14: with a session that runs, and another sub-agent beside it."""
    host.inside("bob", "sh", "-c", "echo mine >/agents/bob/state/work/notes")
    assert run_turn(host, "bob", "hello") == "well"
    one, two = open_sub(host, "bob"), open_sub(host, "bob")
    words = (str(one["uid"]), one["id"], two["id"], "bob")
    said = host.inside("bob", "/usr/bin/python3", "-Ic", ATTACKS, *words).splitlines()
    assert said[:-1] == [], said
    count, *processes = said[-1].split()
    assert int(count) > 20
    assert {"hive-forkserver", "hive-runtime"} <= set(processes), processes
    assert host.inside("bob", "cat", "/agents/bob/state/work/notes") == "mine\n"
    assert run_turn(host, "bob", "hello again") == "well"
    close_all(host, "bob")


def test_it_shares_the_budget_of_its_agent_and_cannot_exceed_it(host: HiveHost) -> None:
    """H25, Z14: what it spends is gone for its agent too, and the refusal names whose it is."""
    one = open_sub(host)
    spent = attempt(host, "ann", one["uid"], (one["model_socket"], *CHAT))
    assert spent == [200]
    host.until(lambda: sub_rows(host)[0]["tokens_in"] == 100, "it was not charged")
    assert not host.call("AllocateBudget", agent="ann", kind="tokens", amount=1).error
    for uid, socket in ((one["uid"], one["model_socket"]), (0, MODEL)):
        (said,) = attempt(host, "ann", uid, (socket, *CHAT))
        assert str(said).startswith("402 "), said
        assert "budget of ann" in said
    assert not host.call("AllocateBudget", agent="ann", kind="tokens", close=True).error
    close_all(host)


def test_it_ends_at_its_deadline_and_with_the_daemon(host: HiveHost) -> None:
    """Z11, Z14: what it has open ends too, also after hived was killed."""
    short = open_sub(host, timeout_seconds=1)
    recv: Words = (short["broker_socket"], "Recv", {"wait": 20.0})
    answer = attempt(host, "ann", short["uid"], recv)[0]
    assert answer in (None, *GONE, "ConnectionResetError") or answer["error"].endswith("NotFound")
    host.until(lambda: not sub_rows(host), "it outlived its deadline")
    both: list[Words] = [
        (short["broker_socket"], *WHO), (short["model_socket"], *CHAT),
    ]  # fmt: skip
    assert set(attempt(host, "ann", short["uid"], *both)) <= set(GONE)
    for end in (host.restart, host.kill):
        left = open_sub(host)
        end()
        host.answers()
        host.close_connections()
        both = [(left["broker_socket"], *WHO), (left["model_socket"], *CHAT)]
        assert set(attempt(host, "ann", left["uid"], *both)) <= set(GONE)
        assert sub_rows(host) == []
        assert host.inside("ann", "ls", "/run/hive/sub", check=False) == ""
    whys = [event["fields"].get("why") for event in host.own_events()]
    assert whys.count("the daemon was restarted") == 2
    assert "its deadline has passed" in whys
