"""H18: `/meta` and `/applied` by capability, in a running container, for as long as it is held."""

from collections.abc import Iterator

import pytest
from e2e.hivehost import HiveHost
from e2e.labhost import Lab

pytestmark = pytest.mark.lab
HOLD = ["sleep", "1000"]


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[HiveHost]:
    hive_host = HiveHost(lab)
    hive_host.setup()
    hive_host.grow(ann={"command": HOLD}, boots={"boot": True})
    yield hive_host
    hive_host.close_connections()


def sees(host: HiveHost, agent: str, path: str) -> bool:
    return bool(host.inside(agent, "ls", "-A", path, check=False).strip())


def test_h18_meta_and_applied_come_and_go_with_their_capabilities(host: HiveHost) -> None:
    before = host.show("ann", "InvocationID")
    assert not sees(host, "ann", "/meta")
    host.hive("cap", "grant", "ann", "meta.read")
    host.hive("cap", "grant", "ann", "applied.read")
    host.until(lambda: sees(host, "ann", "/meta"), "/meta appears")
    host.until(lambda: sees(host, "ann", "/applied"), "/applied appears")
    assert '"ann"' in host.inside("ann", "cat", "/meta/topology.json")
    assert host.inside("ann", "git", "-C", "/meta", "log", "-1", "--format=%an") == "hive\n"
    head = host.inside("ann", "git", "-C", "/applied/ann", "log", "-1", "--format=%H", "main")
    assert len(head) == 41
    said = host.run("hive", "shell", "ann", "--", "touch", "/meta/x", check=False).stderr
    assert "Read-only file system" in said
    host.hive("cap", "revoke", "ann", "meta.read")
    host.until(lambda: not sees(host, "ann", "/meta"), "/meta is gone")
    host.until(lambda: sees(host, "ann", "/applied"), "/applied is still there")
    # Attack 59: who was inside of it, or had a file open, has neither any more.
    assert host.show("ann", "InvocationID") != before


def test_a_manually_removed_store_is_attached_again(host: HiveHost) -> None:
    host.hive("cap", "grant", "ann", "meta.read")
    host.until(lambda: sees(host, "ann", "/meta"), "/meta appears")
    host.run("umount", f"/run/hive/agents/{host.uuid('ann')}/meta")
    host.hive("converge")  # the next look, which would come within a minute, or has come already
    host.until(lambda: sees(host, "ann", "/meta"), "/meta comes back")


def test_a_daemon_restart_leaves_the_stores_attached(host: HiveHost) -> None:
    mounted = host.run("findmnt", "-rno", "ID,TARGET").stdout
    host.run("systemctl", "restart", "hived")
    host.wait("running", "ann")
    assert "ShowStore" not in " ".join(host.call("Converge", dry_run=True)["steps"])
    now = host.run("findmnt", "-rno", "ID,TARGET").stdout
    place = f"/run/hive/agents/{host.uuid('ann')}/meta"
    lines = [
        [line for line in text.splitlines() if line.endswith(place)] for text in (mounted, now)
    ]
    assert lines[0] == lines[1] != []


def test_an_agent_restart_attaches_the_stores_again(host: HiveHost) -> None:
    host.hive("restart", "ann")
    host.wait("running", "ann")
    host.until(lambda: sees(host, "ann", "/meta"), "/meta appears")


def test_an_agent_with_mount_rights_loses_the_store_by_a_restart(host: HiveHost) -> None:
    """A copy that it made of the mount would stay."""
    host.hive("cap", "grant", "boots", "meta.read")
    host.until(lambda: sees(host, "boots", "/meta"), "/meta appears")
    host.inside(
        "boots", "systemd-run", "--quiet", "--wait", "mount", "--bind", "/meta", "/mnt", check=False
    )
    before = host.show("boots", "InvocationID")
    host.hive("cap", "revoke", "boots", "meta.read")
    host.until(lambda: host.show("boots", "InvocationID") not in ("", before), "starts afresh")
    host.wait("running", "boots")
    assert not sees(host, "boots", "/meta")
