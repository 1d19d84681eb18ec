"""Authority, tested through the sockets in the containers: H7, H8, H10, H12, H17, H22, H24."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product

import pytest
from e2e.authority_tree import (
    LIFECYCLE,
    TREE,
    above,
    events_of_request,
    make_authority_host,
    sees,
    siblings,
)
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    return make_authority_host(shared_host)


@pytest.fixture(autouse=True)
def tidy(host: HiveHost) -> Iterator[None]:
    yield
    host.prune(TREE)


def test_ancestors_run_their_descendants_and_no_others(host: HiveHost) -> None:
    """H7: any ancestor may, and no other agent: not itself, a child, a sibling or a stranger."""
    for caller, target in product(TREE, TREE):
        verbs = ("Start",) if caller in above(target) else LIFECYCLE
        for verb in verbs:
            reply = host.ask(caller, verb, agent=target)
            expected = "NotAllowed" if sees(caller, target) else "NotFound"
            assert reply.error == ("" if caller in above(target) else expected), (
                caller, verb, target, reply,
            )  # fmt: skip
    refusal = host.ask("ann", "Stop", agent="lead")
    assert refusal.reason == "cannot stop lead: not your descendant"
    unknown, hidden = host.ask("ben", "Stop", agent="nobody"), host.ask("ben", "Stop", agent="cid")
    assert hidden.parameters == json.loads(json.dumps(unknown.parameters).replace("nobody", "cid"))
    assert {host.call("Locate", agent=name)["state"] for name in TREE} == {"running"}


def test_a_distant_ancestor_runs_a_descendant(host: HiveHost) -> None:
    """H7: kill, start, stop, restart, update have their effect."""
    assert host.ask("root", "Stop", agent="cid", wait=20)["agents"] == ["cid"]
    assert host.show("cid", "ActiveState") == "inactive"
    assert host.ask("root", "Start", agent="cid", wait=20)["agents"] == ["cid"]
    for verb in ("Restart", "Update"):
        before = host.main_pid("cid")
        assert host.ask("lead", verb, agent="cid", wait=20)["agents"] == ["cid"]
        assert host.main_pid("cid") not in {0, before}
    assert host.ask("ann", "Kill", agent="cid", reason="enough", wait=20)["agents"] == ["cid"]
    assert host.show("cid", "ActiveState") in {"inactive", "failed"}
    assert host.call("Locate", agent="cid")["state"] == "stopped"
    event = events_of_request(host.events(last=10))[-1]
    assert (event["caller"], event["operation"], event["target"]) == ("ann", "kill", "cid")
    assert "enough" in json.dumps(event)
    host.call("Start", agent="cid", wait=20)
    host.close_connections("cid")


def test_an_agent_creates_only_below_itself(host: HiveHost) -> None:
    """H8, K1: within the role matrix, under itself or a descendant."""
    for role in ("architect", "worker", "agent", "lead", "daemon", "task"):
        assert host.ask("ben", "Spawn", name="pet", role=role).error == (
            "NotAllowed" if role != "task" else ""
        ), role
    assert host.ask("lead", "Destroy", agent="pet", wait=20)["agents"] == ["pet"]
    assert host.ask("tom", "Spawn", name="pet", role="task").error == "NotAllowed"
    kernel = host.ask("lead", "Spawn", name="pet", role="kernel")
    assert (kernel.error, kernel.parameters["parameter"]) == ("InvalidParameter", "role")
    for parent, error in (
        ("root", "NotAllowed"), ("rival", "NotFound"), ("island", "NotFound"),
        ("", "NotAllowed"), ("nobody", "NotFound"), ("ben", "NotAllowed"),
    ):  # fmt: skip
        assert host.ask("ann", "Spawn", name="pet", parent=parent).error == error, parent
    # No detour: what ben may not create itself, nobody creates under ben.
    assert host.ask("lead", "Spawn", name="pet", parent="ben", role="lead").error == "NotAllowed"
    deep = host.ask("lead", "Spawn", name="pet", parent="ann", title="Pet", wait=20)
    assert deep["name"] == "pet"
    assert host.ask("pet", "Whoami")["parent"] == "ann"
    assert host.ask("ann", "Whoami")["children"] == ["cid", "pet", "tom"]
    host.close_connections("pet")
    host.ask("lead", "Destroy", agent="pet", wait=20)


def test_an_agent_grants_no_more_than_it_has(host: HiveHost) -> None:
    """H8: capabilities a subset, limits within the rest, images by name, seats."""
    held = set(host.ask("ann", "Whoami")["capabilities"])
    assert "meta.read" not in held
    over = host.ask("ann", "Spawn", name="pet", capabilities=["meta.read"])
    assert over.error == "NotAllowed"
    unknown = host.ask("ann", "Spawn", name="pet", capabilities=["everything"])
    assert unknown.error == "InvalidArgument"
    assert unknown.parameters["field"] == "capabilities"
    path = host.ask("ann", "Spawn", name="pet", image="/srv/tree")
    assert path.error == "NotAllowed"
    assert host.ask("ann", "Spawn", name="pet", image="nowhere").error == "InvalidArgument"
    assert host.ask("ann", "Spawn", name="pet", tier="strategic").error == "NotAllowed"
    assert host.ask("ann", "Spawn", name="pet", max_children=11).error == "LimitReached"
    host.grow(poor={"parent": "ann", "role": "lead", "limits": {"memory_max": 64 << 20},
                    "max_children": 2})  # fmt: skip
    big = host.ask("poor", "Spawn", name="big", limits={"memory_max": 65 << 20})
    assert big.error == "LimitReached", big
    for name, size in (("kid-1", 40 << 20), ("kid-2", 24 << 20)):
        made = host.ask("poor", "Spawn", name=name, limits={"memory_max": size}, wait=20)
        assert made["name"] == name
    assert host.ask("kid-1", "Whoami")["limits"]["memory_max"] == 40 << 20
    third = host.ask("poor", "Spawn", name="kid-3", limits={"memory_max": 16 << 20})
    assert third.error == "LimitReached", third
    assert host.run("hive", "call", "Spawn", '{"name": "kid-3"}', "--as", "poor",
                    check=False).returncode == 75  # fmt: skip
    host.close_connections("poor", "kid-1")
    host.call("Destroy", agent="poor", recursive=True, wait=30)


def test_max_children_bounds_the_children_of_an_agent(host: HiveHost) -> None:
    """H8: 10 by default; a stopped child counts, a destroyed one does not, nor a zombie (K4)."""
    assert host.call("GetAgent", agent="ann")["max_children"] == 10
    host.grow(clan={"parent": "ann", "role": "lead", "max_children": 2})
    for name in ("kid-0", "kid-1"):
        assert not host.ask("clan", "Spawn", name=name, role="lead").error
    host.ask("clan", "Stop", agent="kid-0", wait=20)
    full = host.ask("clan", "Spawn", name="kid-2", role="lead")
    assert (full.error, full.reason) == ("LimitReached", "max_children (2) of clan reached")
    host.ask("clan", "Destroy", agent="kid-0")
    assert not host.ask("clan", "Spawn", name="kid-2", role="lead").error
    host.close_connections("clan")
    host.call("Destroy", agent="clan", recursive=True, wait=30)


def test_max_descendants_bounds_the_subtree(host: HiveHost) -> None:
    """H8: `subtree.agents` counts all descendants."""
    host.grow(clan={"parent": "ann", "role": "lead", "subtree": {"agents": 2}})
    assert not host.ask("clan", "Spawn", name="clan-1", role="lead").error
    assert not host.ask("clan", "Spawn", name="clan-2", parent="clan-1", role="lead").error
    for parent in ("clan", "clan-1", "clan-2"):
        over = host.ask("clan", "Spawn", name="clan-3", parent=parent, role="task")
        assert over.error == "LimitReached", parent
    host.close_connections("clan")
    host.call("Destroy", agent="clan", recursive=True, wait=30)


def test_the_older_names_of_spawn_still_work(host: HiveHost) -> None:
    """H8, H17: `request_spawn` and `request_init_config` are spawn."""
    for alias in ("RequestSpawn", "RequestInitConfig"):
        made = host.ask("ann", alias, name="pet", role="task", wait=20)
        assert made.parameters.keys() >= {"name", "uuid", "job"}, made
        assert host.ask("ann", "Destroy", agent="pet", wait=20)["agents"] == ["pet"]


@pytest.mark.parametrize(
    "name",
    ["", "A", "1a", "-a", "a-", "a--b", "a_b", "a.b", "a b", "é", "a" * 33, "operator", "hive",
     "self", "host", "system", "../x", "a\n", "a/b"],
)  # fmt: skip
def test_invalid_agent_names_are_refused(host: HiveHost, name: str) -> None:
    """`^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$`, no `--`, five words reserved."""
    refused = host.ask("ann", "Spawn", name=name, role="task")
    assert refused.error in {"InvalidArgument", "InvalidParameter"}
    assert host.call("Spawn", name=name).error == refused.error


def test_unusual_valid_agent_names_are_accepted(host: HiveHost) -> None:
    """One letter, and 32 characters; taken among the living, also when unseen."""
    for name in ("a", "a" * 32, "a-1-b", "z9"):
        assert not host.ask("ann", "Spawn", name=name, role="task").error
        assert host.ask("ann", "Destroy", agent=name, wait=20)["agents"] == [name]
    taken = host.ask("ann", "Spawn", name="island", role="task")
    assert taken.error == "AlreadyExists"


def test_only_ancestors_read_logs(host: HiveHost) -> None:
    """H10: itself and any ancestor; bounded, searched, and since a moment."""
    for caller, target in product(TREE, TREE):
        reply = host.ask(caller, "GetLogs", agent=target, lines=1)
        may = caller == target or caller in above(target)
        hidden = "NotAllowed" if sees(caller, target) else "NotFound"
        assert reply.error == ("" if may else hidden), (caller, target)
    lines = host.ask("lead", "GetLogs", agent="cid")["lines"]
    own = [line for line in lines if line["text"] in {"a line of cid", "second line"}]
    assert {line["text"] for line in own} == {"a line of cid", "second line"}
    assert all(line.keys() == {"time", "unit", "text"} for line in lines)
    assert {line["unit"] for line in own} == {"hive-agent@cid.service"}
    assert len(host.ask("lead", "GetLogs", agent="cid", lines=1)["lines"]) == 1
    result = host.ask("root", "GetLogs", agent="cid", grep="second")["lines"]
    assert {line["text"] for line in result} == {"second line"}
    assert host.ask("cid", "GetLogs")["lines"] == lines
    last = lines[-1]["time"]
    assert host.ask("cid", "GetLogs", since=last + 3600)["lines"] == []
    assert host.fails(5, "call", "GetLogs", '{"agent": "ann"}', "--as", "cid")


def label(sender: str, target: str) -> str:
    """What the sender is to the recipient; empty: it may not write to it."""
    if sender == "tom":  # a task
        return "child" if TREE["tom"] == target else ""
    near = (
        (sender == target, "self"), (TREE[target] == sender, "parent"),
        (TREE[sender] == target, "child"), (siblings(sender, target), "sibling"),
        (sender in above(target), "ancestor"),
    )  # fmt: skip
    return next((word for holds, word in near if holds), "")


def test_an_agent_writes_only_to_its_relations(host: HiveHost) -> None:
    """H12: parent, siblings that are no roots, itself, descendants; each labelled by the daemon."""
    labels = {pair: label(*pair) for pair in product(TREE, TREE)}
    for (caller, target), expected in labels.items():
        reply = host.ask(caller, "Send", to=target, body=f"{caller}>{target}")
        hidden = "NotAllowed" if sees(caller, target) else "NotFound"
        assert reply.error == ("" if expected else hidden), (caller, target, reply)
    for target in TREE:
        got = {message["from"]: message for message in host.mail(target) if ">" in message["body"]}
        assert got.keys() == {caller for caller in TREE if labels[caller, target]}
        for caller, message in got.items():
            assert message["relation"] == labels[caller, target], (caller, target)
            assert message["from_uuid"] == host.ask(caller, "Whoami")["uuid"]
            assert (message["to"], message["body"]) == (target, f"{caller}>{target}")


def test_a_reply_and_an_allow_list_permit_messages(host: HiveHost) -> None:
    """H12: a reply goes to its sender wherever that is; the list is the operator's, one way."""
    host.call("Allow", agent="island", other="cid")
    assert host.ask("cid", "Send", to="island", body="no").error == "NotFound"
    sent = host.ask("island", "Send", to="cid", body="across")["id"]
    (message,) = host.mail("cid")
    assert (message["id"], message["relation"]) == (sent, "allowed")
    host.call("Disallow", agent="island", other="cid")
    assert host.ask("island", "Send", to="cid", body="again").error == "NotFound"
    answer = host.ask("cid", "Send", to="island", body="back", reply_to=sent)
    assert answer["id"]
    (back,) = host.mail("island")
    assert (back["reply_to"], back["thread"]) == (sent, message["thread"])
    # Nobody else's message opens a way, nor a made-up one.
    for agent, reply_to in (("ben", sent), ("cid", "made-up"), ("cid", back["id"])):
        refused = host.ask(agent, "Send", to="island", body="x", reply_to=reply_to)
        assert refused.error, (agent, reply_to)
    assert host.ask("cid", "Allow", agent="cid", other="island").error in {
        "NotAllowed", "NotFound",
    }  # fmt: skip


def test_the_operator_exchanges_messages_with_any_agent(host: HiveHost) -> None:
    """H12: to `operator` with the capability; the operator to anybody; `from` cannot be given."""
    assert host.ask("cid", "Send", to="operator", body="hello")["id"]
    assert host.ask("tom", "Send", to="operator", body="hello").error == "NotAllowed"
    (mail,) = host.json("inbox")
    assert (mail["from"], mail["body"], mail["to"]) == ("cid", "hello", "operator")
    host.hive("send", "tom", "do this", "--priority", "0")
    (task,) = host.mail("tom")
    assert (task["from"], task["from_uuid"], task["relation"]) == (
        "operator", "operator", "operator",
    )  # fmt: skip
    assert task["priority"] == 0
    assert host.ask("tom", "Send", to="operator", body="done", reply_to=task["id"])["id"]
    forged = host.ask("cid", "Send", **{"to": "ann", "body": "x", "from": "operator"})
    assert (forged.error, forged.parameters["parameter"]) == ("InvalidParameter", "from")
    for letter in host.json("inbox"):
        host.hive("inbox", "--done", letter["id"])


def test_each_agent_has_one_socket_and_rules_decide(host: HiveHost) -> None:
    """H17: the same file, the same methods for everybody; what differs is the answer."""
    result = "find / -xdev -type s 2>/dev/null; find /run -type s 2>/dev/null; true"
    for agent in ("root", "cid"):
        sockets = set(host.inside(agent, "sh", "-c", result).split())
        own = {"/run/hive/broker.sock", "/run/hive/model.sock"}
        assert {path for path in sockets if "hive" in path} == own
    answer = {
        agent: host.ask(
            agent, "org.varlink.service.GetInterfaceDescription", interface="org.hive.Broker"
        )["description"]
        for agent in ("root", "cid")
    }
    assert answer["root"] == answer["cid"]
    for method in ("Spawn", "Kill", "Start", "Restart", "Update", "GetLogs", "Wake", "Stop"):
        assert f"\nmethod {method}(" in answer["cid"]


def test_only_an_ancestor_destroys(host: HiveHost) -> None:
    """H22: never itself, an ancestor, a sibling; the operator says it twice."""
    for caller, target in product(TREE, TREE):
        if caller not in above(target):
            reply = host.ask(caller, "Destroy", agent=target)
            assert reply.error == ("NotAllowed" if sees(caller, target) else "NotFound")
    assert host.tree() == TREE
    assert "--yes" in host.fails(2, "destroy", "cid")
    assert host.call("Destroy", agent="root").error == "NotAllowed"


def test_a_new_agent_inherits_nothing_from_a_destroyed_one_of_the_same_name(host: HiveHost) -> None:
    """H22: archived for 24 h and restored; a reused name inherits nothing."""
    host.grow(pet={"parent": "ann", "role": "worker"})
    old = host.uuid("pet")
    host.inside("pet", "sh", "-c", "echo secret >/agents/pet/state/secret")
    host.call("Allow", agent="pet", other="island")
    sent = host.ask("ann", "Send", to="pet", body="for the first")["id"]
    host.close_connections("pet")
    assert host.ask("lead", "Destroy", agent="pet", wait=20)["agents"] == ["pet"]
    dead = [
        message
        for message in host.mail("ann")
        if sent in message["body"] or message["reply_to"] == sent
    ]
    assert len(dead) == 1
    assert dead[0]["relation"] == "daemon"
    (archive,) = (archive for archive in host.json("restore") if archive["id"] == old)
    assert 86_000 < archive["expires_at"] - archive["destroyed_at"] <= 86_401
    host.grow(pet={"parent": "ann", "role": "worker"})
    new = host.ask("pet", "Whoami")["uuid"]
    assert new != old
    assert host.mail("pet") == []
    assert host.inside("pet", "ls", "-A", "/agents/pet/state") == ""
    assert host.ask("pet", "Send", to="island", body="x").error == "NotFound"
    assert "taken" in host.fails(1, "restore", old)
    host.close_connections("pet")
    host.call("Destroy", agent="pet", wait=20)
    back = host.call("Restore", id=old, wait=30)
    assert (back["uuid"], back["parent"]) == (old, "ann")
    assert host.inside("pet", "cat", "/agents/pet/state/secret") == "secret\n"
    assert host.ask("ann", "Restore", id=old).error == "NotAllowed"
    host.close_connections("pet")
    host.call("Destroy", agent="pet", wait=20)


def test_an_agent_schedules_a_wake_for_itself(host: HiveHost) -> None:
    """H24: into its own inbox, always labelled `self`, by any process of its container."""
    host.ask("cid", "Wake", body="timer")
    host.inside("cid", "hive-agent", "wake", "beside")
    got = host.mail("cid")
    assert [(message["from"], message["relation"], message["body"]) for message in got] == [
        ("cid", "self", "timer"), ("cid", "self", "beside"),
    ]  # fmt: skip
    other = host.ask("cid", "Wake", body="x", agent="ann")
    assert (other.error, other.parameters["parameter"]) == ("InvalidParameter", "agent")
