"""Killed under load and switched off: nothing that was acknowledged is lost, nor any container."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

import long
import pytest
from chaos import campaign
from chaos.campaign import CLIENTS, ClientCrowd, Killer
from chaos.oracle import Evidence, lines, verdict, verify_tampered_logs
from e2e.hivehost import HiveHost
from e2e.labhost import Lab
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab("slow")

UNITS = ("hived", "hive-privd")
# The long form has each alone, too: what is down half of the time hides what the other does.
VICTIMS = [*((unit,) for unit in UNITS if long.asked.chosen), UNITS]
KILLS = long.times(2, 100)
WAITING = long.times(300, 100_000)  # messages in the ledger, which a start reads and checks
PACE = 0.03 if long.asked.chosen else 0.15  # seconds between two calls of one client
READY = long.at_most(2)  # seconds from a kill to the first answer


def kill_units(
    host: HiveHost, seed: int, victims: tuple[str, ...]
) -> tuple[ClientCrowd, list[Killer]]:
    """A crowd of clients, and these units killed so often."""
    killers = [Killer(host, unit, seed, KILLS, between=0.7) for unit in victims]
    threads = [threading.Thread(target=killer.run) for killer in killers]
    with campaign.crowd(host, seed, pace=PACE) as crowd:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return crowd, killers


@pytest.mark.sized
@pytest.mark.parametrize("victims", VICTIMS, ids="+".join)
def test_random_kills_lose_or_repeat_nothing_acknowledged(
    tmp_path: Path, victims: tuple[str, ...]
) -> None:
    """Rows R1 and R24, under sends, acks, nacks, keyed calls, children that come, stop, start,
    move and go, lists and waits. Each kind of damage to the audit log is seen in a copy."""
    seed = long.seed()
    with Lab() as lab:
        host = HiveHost(lab)
        answer = campaign.make(host, WAITING)
        before = campaign.leaders(host)
        crowd, killers = kill_units(host, seed, victims)
        crowd.keep()
        host.until(lambda: not host.json("converge", "--dry-run")["steps"], "left to do", 60)
        assert campaign.leaders(host) == before
        # An alarm of a look that a kill came into the way of goes with the next look.
        host.until(lambda: not host.call("Status")["alarms"], "alarms that stay", 60)
        # None of them ended for another reason. Struck twice, one that is dying still dies once.
        ends, struck = campaign.ends(host), {killer.unit: len(killer.at) for killer in killers}
        assert {how for _, how in ends} == {"status=9/KILL"}
        assert all(count <= struck[unit] for unit, count in Counter(u for u, _ in ends).items())
        host.run("systemctl", "stop", "hived.service")
        evidence = Evidence(campaign.copy_state(host, tmp_path), [*answer, *crowd.rows])
    for killer in killers:
        ready = campaign.quantiles(killer.ready)
        long.figure(
            f"kill {killer.unit}", beside="+".join(victims), kills=len(killer.at), seed=seed,
            waiting=WAITING, ready=ready, clients=CLIENTS,
            silence=campaign.quantiles(campaign.silences(crowd.rows, killer.at)),
            heard=Counter(row["what"] for row in crowd.rows),
        )  # fmt: skip
    result = verdict(evidence)
    assert not result, f"--seed {seed}\n{lines(result)}"
    assert None not in verify_tampered_logs(tmp_path, seed).values(), f"--seed {seed}"
    for killer in killers:
        assert campaign.quantiles(killer.ready)["p99"] < READY, f"--seed {seed}: {killer.ready}"


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("work")
    made.grow(ann="root", ben="root")
    made.grow(cid="ann")
    return made


def test_requests_during_a_daemon_start_are_carried_out(host: HiveHost) -> None:
    """The sockets are kept, so orders wait in them; that of root is the first to open again."""
    assert not host.follow("root", "Whoami", 1)[0].error  # each on a connection of its own
    before = host.main_pid("cid")
    host.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "hived.service")
    (reply,) = host.follow("root", "Restart", 1, agent="cid", wait=20)
    assert not reply.error, reply
    assert host.main_pid("cid") not in {0, before}


@pytest.mark.sized
@pytest.mark.parametrize("power_cut", [False, True][: long.times(1, 2)])
def test_a_host_boot_starts_exactly_the_wanted_agents(host: HiveHost, *, power_cut: bool) -> None:
    """A reboot and a pulled plug: wishes, mail, files and the tree are as they were.

    K11: one that does not end by itself holds up the whole for 15 s at most.
    """
    name = f"new-{int(power_cut)}"
    ox = ["sh", "-c", "trap '' TERM INT HUP; while :; do sleep 0.2; done"]
    host.grow(**{name: "cid"}, stopped="root", ox={"parent": "root", "command": ox})
    host.call("Spawn", name="ended", parent="root", command=["sh", "-c", "exit 0"])
    host.call("Spawn", name="broken", parent="root", command=["sh", "-c", "exit 3"])
    host.wait("stopped", "ended")
    host.wait("failed", "broken")
    host.call("Stop", agent="stopped", wait=20)
    host.inside(name, "sh", "-c", "echo kept >/tree/state/file; sync")
    sent = host.ask("cid", "Send", to=name, body=f"before {power_cut}")["id"]
    tree = host.tree()
    host.close_connections()
    began = time.monotonic()
    host.lab.reboot(power_cut=power_cut)
    assert time.monotonic() - began < long.at_most(15 + 5)  # and a boot
    host.answers(30)
    running = [agent for agent in tree if agent not in {"stopped", "ended", "broken"}]
    host.wait("running", *running)
    assert host.tree() == tree
    assert {host.call("Locate", agent=agent)["state"] for agent in ("stopped", "ended")} == {
        "stopped"
    }
    units = host.run("systemctl", "list-units", "--plain", "--no-legend", "hive-agent@*").stdout
    result = {line.split()[0] for line in units.splitlines() if " active " in line}
    assert result == {f"hive-agent@{agent}.service" for agent in running}
    assert host.inside(name, "cat", f"/agents/{name}/state/file") == "kept\n"
    assert host.inside("ann", "cat", f"/agents/{name}/state/file") == "kept\n"
    assert sent in {message["id"] for message in host.mail(name)}
    assert host.call("Status")["alarms"] == []
    host.close_connections()
    for agent in ("stopped", "ended", "broken", "ox"):
        host.call("Destroy", agent=agent, wait=20)
