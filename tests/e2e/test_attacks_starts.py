"""Attack 60: neither the name of a program nor a start that never ends delays other agents."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from functools import partial

import pytest
from e2e.hivehost import HiveHost
from e2e.privdhost import _PLAIN as PREPARE_TREE
from e2e.shared_hosts import STARTS, STARTS_AT_ONCE, SharedHost
from long import at_most, figure, times

from hive_core.model.agents.machine import State

pytestmark = pytest.mark.lab("slow")

TREE: dict[str, str | None] = {"root": None, "lead": "root", "ann": "root"}
PATIENCE = 4  # seconds until a start that does not come up is given up
# An init that never tells systemd that it is up.
NEVER_UP = r"printf '#!/bin/sh\nsleep 1000000\n' >/srv/tree/usr/init; chmod 755 /srv/tree/usr/init"
NEVER_UP += "; mkdir -p /srv/tree/sbin; ln -sf ../usr/init /srv/tree/sbin/init"
NEVER_UP += "; cp /usr/lib/os-release /srv/tree/usr/lib"  # else systemd-nspawn refuses the tree
STUCK = {"parent": "lead", "role": "daemon", "image": "/srv/tree", "boot": True}


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("config", STARTS)
    made.lab.run(["bash", "-ec", f"{PREPARE_TREE}\n{NEVER_UP}"])
    made.grow(lead={"role": "lead", "max_children": 64})
    made.grow(ann="root")
    return made


@pytest.fixture
def tidy(host: HiveHost) -> Iterator[None]:
    """Not for the last test: many stuck agents go with the lab sooner than one by one."""
    yield
    host.prune(TREE)


def spawn_stuck(host: HiveHost, *names: str) -> None:
    """Have agents that start and never come up."""
    words = ("--image", "/srv/tree", "--boot", "--role", "daemon", "--parent", "lead", "--no-wait")
    host.hive("agent", "create", names[0], *words)  # enters the tree in the table of images
    for name in names[1:]:
        reply = host.call("Spawn", name=name, **STUCK)
        assert not reply.error, reply


def states(host: HiveHost) -> dict[str, str]:
    return {row["name"]: row["state"] for row in host.call("ListAgents")["agents"]}


@pytest.mark.usefixtures("tidy")
def test_attack_60_the_name_of_a_program_says_nothing_about_its_start(host: HiveHost) -> None:
    """One more of each than may start at once in a branch; then a stranger still restarts."""
    workers = list[str]()
    for program in ("hive-start", r"\377", "systemd-nspawn"):
        script = f"cp /usr/bin/sleep \"/tmp/$(printf '{program}')\"; exec /tmp/* 1000000"
        for _ in range(STARTS_AT_ONCE // 2 + 1):
            workers.append(f"worker-{len(workers)}")
            command = ["sh", "-c", script]
            assert not host.call("Spawn", name=workers[-1], parent="lead", command=command).error
    host.wait("running", *workers, "ann")
    assert not host.call("Restart", agent="ann", wait=50).error
    host.wait("running", "ann")


@pytest.mark.sized
@pytest.mark.usefixtures("tidy")
def test_attack_60_bounds_hold_before_the_first_instruction(host: HiveHost) -> None:
    """A command that asks for its bounds as the first thing it does finds them set."""
    command = ["cat", "/proc/sys/user/max_inotify_instances", "/proc/sys/user/max_user_namespaces"]

    def has_bounds(agent: str) -> bool:  # the journal takes what a container said when it is gone
        lines = host.call("GetLogs", agent=agent)["lines"]
        return [line["text"] for line in lines][-2:] == ["100", "512"]

    for number in range(times(3, 20)):
        name = f"early-{number}"
        host.call("Spawn", name=name, parent="lead", role="worker", command=command)
        host.wait(State.STOPPED, name)
        host.until(partial(has_bounds, name), "the bounds are not in the journal")


@pytest.mark.usefixtures("tidy")
def test_attack_60_a_start_that_does_not_come_up_is_a_failure(host: HiveHost) -> None:
    """The parent is notified; the start is tried again after a pause, then parked."""
    host.settings(STARTS.replace("start = 3600", f"start = {PATIENCE}"))
    host.restart()
    host.wait("running", *TREE)
    host.mail("lead")
    spawn_stuck(host, "never")
    host.wait(State.PARKED, "never", seconds=120)
    bodies = [
        message["body"] for message in host.mail("lead") if message["kind"] == "container_crash"
    ]
    assert len(bodies) == 2
    assert all(body.startswith("never did not come up in time; ") for body in bodies)
    assert "parked after 2 failures" in bodies[-1]
    alarms = host.json("status")["alarms"]
    assert any(alarm.startswith("never is parked: did not come up in time") for alarm in alarms)


@pytest.mark.sized
def test_attack_60_a_stranger_restarts_beside_many_stuck_starts(host: HiveHost) -> None:
    """One branch has half of the slots at most: at most twice the quiet time, in the same run.

    Without that a stranger would wait for an hour.
    """
    host.settings(STARTS)
    host.restart()
    host.wait("running", *TREE)

    def restarts() -> list[float]:
        took = []
        for _ in range(times(1, 7)):
            began = time.monotonic()
            assert not host.call("Restart", agent="ann", wait=50).error
            host.wait("running", "ann")
            took.append(time.monotonic() - began)
        return took

    quiet = statistics.median(restarts())
    names = [f"stuck-{number}" for number in range(times(12, 50))]
    spawn_stuck(host, *names)

    def starts_under_way() -> int:
        shown = host.run("systemctl", "list-units", "--state=activating", "--plain", "--no-legend",
                         "hive-agent@stuck-*").stdout  # fmt: skip
        return len(shown.splitlines())

    host.until(
        lambda: starts_under_way() == STARTS_AT_ONCE // 2, "half of the slots are not in use", 60
    )
    beside = statistics.median(restarts())
    assert starts_under_way() == STARTS_AT_ONCE // 2
    assert {states(host)[name] for name in names} == {State.STARTING}
    figure("attack 60", quiet=round(quiet, 3), beside_stuck_starts=round(beside, 3))
    assert beside <= at_most(2 * quiet)
