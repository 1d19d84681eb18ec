"""A subtree moves under running containers: access follows the tree at once."""

from __future__ import annotations

import json

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab
HOLD = ["sleep", "1000"]


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    hive_host = shared_host.prepare("tree")
    hive_host.grow(
        one={"command": HOLD},
        two={"command": HOLD},
        kid={"parent": "one", "command": HOLD},
        pup={"parent": "kid", "command": HOLD},
    )
    return hive_host


def sees(host: HiveHost, agent: str) -> set[str]:
    return set(host.inside(agent, "ls", "/agents").split())


def test_a_move_changes_the_mounts_of_running_containers(host: HiveHost) -> None:
    """Rows H6, H18."""
    before = host.pids("root", "one", "two", "kid", "pup")
    host.inside("one", "sh", "-c", "echo mine >/agents/kid/state/file")
    said = host.hive("move", "kid", "--parent", "two")
    host.wait("running", "one")
    after = host.pids(*before)
    assert {name for name in before if before[name] != after[name]} == {"one"}
    assert sees(host, "one") == {"one"}
    assert sees(host, "two") == {"two", "kid", "pup"}
    assert sees(host, "root") == {"root", "one", "two", "kid", "pup"}
    assert host.inside("two", "cat", "/agents/kid/state/file") == "mine\n"
    assert host.inside("two", "ls", "/agents/pup") == "config\nkids\nstate\n"
    assert "restarts  one" in said


def test_whoami_shows_a_move_at_once(host: HiveHost) -> None:
    def identity(agent: str) -> dict[str, object]:
        document: dict[str, object] = json.loads(
            host.inside(agent, "cat", "/run/hive/identity.json")
        )
        return document

    assert identity("kid")["parent"] == "two"
    assert identity("two")["children"] == ["kid"]
    assert identity("one")["children"] == []
    assert [message["kind"] for message in host.mail("kid", wait=40)] == ["moved"]


def test_a_process_keeps_open_files_of_its_own_agent(host: HiveHost) -> None:
    host.inside("kid", "sh", "-c", "echo again >>/tree/state/file")
    assert host.inside("two", "cat", "/agents/kid/state/file") == "mine\nagain\n"


def test_an_agent_that_loses_access_is_restarted_with_its_remaining_subtree(host: HiveHost) -> None:
    """Nothing shows all that it may hold."""
    host.grow(boo={"boot": True}, sub={"parent": "boo", "command": HOLD})
    host.grow(sib={"parent": "boo", "command": HOLD})
    before = host.pids("boo", "sub", "sib", "two", "root")
    shown = host.call("Move", agent="sub", parent="two", dry_run=True)
    assert (shown["restarts"], shown["revoked"]) == (["boo", "sib"], None)
    reply = host.call("Move", agent="sub", parent="two", wait=50)
    assert reply["restarts"] == ["boo", "sib"]
    events = [event for event in host.events(limit=1000) if event["kind"] == "revoked"]
    assert events[-1]["fields"]["restarted"] == ["boo", "sib"]
    assert events[-1]["time"] == pytest.approx(reply["revoked"])
    host.wait("running", "boo", "sib")
    after = host.pids(*before)
    assert {name for name in before if before[name] != after[name]} == {"boo", "sib"}


def test_a_move_into_another_limit_group_restarts_the_moved_agents(host: HiveHost) -> None:
    """The slice of a running service cannot change: a move leaves it as it is."""
    host.grow(big={"command": HOLD, "subtree": {"memory_max": 1 << 30, "tasks_max": 500}})
    before = host.pids("kid", "pup", "two", "root")
    assert host.call("Move", agent="kid", parent="big", dry_run=True)["crossing"] == ["kid", "pup"]
    reply = host.call("Move", agent="kid", parent="big", wait=30)
    assert not reply.error, reply
    host.wait("running", "kid", "pup", "two")
    slice_ = f"hive-{host.uuid('big')[:8]}.slice"
    assert {host.show(name, "Slice") for name in ("big", "kid", "pup")} == {slice_}
    after = host.pids(*before)
    assert {name for name in before if before[name] != after[name]} == {"kid", "pup", "two"}
    limits = host.run("systemctl", "show", "-p", "TasksMax", "-p", "MemoryMax", slice_).stdout
    assert set(limits.split()) == {f"MemoryMax={1 << 30}", "TasksMax=500"}
