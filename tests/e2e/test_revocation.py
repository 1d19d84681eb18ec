"""Attack 58: whatever an old ancestor made ready before a move, it gives it no byte afterwards.

Each attacker is a program that runs in the container of an agent, as the agent's own: asked to, it
writes down what it can read at that moment. The moved agent writes through a descriptor that it has
had open since before the move.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, Final

import pytest
from e2e.hivehost import HiveHost
from e2e.revocation_tree import HANDS, HOLDS, LISTENS, NOTES, Tree
from e2e.shared_hosts import STARTS, SharedHost
from long import figure, seed, times

pytestmark = pytest.mark.lab("slow")


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    return shared_host.prepare("config", STARTS)


@pytest.fixture
def tree(host: HiveHost) -> Tree:
    result = Tree(host)
    result.reset()
    return result


def test_attack_58_no_open_handle_outlives_a_move(tree: Tree) -> None:
    """A descriptor, one in flight, a mapping whose first thread is dead, a directory, hard links.

    Who moves keeps all of it, without a restart; whom it moves away from does not.
    """
    host = tree.host
    for name, program in HOLDS.items():
        tree.run("one", name, program)
    tree.run("stay", "sibling", "NOTES and hold(os.open('ready-sibling', os.O_CREAT))")
    for taker in ("stay", "pup"):
        hand_on_notes(tree, taker)
    link_notes(host)
    before = host.pids("root", "two", "kid", "pup", "one", "stay")
    said = host.hive("move", "kid", "--parent", "two")
    tree.write()
    assert tree.read("two", NOTES) == "aftere"
    leaks = {name: tree.leak("one", name).rstrip("\0") for name in HOLDS}
    assert leaks == dict.fromkeys(HOLDS, "")
    assert tree.leak("stay", "taker-stay") == ""
    assert tree.leak("pup", "taker-pup").startswith("after")
    assert "restarts  one, stay" in said
    after = host.pids(*before)
    assert {name for name in before if before[name] != after[name]} == {"one", "stay"}
    assert not tree.runs("sibling")
    assert_links_are_split(tree)


def hand_on_notes(tree: Tree, taker: str) -> None:
    """`one` passes a descriptor of the notes to an agent below it."""
    tree.run(taker, f"taker-{taker}", LISTENS)
    tree.begin("one", f"giver-{taker}", HANDS.replace("{to}", taker))
    tree.host.until(lambda: tree.has("one", f"ready-giver-{taker}"), "nothing is handed on")
    tree.host.until(lambda: tree.has(taker, f"got-taker-{taker}"), "nothing was taken")


def link_notes(host: HiveHost) -> None:
    """`one` links them for itself, for one that stays, and for one that moves along."""
    host.inside("one", "ln", NOTES, "/tree/state/kept")
    host.inside("one", "ln", "/tree/state/kept", "/agents/stay/state/kept")
    host.inside("one", "ln", NOTES, "/agents/pup/state/notes")


def assert_links_are_split(tree: Tree) -> None:
    """Those who stay have the old text, in one file, and those who move the new one, in another."""
    host = tree.host
    assert tree.read("one", "/tree/state/kept") == "before"
    assert tree.read("stay", "/tree/state/kept") == "before"
    host.inside("one", "sh", "-c", "echo changed >/tree/state/kept")
    assert tree.read("stay", "/tree/state/kept") == "changed"  # names of one file, as before
    assert tree.read("kid", "/tree/state/notes") == "aftere"
    assert tree.read("pup", "/tree/state/notes") == "aftere"
    assert host.inside("two", "stat", "-c", "%h", NOTES) == "2\n"


def test_attack_58_a_bind_mount_of_a_booted_agent_is_removed(tree: Tree) -> None:
    host = tree.host
    host.grow(boo={"boot": True})
    host.call("Move", agent="kid", parent="boo", wait=40)
    mount = "mkdir -p /mnt; mount --bind /agents/kid/state /mnt"
    host.inside("boo", "sh", "-ec", mount)
    assert host.inside("boo", "cat", "/mnt/notes").startswith("before")
    host.hive("move", "kid", "--parent", "two")
    tree.write()
    host.wait("running", "boo")
    assert host.inside("boo", "sh", "-c", "ls /agents; ls /mnt 2>/dev/null", check=False) == "boo\n"


def test_attack_58_a_restored_agent_regains_no_access(tree: Tree) -> None:
    """Its children were adopted: what it had linked of them is its own copy now."""
    host = tree.host
    host.inside("one", "ln", NOTES, "/tree/state/kept")
    one, before = host.uuid("one"), host.pids("kid", "stay", "pup")
    host.hive("destroy", "one", "--yes")
    assert host.pids("kid", "stay", "pup") == before
    host.hive("restore", one)
    tree.write()
    assert tree.read("one", "/tree/state/kept") == "before"
    assert host.tree()["kid"] == "root"


def test_attack_58_an_agent_restored_elsewhere_is_closed_to_its_old_ancestors(tree: Tree) -> None:
    """Its parent is gone, so it comes under the root agent; its former ancestors lose it."""
    host = tree.host
    host.call("Move", agent="stay", parent="two", wait=40)
    host.call("Move", agent="kid", parent="stay", wait=40)
    host.wait("running", "one", "stay", "two", "kid")
    host.inside("two", "ln", NOTES, "/tree/state/kept")
    tree.run("two", "holds", HOLDS["descriptor"])
    kid, pup = host.uuid("kid"), host.pids("pup")
    host.hive("destroy", "kid", "--yes")
    host.hive("destroy", "stay", "--yes")
    before = host.pids("one", "root", "pup")
    assert before["pup"] == pup["pup"]
    reply = host.call("Restore", id=kid, wait=50)
    host.wait("running", "kid")
    host.inside(
        "kid", "sh", "-c", "printf after | dd of=/tree/state/notes conv=notrunc status=none"
    )
    read = tree.read("two", "/tree/state/kept"), tree.leak("two", "holds").rstrip("\0")
    assert read == ("before", "")
    assert (reply["parent"], reply["restarts"]) == ("root", ["two", "pup"])
    after = host.pids(*before)
    assert {name for name in before if before[name] != after[name]} == {"pup"}


def test_without_restarts_the_operator_sees_which_agents_may_hold_handles(tree: Tree) -> None:
    host = tree.host
    tree.run("one", "holds", HOLDS["descriptor"])
    assert host.ask("root", "Move", agent="kid", parent="two", no_restart=True).error
    before = host.pids("one", "stay")
    said = host.hive("move", "kid", "--parent", "two", "--no-restart")
    assert "may hold  one, stay" in said
    assert host.pids("one", "stay") == before
    tree.write()
    assert tree.leak("one", "holds").startswith("after")  # as the operator wanted
    result = "may still hold files of kid, and were not restarted: "
    assert f"{result}one, stay" in host.hive("status")
    host.hive("restart", "one")
    assert f"{result}stay" in host.hive("status")
    host.hive("restart", "stay")
    host.until(lambda: result not in host.hive("status"), "is still told")
    (event,) = [event for event in host.events(limit=1000) if event["kind"] == "revocation_left"]
    assert event["fields"]["left"] == ["one", "stay"]


def test_a_restart_for_revocation_repeats_tasks_without_a_new_attempt(tree: Tree) -> None:
    host = tree.host
    host.grow(busy={"parent": "one", "role": "worker", "command": SERVES})
    task = host.call("AssignTask", agent="busy", description="go")["task"]

    def state() -> dict[str, Any]:
        result: dict[str, Any] = host.call("GetTask", task=task)["task"]
        return result

    host.until(lambda: tree.has("busy", "began"), "does not begin")
    host.inside("busy", "rm", "/tree/state/began")
    host.hive("move", "kid", "--parent", "two")
    host.until(lambda: tree.has("busy", "began"), "does not begin again", 60)
    assert state()["attempt"] == 1, state()
    host.inside("busy", "touch", "/tree/state/go-on")
    host.until(lambda: state()["state"] == "done", "does not end", 60)
    assert state()["result"]["status"] == "success", state()


SERVES = [
    "hive-agent", "serve", "--",
    "sh", "-c", "touch began; until [ -e go-on ]; do sleep 0.1; done; echo done",
]  # fmt: skip


def test_restarts_when_idle_let_tasks_finish(tree: Tree) -> None:
    host = tree.host
    host.grow(busy={"parent": "one", "role": "worker", "command": SERVES})
    task = host.call("AssignTask", agent="busy", description="go")["task"]
    host.until(lambda: tree.has("busy", "began"), "does not begin")
    before = host.pids("one", "busy", "stay")
    moving = host.call("Move", agent="kid", parent="two", when_idle=600)
    assert host.inside("two", "ls", "/agents") == "kid\npup\ntwo\n"  # that is at once
    assert host.pids(*before) == before
    host.inside("busy", "touch", "/tree/state/go-on")
    tree.ends(moving["job"], "they are idle")
    assert host.call("GetTask", task=task)["task"]["result"]["status"] == "success"
    host.wait("running", *before)
    after = host.pids(*before)
    assert all(before[name] != after[name] for name in before)


MOMENTS: Final = ("told", "a loser ends", "the job runs", "a loser starts")


@pytest.mark.sized
def test_attack_58_a_kill_at_any_step_leaves_no_access(tree: Tree) -> None:
    """Either daemon is killed at some of the moments."""
    host = tree.host
    drawn = Random(start := seed())  # noqa: S311 - a schedule, no secret
    kills = [
        (daemon, moment)
        for daemon in ("hived", "hive-privd")
        for moment in drawn.sample(MOMENTS, times(1, len(MOMENTS)))
    ]
    for number, (daemon, moment) in enumerate(kills):
        if number:
            host.call("Move", agent="kid", parent="one", wait=40)
            host.wait("running", "two")
        host.inside("one", "ln", "-f", NOTES, "/tree/state/kept")
        tree.run("one", f"holds{number}", HOLDS["descriptor"])
        kid = host.main_pid("kid")
        job = begin_move_and_kill(host, daemon, moment)
        tree.ends(job, f"a kill of {daemon} when {moment} (--seed {start})")
        assert host.call("GetJob", id=job)["error"] == "", (daemon, moment)
        host.wait("running", "one", "stay")
        assert host.main_pid("kid") == kid
        assert not tree.runs(f"holds{number}"), (daemon, moment)
        links = host.inside("one", "stat", "-c", "%h", "/tree/state/kept")
        assert links == "1\n", (daemon, moment)


def begin_move_and_kill(host: HiveHost, daemon: str, moment: str) -> str:
    """The job of the move of `kid` to `two`, at a moment of which a daemon is killed."""
    before = host.show("one", "MainPID")
    jobs = ("systemctl", "list-units", "--no-legend", "hive-job@*")
    has_come: dict[str, Callable[[], bool]] = {
        "told": lambda: True,
        "a loser ends": lambda: host.show("stay", "ActiveState") != "active",
        "the job runs": lambda: bool(host.run(*jobs).stdout),
        "a loser starts": lambda: host.show("one", "MainPID") not in ("0", before),
    }
    assert has_come.keys() == set(MOMENTS)
    job = str(host.call("Move", agent="kid", parent="two")["job"])
    with suppress(AssertionError):  # it may have been quicker than whoever looks
        host.until(has_come[moment], moment, 5)
    host.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", f"{daemon}.service")
    host.close_connections()
    host.answers()
    return job


@pytest.mark.sized
def test_attack_58_many_hard_links_are_split_despite_a_killed_job(tree: Tree) -> None:
    host, count = tree.host, times(4000, 100_000)
    make = f"mkdir many; cd many; seq {count} | while read n; do echo $n >$n; done"
    host.inside("kid", "sh", "-c", f"cd /tree/state; {make}")
    host.inside("one", "cp", "-al", "/agents/kid/state/many", "/tree/state/")
    job = host.call("Move", agent="kid", parent="two")["job"]
    shared = "find /var/lib/hive/tree -path '*/state/many/*' -type f -links +1 | wc -l"

    def files_left() -> int:
        return int(host.run("sh", "-c", shared, timeout=300).stdout)

    host.until(lambda: files_left() < 2 * count, "the job does not begin", 60)
    host.run("sh", "-c", "systemctl kill --signal=KILL 'hive-job@*'", check=False)
    before = files_left()
    tree.ends(job, "its job was killed", 300)
    assert host.call("GetJob", id=job)["error"] == ""
    assert files_left() == 0
    host.wait("running", "one")
    assert host.inside("one", "cat", f"/tree/state/many/{count}") == f"{count}\n"
    figure("links split", files=count, left_at_the_kill=before)
