"""The same on systemd 257 and Python 3.13, which differ in what they refuse and leave behind."""

from collections.abc import Iterator

import pytest
from e2e.attackers import as_hive
from e2e.labhost import Lab, trixie_tree
from e2e.privdhost import PrivdHost

from hive_core.plan.actions import MakeNode, MoveNode, ShowStore

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def host() -> Iterator[PrivdHost]:
    with Lab("newer", lower=trixie_tree()) as lab, PrivdHost(lab) as made:
        yield made


@pytest.mark.parametrize("boot", [False, True])
def test_an_agent_starts_stops_and_survives_a_killed_nspawn(host: PrivdHost, *, boot: bool) -> None:
    agent = host.running(boot=boot, command=())
    if boot:
        assert host.enter(agent, "systemctl", "is-system-running") == "running"
        assert host.enter(agent, "systemctl", "--failed", "--no-legend") == ""
    host.lab.run(["sh", "-c", f"kill -KILL {host.show(agent.unit, 'MainPID')}"])
    assert host.exit_of(agent)["status"] == "KILL"
    host.launch(agent)
    assert host.stop(agent)["result"] == "success"


def test_moves_are_live(host: PrivdHost) -> None:
    loser, winner = host.running(), host.running()
    child = host.agent(loser)
    host.do(MakeNode(child.lineage))
    short = child.lineage[-1]
    host.do(MoveNode(child.lineage, (*winner.lineage, short)))
    assert host.say(winner, f"ls /tree/kids/{short}") == "config\nkids\nstate"
    assert host.say(loser, "ls /tree/kids") == ""


def test_an_agent_without_mount_rights_gains_none(host: PrivdHost) -> None:
    agent = host.running()
    for place in ("/usr", "/agents", "/run/hive"):
        said = host.say(agent, f"mount -o remount,bind,rw {place} && echo DONE", check=False)
        assert "DONE" not in said
    assert "DONE" not in host.say(agent, "mount -t tmpfs none /tmp && echo DONE", check=False)


@pytest.mark.parametrize("boot", [False, True])
def test_a_store_is_attached_and_detached_live(host: PrivdHost, *, boot: bool) -> None:
    agent = host.running(boot=boot, command=())
    as_hive(host, "umask 027; mkdir -p /var/lib/hive/meta; echo '{}' >/var/lib/hive/meta/x")
    host.do(ShowStore(agent.uuid, "meta", agent.base, shown=True))
    assert host.enter(agent, "cat", "/meta/x") == "{}"
    remount = "mount -o remount,bind,rw /meta; touch /meta/y"
    host.enter(agent, "sh", "-c", remount)
    assert not host.lab.path("/var/lib/hive/meta/y").exists()
    host.do(ShowStore(agent.uuid, "meta", agent.base, shown=False))
    assert host.enter(agent, "ls", "-A", "/meta") == ""
