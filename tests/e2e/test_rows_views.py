"""What a container sees of files: rows H18 and H19."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from e2e.hivehost import HiveHost
from e2e.labhost import Lab

pytestmark = pytest.mark.lab

META = "/var/lib/hive/meta"


TREE = {
    "root": None, "lead": "root", "ann": "lead", "ben": "lead", "cid": "ann", "rival": "root",
    "island": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[HiveHost]:
    made = HiveHost(lab)
    made.setup()
    made.grow(lead={"role": "lead"}, rival={"role": "lead"}, island={"parent": ""})
    made.grow(ann={"parent": "lead", "role": "lead"}, ben={"parent": "lead", "role": "lead"})
    made.grow(cid={"parent": "ann", "role": "worker", "command": ["sleep", "7777"]})
    yield made
    made.close_connections()


def test_an_agent_sees_its_own_files_and_those_below(host: HiveHost) -> None:
    """H18: read-write below, nothing beside, above, or of the host."""
    subtrees = {
        "root": "ann ben cid lead rival root", "lead": "ann ben cid lead", "ann": "ann cid",
        "ben": "ben", "cid": "cid", "rival": "rival", "island": "island",
    }  # fmt: skip
    for agent, seen in subtrees.items():
        assert host.inside(agent, "ls", "/agents").split() == seen.split()
        write = f"for a in {seen}; do echo {agent} >/agents/$a/state/by-{agent}; done"
        host.inside(agent, "sh", "-ec", write)
    assert host.inside("cid", "sh", "-c", "cd /agents/cid/state; ls by-*").split() == [
        "by-ann", "by-cid", "by-lead", "by-root",
    ]  # fmt: skip
    assert host.inside("ben", "sh", "-c", "cd /agents/ben/state; ls by-*").split() == [
        "by-ben", "by-lead", "by-root",
    ]  # fmt: skip


def test_a_container_sees_nothing_else_of_the_host(host: HiveHost) -> None:
    """H18: neither hive's own files, nor other agents' sockets or nodes, by any name."""
    absent = (
        "/var/lib/hive/hive.db", "/var/lib/hive/tree", META, "/etc/hive/hive.toml", "/meta/.git",
        "/run/hive/operator.sock", "/run/hive/privd.sock", "/run/hive/agents", "/home",
        "/run/systemd/private", "/run/dbus/system_bus_socket", "/root/.ssh", "/tree/../../ben",
    )  # fmt: skip
    there = f"for path in {' '.join(absent)}; do ls -A $path 2>/dev/null && echo $path; done"
    assert host.shell("cid", "sh", "-c", f"{there}; true") == "/home\n"  # an empty one of its own
    attempts = (
        "touch /agents/x", "ln -s / /agents/x", "rm /agents/cid", "mkdir /tree/x",
        "rm -r /tree/kids", "mv /tree/state /tree/s", "touch /run/hive/x", "touch /usr/x",
        "rm /run/hive/broker.sock", "echo >/run/hive/identity.json", "mount --bind /tmp /mnt",
        "cat /agents/ann/state/note", "ls /agents/cid/../../../state/", "ls /tree/../lead",
    )  # fmt: skip
    tried = "\n".join(f"({attempt}) >/dev/null 2>&1 && echo '{attempt}'" for attempt in attempts)
    assert host.shell("cid", "sh", "-c", f"{tried}\ntrue") == ""
    host.shell("cid", "ln", "-sfn", "/tree/../../../../../../etc", "/agents/cid/state/link")
    assert "hive" not in host.shell("ann", "sh", "-c", "cat /agents/cid/state/link/passwd")
    host.shell("cid", "rm", "/agents/cid/state/link")


def test_every_agent_has_state_and_config_at_the_same_path(host: HiveHost) -> None:
    """H19: `/agents/<name>/state`, kept over a restart; the root agent's too."""
    for agent in TREE:
        result = f"echo kept >/agents/{agent}/state/kept; echo kept >/agents/{agent}/config/kept"
        host.inside(agent, "sh", "-c", result)
    for agent in ("cid", "root"):
        host.hive("restart", agent)
        said = host.inside(agent, "sh", "-c", f"cat /agents/{agent}/state/kept /tree/config/kept")
        assert said == "kept\nkept\n"
    host.close_connections("cid", "root")
    disk = host.run("find", "/var/lib/hive/tree", "-name", "kept", "-printf", "%u\n").stdout.split()
    assert set(disk) == {"2147352576"}  # of the storage range, never of a user of the host
