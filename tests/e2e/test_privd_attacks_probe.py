"""The probe of `tests/probe`, run end to end as root of agents, and of a peer that must not hold.

What lies outside is real: files, sockets, a process, shared memory, a queue and a key of the host,
files of a sibling and of an ancestor. A probe that finds nothing anywhere would prove nothing, so
it is pointed at a container without a user namespace too (check L1 of the security page).
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from e2e.privdhost import Agent, PrivdHost, SharedPrivdHost
from e2e.probe_targets import PROBE, WORD, canaries, escapes, options

from hive_core.plan.actions import STORAGE_BASE

pytestmark = pytest.mark.lab

ABOVE = "a-word-of-an-ancestor"
# What a container has that keeps nothing but its own mounts: root is root of the host.
PLAIN = """
mkdir -p /srv/plain/etc /srv/plain/usr /srv/plain/tmp /srv/ro /srv/rw
echo '{}' >/srv/ro/topology.json; cp /etc/os-release /srv/plain/etc
for name in bin sbin lib lib64; do ln -s usr/$name /srv/plain/$name; done
"""
NSPAWN = ["systemd-run", "--quiet", "--wait", "--pipe", "systemd-nspawn", "--quiet",
          "--settings=no", "--register=no", "--keep-unit", "--directory=/srv/plain",
          "--bind-ro=/usr", "--bind-ro=/srv/ro:/applied", "--bind=/srv/rw:/tree",
          "--as-pid2", "/usr/bin/python3", "-I"]  # fmt: skip


@dataclass
class ProbeTargets:
    host: PrivdHost
    pid: int
    agents: dict[str, Agent]
    child: Agent

    def options(self, *more: str) -> list[str]:
        return options(self.pid, "--leave", *more)


@pytest.fixture(scope="module")
def scene(shared_privd: SharedPrivdHost) -> Iterator[ProbeTargets]:
    host = shared_privd.prepare()
    with canaries(host.lab) as pid:
        agents = {"plain": host.running(), "booted": host.running(boot=True, command=())}
        for agent in (*agents.values(), sibling := host.running()):
            word = WORD if agent is sibling else ABOVE
            host.lab.path(agent.node / "state/mine").write_text(word)
        yield ProbeTargets(host, pid, agents, host.running(agents["plain"]))


def probe(scene: ProbeTargets, agent: Agent, *options: str) -> dict[str, dict[str, Any]]:
    """Run the probe as root of an agent, confined as the agent's own services are."""
    state = scene.host.lab.path(agent.node / "state")
    (state / "probe.py").write_bytes(scene.host.lab.path(PROBE).read_bytes())
    os.chown(state / "probe.py", STORAGE_BASE, STORAGE_BASE)
    words = ["python3", "-I", "probe.py", *scene.options(*options)]
    if agent.boot:
        run = ["systemd-run", "--quiet", "--wait", "--pipe", "--working-directory=/tree/state"]
        text = scene.host.enter(agent, *run, *words)
    else:
        text = scene.host.say(agent, " ".join(words), check=False)
    rows = json.loads(text)["attempts"]
    return {row["name"]: row for row in rows}


@pytest.mark.parametrize("kind", ["plain", "booted"])
def test_nothing_leads_out_of_a_container(scene: ProbeTargets, kind: str) -> None:
    """Attacks 1, 2, 6, 7, 8, 10 and 11, as root of a parent whose child is mounted."""
    agent = scene.agents[kind]
    places = ["/tree", "/tree/kids"]
    if kind == "plain":
        places += [f"/tree/kids/{scene.child.lineage[-1]}{below}" for below in ("", "/kids")]
    before = scene.host.lab.run(["sh", "-c", "hostname; cat /proc/sys/kernel/core_pattern"]).stdout
    rows = probe(scene, agent, *(f"--structure={place}" for place in places))
    assert escapes(rows) == {}
    assert rows["setuid_inside"]["outcome"] == "held"
    # Everything was tried: a canary that is not there, or a broken attempt, would prove nothing.
    unused = [name for name, row in rows.items() if row["outcome"] == "not applicable"]
    assert unused == [], rows
    left = scene.host.lab.path(agent.node / "state/hive-probe-planted-setuid").stat()
    assert stat.S_ISREG(left.st_mode)
    assert left.st_uid == left.st_gid == STORAGE_BASE
    mine = agent.node / "state/hive-probe-planted-setuid"
    assert {path for path in planted_files(scene.host) if "mounts" not in path.parts} == {
        mine.relative_to("/")
    }
    after = scene.host.lab.run(["sh", "-c", "hostname; cat /proc/sys/kernel/core_pattern"]).stdout
    assert after == before
    scene.host.lab.path(agent.node / "state/hive-probe-planted-setuid").unlink()


def test_a_child_reads_nothing_of_its_ancestors(scene: ProbeTargets) -> None:
    """Attack 10: nor does it change where it hangs."""
    rows = probe(scene, scene.child, f"--word={ABOVE[::-1]}", "--structure=/tree")
    assert escapes(rows) == {}
    scene.host.lab.path(scene.child.node / "state/hive-probe-planted-setuid").unlink()


def test_the_probe_escapes_where_root_is_root_of_the_host(scene: ProbeTargets) -> None:
    """Attack 1, check L1: a read-only mount is no boundary without a user namespace."""
    lab = scene.host.lab
    lab.run(["sh", "-ec", PLAIN])
    command = [*NSPAWN, PROBE, *scene.options("--shared=/tree")]
    done = lab.run(command, check=False)
    rows = {row["name"]: row for row in json.loads(done.stdout)["attempts"]}
    result = escapes(rows)
    assert "/applied by_remount" in result["remount"]
    assert {"device_nodes", "setuid_on_shared", "kernel_knobs", "host_network"} <= result.keys()
    left = lab.path("/srv/rw/hive-probe-planted-setuid").stat()
    assert (left.st_uid, left.st_mode & stat.S_ISUID) == (0, stat.S_ISUID)


def planted_files(host: PrivdHost) -> set[Path]:
    """Files of the probe on the host: in its memory, and in the layer of what was changed on disk.

    The whole disk is the machine's own and takes a minute to look through.
    """
    assert host.lab._disk is not None
    layers = sorted(Path(f"/proc/{host.lab._disk.pid}/root/media").glob("*/up"))
    assert layers
    memory = [host.lab.path(place) for place in ("/run", "/dev", "/var/lib/hive")]
    find = ["find", *map(str, (*layers, *memory)), "-name", "hive-probe-planted*"]
    stdout = subprocess.run(find, capture_output=True, text=True, check=False).stdout
    return {Path(line.partition("/root/")[2]) for line in stdout.splitlines()}
