"""Drift, by hand or by itself, is corrected or reported; no agent is started twice."""

from __future__ import annotations

import re

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

from hive_core.reconcile.exit_counting import CRASHED

pytestmark = pytest.mark.lab
HOLD = ["sleep", "1000"]


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    hive_host = shared_host.prepare("config")
    hive_host.grow(ann={"command": HOLD}, bob={"parent": "ann", "command": HOLD})
    return hive_host


def invocations(host: HiveHost, *agents: str) -> list[str]:
    return [host.show(agent, "InvocationID") for agent in agents]


def converge(host: HiveHost) -> list[str]:
    drift: list[str] = host.call("Converge", dry_run=True)["drift"]
    return drift


def test_a_manually_stopped_unit_is_started_again(host: HiveHost) -> None:
    (before,) = invocations(host, "bob")
    host.run("systemctl", "stop", "hive-agent@bob")
    host.until(lambda: invocations(host, "bob") not in ([before], [""]), "started again")
    host.wait("running", "bob")
    assert host.mail("ann") == []


def test_a_stopped_agent_is_not_polled(host: HiveHost) -> None:
    """To ask systemd for a unit by name loads it for a moment, and that is a signal."""
    host.hive("stop", "bob")
    calls = "type='method_call',destination='org.freedesktop.systemd1'"
    heard = host.run("timeout", "1", "dbus-monitor", "--system", calls, check=False).stdout
    host.hive("start", "bob")
    # Not those about a job, which is asked after while it runs: the count of what is on the disk.
    assert heard.count('"hive-agent@') < 5


def test_a_manually_removed_mount_is_restored_without_a_restart(host: HiveHost) -> None:
    before = invocations(host, "ann", "bob")
    place = f"/var/lib/hive/mounts/{host.uuid('bob')}/tree"
    host.run("umount", "--lazy", place)
    host.until(lambda: host.run("mountpoint", "-q", place, check=False).returncode == 0, "mounted")
    assert invocations(host, "ann", "bob") == before


def test_a_manually_changed_limit_is_reported_and_left(host: HiveHost) -> None:
    host.run("systemctl", "set-property", "--runtime", "hive-agent@bob", "TasksMax=77")
    assert converge(host) == ["property bob: tasks_max is 77, not 1024"]
    assert host.show("bob", "TasksMax") == "77"
    host.hive("restart", "bob")
    assert converge(host) == []


def test_an_orphaned_container_and_node_are_reported_and_left(host: HiveHost) -> None:
    host.run("systemd-run", "--quiet", "--unit=hive-agent@stray", "sleep", "1000")
    host.run("mkdir", "/var/lib/hive/tree/deadbeef")
    assert set(converge(host)) == {"unit hive-agent@stray.service: active", "node deadbeef"}
    assert "hive-agent@stray.service" in host.hive("gc", "--dry-run")
    assert host.show("stray", "ActiveState") == "active"
    host.run("systemctl", "stop", "hive-agent@stray")
    host.run("rmdir", "/var/lib/hive/tree/deadbeef")
    assert converge(host) == []


def test_a_container_killed_from_the_host_is_reported_once_and_restarted(host: HiveHost) -> None:
    """Row H23: systemd-nspawn itself is killed."""
    (before,) = invocations(host, "bob")
    assert host.main_pid("bob")
    host.mail("ann")
    (last,) = host.events(last=1)
    host.run("kill", "-KILL", str(host.main_pid("bob")))
    host.until(lambda: invocations(host, "bob") not in ([before], [""]), "came back")
    host.wait("running", "bob")
    letters = host.mail("ann", wait=40)
    assert [(letter["kind"], letter["from"]) for letter in letters] == [
        ("container_crash", "daemon")
    ]
    assert "killed with KILL" in letters[0]["body"]
    assert host.mail("ann") == []
    events = host.events(after=str(last["seq"]), limit=1000)
    crashes = [event for event in events if event["kind"] == "crash"]
    assert [crash["target"] for crash in crashes] == ["bob"]
    journal = host.run("journalctl", "--output=cat", f"MESSAGE_ID={CRASHED}").stdout
    assert "bob crashed: killed with KILL" in journal


def test_a_crash_notice_carries_the_last_log_lines(host: HiveHost) -> None:
    ends = ["sh", "-c", "sleep 0.5; echo my last; exit 9"]
    assert not host.call("Spawn", name="cat", parent="ann", command=ends).error
    (letter,) = host.mail("ann", wait=40)
    assert re.search(r"cat crashed: ended with 9.*last lines:\nmy last", letter["body"], re.DOTALL)


def test_the_root_agent_is_restarted_after_a_crash(host: HiveHost) -> None:
    """Row H16."""
    (before,) = invocations(host, "root")
    host.run("kill", "-KILL", str(host.main_pid("root")))
    host.until(lambda: invocations(host, "root") not in ([before], [""]), "came back")
    host.wait("running", "root")


def test_repeated_crashes_of_the_root_agent_raise_an_alarm(host: HiveHost) -> None:
    """It has no parent to notify: `status` and `todo` say it."""
    pids = {host.main_pid("root")}
    for _ in range(2):
        host.run("kill", "-KILL", str(host.main_pid("root")))
        host.until(lambda: host.main_pid("root") not in {0, *pids}, "came back", 40)
        host.wait("running", "root")
        pids.add(host.main_pid("root"))
    expected = r"root failed \d+ times in a row, and has no parent to notify: killed with KILL"
    assert re.search(expected, host.hive("status"))
    (row,) = [item for item in host.json("todo") if item["kind"] == "alarm"]
    assert re.fullmatch(expected, row["text"])
    assert row["agent"] == "root"
    host.hive("restart", "root")
    host.wait("running", "root")
    assert "in a row" not in host.hive("status")


def test_exit_status_0_is_a_stop_and_no_crash(host: HiveHost) -> None:
    host.call("Spawn", name="eve", parent="ann", command=["sleep", "0.5"])
    host.wait("stopped", "eve")
    assert [message["kind"] for message in host.mail("ann")] == ["child_exit"]


def test_an_agent_that_fails_repeatedly_is_parked(host: HiveHost) -> None:
    """Row K10, attack 50."""
    host.call("Spawn", name="dan", parent="ann", role="daemon", command=["sh", "-c", "exit 3"])
    host.wait("parked", "dan", seconds=40)
    letters = host.mail("ann", wait=40)
    assert len(letters) == 5
    assert "parked after 5 failures" in letters[-1]["body"]
    assert "dan is parked: ended with 3" in host.call("Status")["alarms"]
    host.hive("destroy", "dan", "--yes")


def test_an_agent_that_ignores_a_stop_is_killed_after_its_grace(host: HiveHost) -> None:
    """Row K11."""
    host.grow(fay={"parent": "ann", "command": ["sh", "-c", "trap '' TERM HUP; sleep 1000 & wait"]})
    host.mail("ann")
    reply = host.call("Stop", agent="fay", grace=0.5, wait=40)
    assert not reply.error, reply
    host.wait("stopped", "fay", seconds=1)
    assert [message["body"] for message in host.mail("ann")] == ["fay was stopped by operator"]


def test_a_subtree_is_stopped_leaves_first(host: HiveHost) -> None:
    host.grow(gil={"parent": "ann", "command": HOLD}, hal={"parent": "gil", "command": HOLD})
    reply = host.call("Stop", agent="gil", recursive=True, wait=40)
    assert reply["agents"] == ["hal", "gil"]
    host.wait("stopped", "gil", "hal", seconds=1)
    bodies = [message["body"] for message in host.mail("ann")]
    assert bodies == ["gil was stopped by operator"], "once, and no crash"


def test_a_restart_of_systemd_or_the_bus_reports_no_crash(host: HiveHost) -> None:
    before = invocations(host, "root", "ann", "bob")
    host.run("systemctl", "daemon-reexec")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "restart", "dbus.service")
    host.wait("running", "root", "ann", "bob")
    assert invocations(host, "root", "ann", "bob") == before
    assert host.mail("ann") == []
    host.inside("bob", "sh", "-c", "kill -KILL -1", check=False)
    host.wait("failed", "bob")
