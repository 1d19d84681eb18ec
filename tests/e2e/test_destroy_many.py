"""Destroying many subtrees at once raises no alarm: what ends meanwhile is what was wanted."""

from __future__ import annotations

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from long import times

pytestmark = [pytest.mark.lab("slow"), pytest.mark.sized]

SUBTREES = times(4, 30)
KIDS = 2


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    return shared_host.prepare("models")


def failures(host: HiveHost) -> list[str]:
    """What hived has said of steps that failed."""
    log = host.run("journalctl", "-u", "hived", "--output=cat").stdout
    return [line for line in log.splitlines() if line.startswith("Cannot reconcile agent")]


def test_destroying_many_subtrees_raises_no_alarm(host: HiveHost) -> None:
    tops = [f"top-{number}" for number in range(SUBTREES)]
    kids = {f"{top}-kid-{number}": top for top in tops for number in range(KIDS)}
    for name, parent in {**dict.fromkeys(tops, "root"), **kids}.items():
        reply = host.call("Spawn", name=name, parent=parent, role="lead")
        assert not reply.error, reply
    host.wait("running", *tops, *kids, seconds=120)
    alarms, before = set[str](), failures(host)
    jobs = [host.call("Destroy", agent=top, recursive=True)["job"] for top in tops]
    for job in jobs:
        while host.call("WaitJob", id=job, wait=0.2)["state"] == "running":
            alarms |= set(host.call("Status")["alarms"])
    alarms |= set(host.call("Status")["alarms"])
    assert alarms == set()
    assert failures(host) == before
