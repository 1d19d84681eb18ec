"""Stored data of agents on a host: H15 and H19 (older installs), H28 (secrets), H30 (archives)."""

from __future__ import annotations

import time
from secrets import token_hex

import pytest
from cli.golden_old import listing, make
from e2e.hivehost import HiveHost
from e2e.shared_hosts import ARCHIVED, SharedHost

pytestmark = pytest.mark.lab

OLD = "/var/lib/hyperhive"


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    return shared_host.prepare("mail")


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
    assert again == f"nothing to do: {OLD}/.migrated-to-hive lists what was copied\n"


VALUE, NEWER = token_hex(16), token_hex(16)


def reads(host: HiveHost, agent: str, uid: int = 0) -> str:
    """What a process in the container gets out of its credentials."""
    script = (
        "test $CREDENTIALS_DIRECTORY = /run/hive/credentials && cat $CREDENTIALS_DIRECTORY/token"
    )
    return host.inside(agent, "setpriv", f"--reuid={uid}", "sh", "-c", script, check=False)


def test_a_secret_needs_a_capability_and_is_rotated_without_a_restart(host: HiveHost) -> None:
    """Row H28."""
    host.grow(ann="root", bob2="root")
    pid = host.main_pid("ann")
    host.hive("secret", "set", "ann", "token", text=f"{VALUE}\n")
    assert host.inside("ann", "ls", "/run/hive").find("credentials") < 0
    host.hive("cap", "grant", "ann", "secret:token")
    host.until(lambda: reads(host, "ann") == VALUE, "it is shown")
    assert reads(host, "ann", 1000) == ""
    assert host.json("secret", "list", "ann") == [
        {
            "agent": "ann",
            "key": "token",
            "readable": True,
            "provider": "",
            "alias": "",
            "identity": "",
            "expired": "",
        }
    ]
    host.hive("secret", "set", "ann", "token", text=NEWER)
    host.until(lambda: reads(host, "ann") == NEWER, "it is rotated")
    host.hive("cap", "revoke", "ann", "secret:token")
    host.until(lambda: reads(host, "ann") == "", "it is taken away")
    host.hive("cap", "grant", "ann", "secret:token")
    host.until(lambda: reads(host, "ann") == NEWER, "it is given again")
    assert host.main_pid("ann") == pid, "nothing of this needs a restart"


def test_a_fresh_install_has_all_migrations(host: HiveHost) -> None:
    """And a hived that meets a newer layout refuses to start, and says why.

    Row H28: a secret is as it was under the next hived, and goes without a restart.
    """
    pid = host.main_pid("ann")
    rows = host.json("migrate")
    assert {row["state"] for row in rows} == {"done"}
    assert {row["kind"] for row in rows} == {"storage", "ledger"}
    host.run("systemctl", "stop", "hived.service")
    host.run("sed", "-i", "s/storage .*/storage 99/", "/var/lib/hive/layout")
    host.run("systemctl", "start", "hived.service", check=False)
    log = host.run("journalctl", "-u", "hived.service", "-n", "20", "--output=cat").stdout
    assert "Cannot start: the storage has layout 99, but this hived knows" in log
    listed = host.run("hive", "migrate", "-o", "jsonl", check=False)
    assert listed.returncode == 1
    assert '"newer"' in listed.stdout
    host.run("systemctl", "stop", "hived.service")
    host.run("rm", "/var/lib/hive/layout")  # as before there were any
    assert '"due"' in host.hive("migrate", "--dry-run", "-o", "jsonl")
    assert '"due"' not in host.hive("migrate", "-o", "jsonl")
    host.wait("running", "root", "ann")
    assert reads(host, "ann") == NEWER
    host.hive("secret", "rm", "ann", "token")
    host.until(lambda: reads(host, "ann") == "", "it is removed")
    assert host.main_pid("ann") == pid


def test_attack_48_no_secret_is_in_an_environment_unit_log_or_other_agent(
    host: HiveHost,
) -> None:
    """Row H28: store, environment, unit properties, mounts, core dumps, logs."""
    host.hive("secret", "set", "ann", "token", text=VALUE)
    host.hive("cap", "grant", "bob2", "secret:token")  # the capability alone gives nothing
    host.hive("cap", "grant", "ann", "secret:token")
    host.hive("restart", "ann")
    host.until(lambda: reads(host, "ann") == VALUE, "it is there again")
    assert reads(host, "bob2") == ""
    # What is looked for comes over a pipe: else it would be found in our own command line.
    search = "grep -rslFf - /var/lib/hive /etc/hive /etc/systemd /run /var/log/journal || true"
    words = host.run("sh", "-c", search, text=VALUE).stdout.split()
    uuid = host.uuid("ann")
    assert set(words) == {
        f"/var/lib/hive/secrets/{uuid}/token", f"/run/hive/agents/{uuid}/run/credentials/token",
    }  # fmt: skip
    for command in (
        "journalctl --no-pager -o verbose", "systemctl show 'hive*'", "cat /proc/[0-9]*/environ",
        "cat /proc/[0-9]*/cmdline", "hive events -o jsonl", "cat /proc/self/mountinfo",
    ):  # fmt: skip
        done = host.run("sh", "-c", f"{command} 2>/dev/null | tr '\\0' '\\n'; true")
        assert done.stdout
        assert VALUE not in done.stdout, command
    limits = host.run("systemctl", "show", "--value", "--property=LimitCORE", "hived.service")
    assert limits.stdout == "0\n"


def test_no_secret_or_socket_of_a_destroyed_agent_is_left(host: HiveHost) -> None:
    """Row H30: socket, mounts, unit, credentials at once; secrets when it cannot come back."""
    host.grow(gone="root")
    host.hive("cap", "grant", "gone", "secret:token")
    host.hive("secret", "set", "gone", "token", text=VALUE)
    uuid = host.uuid("gone")
    host.call("Destroy", agent="gone", wait=20)
    places = f"/run/hive/agents/{uuid} /var/lib/hive/mounts/{uuid}"
    assert host.run("sh", "-c", f"ls -d {places} 2>/dev/null || true").stdout == ""
    look = f"find /var/lib/hive /run/hive -xdev -name '*{uuid}*' 2>/dev/null || true"
    host.until(lambda: host.run("sh", "-c", look).stdout == "", "its time is over", 20)


def test_expired_archives_are_deleted(host: HiveHost) -> None:
    """H30: `gc` deletes the files inside a job and gives the uid range free."""
    host.grow(pet="root")
    uuid = host.uuid("pet")
    host.inside("pet", "sh", "-c", "mkdir -p /tree/state/a/b; echo x >/tree/state/a/b/c")
    host.call("Destroy", agent="pet", wait=20)
    archive = f"/var/lib/hive/tree/.archive/{uuid}"
    ends = time.monotonic() + ARCHIVED + 0.1
    host.until(lambda: time.monotonic() > ends, "time")
    host.hive("gc")
    host.until(lambda: host.run("test", "-e", archive, check=False).returncode == 1, "there", 30)
    assert uuid not in {archive["id"] for archive in host.json("restore")}
    gone = host.run("hive", "restore", uuid, check=False)
    assert gone.returncode in {1, 4}
    host.until(lambda: uuid not in host.hive("gc", "--dry-run"), "left over")
    jobs = ("systemctl", "list-units", "--plain", "--no-legend", "hive-job@*")
    host.until(lambda: host.run(*jobs).stdout == "", "a job goes on")


GUEST = """
mkdir -p /etc/systemd/system && cat >/etc/systemd/system/reader.service <<'X'
[Service]
Type=oneshot
User=daemon
LoadCredential=token:/run/hive/credentials/token
ExecStart=/bin/sh -c 'cat "$CREDENTIALS_DIRECTORY"/token >/tmp/out; id -un >>/tmp/out'
X
systemctl daemon-reload && systemctl start reader && cat /tmp/out
"""


def test_a_service_in_a_booted_container_reads_the_secret_as_its_own_user(host: HiveHost) -> None:
    """Row H28: `LoadCredential=` takes it from the place that the guide names."""
    host.grow(guest={"boot": True})
    host.hive("cap", "grant", "guest", "secret:token")
    host.hive("secret", "set", "guest", "token", text=VALUE)
    look = ("hive", "shell", "guest", "--", "test", "-e", "/run/hive/credentials/token")
    host.until(lambda: host.run(*look, check=False).returncode == 0, "it is shown")
    done = host.run("hive", "shell", "guest", "--", "sh", "-s", text=GUEST)
    assert done.stdout == f"{VALUE}daemon\n"
