"""What is kept for agents, on a real host: H15 and H19 (an older install is taken over)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cli.golden_old import listing, make
from e2e.hivehost import HiveHost
from e2e.labhost import Lab

pytestmark = pytest.mark.lab

OLD = "/var/lib/hyperhive"


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[HiveHost]:
    made = HiveHost(lab)
    made.settings("[retention]\narchive = 3\n")
    made.setup()
    yield made
    made.hush()


def test_an_older_install_is_taken_over_through_real_containers(host: HiveHost) -> None:
    """Rows H15 and H19: nothing of the old is changed, and a second run does nothing."""
    host.run("mkdir", OLD)
    host.run("mount", "-t", "tmpfs", "old", OLD)  # idmapped mounts are refused on an overlay
    folder = make(host.lab.path(OLD))
    before = listing(folder)
    dry = host.hive("migrate", "--from", OLD, "--dry-run")
    assert dry.startswith("would copy /var/lib/hyperhive/manager/state to /agents/root/state\n")
    assert listing(folder) == before
    host.hive("migrate", "--from", OLD)
    tree = host.tree()
    assert tree == {
        "root": None, "solo": None, "alice": "root", "dora": "root", "bob": "alice", "carol": "bob"
    }  # fmt: skip
    notes = host.inside("root", "cat", "/agents/root/state/notes.md")
    assert notes == "what the manager knew\n"
    assert host.inside("root", "cat", "/agents/bob/state/diary.txt") == "diary of bob\n"
    look = "cd /agents/alice/state && stat -c '%u %a' mine.txt run.sh && readlink to-the-host"
    look += " && cat old-config/agent.nix old-applied.git/HEAD"
    seen = host.inside("alice", "sh", "-c", look)
    assert seen.split("\n") == [
        "1000 644", "0 755", "/etc/shadow", "# alice", "ref: refs/heads/main", ""
    ]  # fmt: skip
    after = listing(folder)
    assert {name: after[name] for name in before} == before
    assert host.run("cat", "/etc/hive/imports").stdout == ""
    again = host.hive("migrate", "--from", OLD)
    assert again == f"nothing to do: {OLD}/.migrated-to-hive says what went where\n"


def test_every_migration_of_a_fresh_install_is_done(host: HiveHost) -> None:
    """And a hived that meets a newer layout refuses to start, and says why."""
    rows = host.json("migrate")
    assert {row["state"] for row in rows} == {"done"}
    assert {row["kind"] for row in rows} == {"storage", "ledger"}
    host.run("systemctl", "stop", "hived.service")
    host.run("sed", "-i", "s/storage .*/storage 99/", "/var/lib/hive/layout")
    host.run("systemctl", "start", "hived.service", check=False)
    log = host.run("journalctl", "-u", "hived.service", "-n", "20", "--output=cat").stdout
    assert "Cannot start: the storage has layout 99 and this hived knows" in log
    listed = host.run("hive", "migrate", "-o", "jsonl", check=False)
    assert listed.returncode == 1
    assert '"newer"' in listed.stdout
    host.run("systemctl", "stop", "hived.service")
    host.run("rm", "/var/lib/hive/layout")  # as before there were any
    assert '"due"' in host.hive("migrate", "--dry-run", "-o", "jsonl")
    assert '"due"' not in host.hive("migrate", "-o", "jsonl")
    host.wait("running", "root")
