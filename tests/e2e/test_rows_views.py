"""What a container sees of files, its prompt and its tools: H18-H20, K37, Q9, Q10, T10."""

from __future__ import annotations

import hashlib
import json

import pytest
from e2e.family_tree import TREE, make_family_host
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab

META = "/var/lib/hive/meta"
HOLD = ["hive-agent", "hold"]
OWN_PROMPT = "/etc/hive/prompts/roles/worker.md"


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    return make_family_host(shared_host)


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


@pytest.fixture(scope="module")
def stored(host: HiveHost) -> HiveHost:
    """With agents that may be given `/meta` and `/applied`, in running containers."""
    host.grow(holder={"command": ["sleep", "1000"]}, boots={"boot": True})
    return host


def sees(host: HiveHost, agent: str, path: str) -> bool:
    return bool(host.inside(agent, "ls", "-A", path, check=False).strip())


def test_h18_meta_and_applied_come_and_go_with_their_capabilities(stored: HiveHost) -> None:
    before = stored.show("holder", "InvocationID")
    assert not sees(stored, "holder", "/meta")
    stored.hive("cap", "grant", "holder", "meta.read")
    stored.hive("cap", "grant", "holder", "applied.read")
    stored.until(lambda: sees(stored, "holder", "/meta"), "/meta appears")
    stored.until(lambda: sees(stored, "holder", "/applied"), "/applied appears")
    assert '"holder"' in stored.inside("holder", "cat", "/meta/topology.json")
    assert stored.inside("holder", "git", "-C", "/meta", "log", "-1", "--format=%an") == "hive\n"
    head = stored.inside(
        "holder", "git", "-C", "/applied/holder", "log", "-1", "--format=%H", "main"
    )
    assert len(head) == 41
    said = stored.run("hive", "shell", "holder", "--", "touch", "/meta/x", check=False).stderr
    assert "Read-only file system" in said
    stored.hive("cap", "revoke", "holder", "meta.read")
    stored.until(lambda: not sees(stored, "holder", "/meta"), "/meta is gone")
    # Attack 59: who was inside of it, or had a file open, has neither any more.
    stored.until(lambda: stored.show("holder", "InvocationID") != before, "runs on")
    stored.until(lambda: sees(stored, "holder", "/applied"), "/applied is still there")


def test_a_manually_removed_store_is_attached_again(stored: HiveHost) -> None:
    stored.hive("cap", "grant", "holder", "meta.read")
    stored.until(lambda: sees(stored, "holder", "/meta"), "/meta appears")
    stored.run("umount", f"/run/hive/agents/{stored.uuid('holder')}/meta")
    stored.hive("converge")  # the next look, which would come within a minute, or has come already
    stored.until(lambda: sees(stored, "holder", "/meta"), "/meta comes back")


def test_an_agent_restart_attaches_the_stores_again(stored: HiveHost) -> None:
    stored.hive("restart", "holder")
    stored.wait("running", "holder")
    stored.until(lambda: sees(stored, "holder", "/meta"), "/meta appears")


def test_an_agent_with_mount_rights_loses_the_store_by_a_restart(stored: HiveHost) -> None:
    """A copy that it made of the mount would stay."""
    stored.hive("cap", "grant", "boots", "meta.read")
    stored.until(lambda: sees(stored, "boots", "/meta"), "/meta appears")
    stored.inside(
        "boots", "systemd-run", "--quiet", "--wait", "mount", "--bind", "/meta", "/mnt", check=False
    )
    before = stored.show("boots", "InvocationID")
    stored.hive("cap", "revoke", "boots", "meta.read")
    stored.until(lambda: stored.show("boots", "InvocationID") not in ("", before), "starts afresh")
    stored.wait("running", "boots")
    assert not sees(stored, "boots", "/meta")


@pytest.fixture(scope="module")
def prompted(host: HiveHost) -> HiveHost:
    """With agents of two roles. They hold, so that the containers run without a model."""
    host.grow(boss={"definition": "lead", "command": HOLD})
    host.grow(hand={"parent": "boss", "definition": "worker", "command": HOLD})
    return host


def render(host: HiveHost, name: str) -> str:
    """The prompt of a new conversation; checked against its digest."""
    done = host.run("hive", "prompt", "render", name, "--new")
    assert f"sha256 {hashlib.sha256(done.stdout.encode()).hexdigest()}" in done.stderr
    return done.stdout


def test_setup_stores_the_definitions_that_come_with_hive(prompted: HiveHost) -> None:
    """K33, K34, K35, K36."""
    names = prompted.run("hive", "definition", "list", "-o", "name").stdout.split()
    assert names == ["architect", "lead", "maid", "queen", "worker"]


def test_each_agent_is_told_its_place_and_its_own_tools(prompted: HiveHost) -> None:
    """H20, T10, Q9."""
    boss, hand = render(prompted, "boss"), render(prompted, "hand")
    assert "Role: lead" in boss
    assert "`assign_task`" in boss
    assert "`bash`" not in boss
    assert "Parent: boss." in hand
    assert "`bash`" in hand
    assert "/agents/hand/state/work" in hand
    tools = json.loads(prompted.inside("hand", "hive-agent", "list-toolset", "-o", "json"))["tools"]
    assert all(f"`{row['name']}`" in hand for row in tools if row["name"] != "read_skill")


def test_the_same_agent_is_told_the_same_bytes(prompted: HiveHost) -> None:
    """Q10."""
    assert render(prompted, "hand") == render(prompted, "hand")


def test_a_segment_comes_and_goes_with_its_capability(prompted: HiveHost) -> None:
    """Q11."""
    assert "hive_fork_subagent" not in render(prompted, "hand")
    prompted.hive("cap", "grant", "hand", "subagents")
    try:
        assert "hive_fork_subagent" in render(prompted, "hand")
    finally:
        prompted.hive("cap", "revoke", "hand", "subagents")
    assert "hive_fork_subagent" not in render(prompted, "hand")


def test_the_tools_of_files_work_in_the_container(prompted: HiveHost) -> None:
    """K37."""
    write = "echo one >notes.txt && hive-agent tool edit notes.txt --old one --new two"
    prompted.inside("hand", "sh", "-c", f"cd /tree/state && {write}")
    assert "notes.txt (4 bytes)" in prompted.inside("hand", "hive-agent", "tool", "list")
    lines = prompted.inside("hand", "hive-agent", "tool", "search", "t.o")
    assert lines.strip() == "notes.txt:1: two"
    prompted.inside("hand", "hive-agent", "tool", "undo", "notes.txt")
    assert prompted.inside("hand", "cat", "/tree/state/notes.txt") == "one\n"
    refused = prompted.enter("boss", "hive-agent", "tool", "list", check=False)
    assert refused.returncode == 5
    assert "you plan and delegate" in refused.stderr


def test_a_prompt_of_the_operator_counts_after_a_reload(
    prompted: HiveHost, stored: HiveHost
) -> None:
    """Q8: one file, one segment. It counts until the next start of the daemon.

    A reload starts the daemon again; the stores stay attached.
    """
    stored.wait("running", "holder")
    mounted = attached_stores(stored)
    assert mounted
    prompted.run("mkdir", "-p", OWN_PROMPT.rpartition("/")[0])
    prompted.run("sh", "-c", f"echo 'You work for {{{{ parent }}}}.' >{OWN_PROMPT}")
    assert "to execute" in render(prompted, "hand")
    try:
        prompted.run("systemctl", "reload", "hived")
        prompted.until(
            lambda: "You work for boss." in render(prompted, "hand"),
            "the prompts were not read again",
        )
        assert "to execute" not in render(prompted, "hand")
        assert OWN_PROMPT.rpartition("/roles")[0] in prompted.run("hive", "prompt", "list").stdout
        assert "ShowStore" not in " ".join(stored.call("Converge", dry_run=True)["steps"])
        assert attached_stores(stored) == mounted
    finally:
        prompted.run("rm", "-r", "/etc/hive/prompts")


def attached_stores(host: HiveHost) -> list[str]:
    """The mount of the meta repository for the holder, with its number, which no other has."""
    place = f"/run/hive/agents/{host.uuid('holder')}/meta"
    lines = host.run("findmnt", "-rno", "ID,TARGET").stdout.splitlines()
    return [line for line in lines if line.endswith(place)]
