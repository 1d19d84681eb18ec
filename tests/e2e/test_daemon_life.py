"""The daemon's own life: upgrades, kill -9, hand commits, what it tells systemd."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from contextlib import closing, suppress

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from long import at_most

pytestmark = pytest.mark.lab("slow")
HOLD = ["sleep", "1000"]


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    hive_host = shared_host.prepare("models")
    hive_host.grow(ann={"command": HOLD}, bob={"parent": "ann", "command": HOLD})
    return hive_host


def pids(host: HiveHost) -> list[int]:
    return [host.main_pid(agent) for agent in ("root", "ann", "bob")]


def hived_property(host: HiveHost, name: str) -> str:
    shown = host.run("systemctl", "show", "--value", f"--property={name}", "hived.service")
    return shown.stdout.strip()


def test_the_unit_is_hardened(host: HiveHost) -> None:
    """`systemd-analyze security`: an exposure of at most 2.0."""
    said = host.run("systemd-analyze", "security", "hived.service", "--no-pager").stdout
    score = float(said.rpartition("hived.service: ")[2].split()[0])
    assert score <= 1.0
    assert hived_property(host, "User") == "hive"


def test_systemd_gets_readiness_and_watchdog_messages(host: HiveHost) -> None:
    """Row H31: the life sign went through the broker."""
    assert hived_property(host, "StatusText").startswith("3 agents")
    assert int(hived_property(host, "WatchdogTimestampMonotonic")) > 0
    lines = host.run("journalctl", "--unit=hived", "--output=json").stdout.splitlines()
    entries = [json.loads(line) for line in lines]
    uuid = host.uuid("bob")
    started = [entry for entry in entries if entry.get("HIVE_UUID") == uuid]
    assert any(entry["MESSAGE"] == "bob: StartUnit (it should run)" for entry in started)
    assert {entry["SYSLOG_IDENTIFIER"] for entry in started} == {"hived", "hive-events"}


def test_a_restart_adopts_all_agents_and_refuses_no_connection(host: HiveHost) -> None:
    """None starts twice. systemd keeps the listening sockets meanwhile, and whoever comes waits."""
    before = pids(host)
    done = threading.Event()
    answers: list[str] = []

    def ask() -> None:
        while not done.is_set():
            # Refused, and the thread ends, where nobody listens; cut off is another matter.
            with closing(host.connect()) as line, suppress(OSError, EOFError, ValueError):
                answers.append(line.ask("Status", {})["parameters"]["commit"])

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        host.run("systemctl", "restart", "hived")
        assert hived_property(host, "ActiveState") == "active"
        after = len(answers)
        host.until(lambda: len(answers) > after + 1 or not asking.is_alive(), "no answer")
        assert asking.is_alive()
    finally:
        done.set()
        asking.join()
    host.wait("running", "root", "ann", "bob", seconds=1)
    assert pids(host) == before
    assert host.ask("bob", "Whoami")["name"] == "bob"


def test_a_reload_replaces_the_daemon_without_a_break_for_agents(host: HiveHost) -> None:
    """How a host that changes its configuration brings a new hived: by its unit as it is then."""
    before, first = pids(host), hived_property(host, "MainPID")
    drop = host.lab.path("/etc/systemd/system/hived.service.d")
    drop.mkdir(parents=True)
    (drop / "new.conf").write_text("[Service]\nEnvironment=HIVE_NEW=1\n")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "reload", "hived")
    new = "systemctl show -P MainPID hived | xargs -I@ cat /proc/@/environ | grep -qz HIVE_NEW"
    host.until(lambda: host.run("sh", "-c", new, check=False).returncode == 0, "the old one stays")
    host.until(lambda: hived_property(host, "ActiveState") == "active", "not up")
    assert hived_property(host, "MainPID") != first
    assert hived_property(host, "Result") == "success"
    host.wait("running", "root", "ann", "bob", seconds=5)
    assert pids(host) == before
    (drop / "new.conf").unlink()
    host.run("systemctl", "daemon-reload")


class Sender:
    """Sends numbers to bob as the operator, each until it is acknowledged or known to be.

    On each connection it begins with the last one, as if the answer had been lost.
    """

    def __init__(self, host: HiveHost) -> None:
        self.host = host
        self.sent: list[str] = []
        self.number = 0
        self.stop = threading.Event()

    def run(self) -> None:
        while not self.stop.is_set():
            # Away for the moment: the same number again, under the same key.
            with suppress(OSError, EOFError, ValueError):
                self._send_on()
            time.sleep(0.05)

    def goes_on(self) -> None:
        before = len(self.sent)
        self.host.until(lambda: len(self.sent) > before + 20, "nothing is sent")

    def _send_on(self) -> None:
        self.number = max(0, self.number - 1)
        with closing(self.host.connect()) as line:
            while not self.stop.is_set():
                words = {"body": str(self.number), "idempotency_key": f"k{self.number}"}
                if "error" not in line.ask("Send", {"to": "bob", **words}):
                    self.sent.append(str(self.number))
                self.number += 1
                time.sleep(0.021)  # within the rate of one sender


def test_a_kill_under_load_loses_nothing_acknowledged(host: HiveHost) -> None:
    """R1, in short. Nor is anything there twice: the keys of calls outlive the kill."""
    before = pids(host)
    sender = Sender(host)
    sending = threading.Thread(target=sender.run, daemon=True)
    sending.start()
    try:
        sender.goes_on()
        host.run("systemctl", "kill", "--signal=KILL", "hived")
        sender.goes_on()
    finally:
        sender.stop.set()
        sending.join()
    host.close_connections()
    got: list[str] = []
    while letters := host.mail("bob"):
        got += [letter["body"] for letter in letters]
    assert got == sorted(set(got), key=int)
    assert set(sender.sent) <= set(got)
    assert pids(host) == before


def commit_by_hand(host: HiveHost, script: str) -> subprocess.CompletedProcess[str]:
    """Whoever commits by hand does so in a clone, and pushes."""
    clone = "rm -rf /root/by-hand; git clone -q hive::meta /root/by-hand; cd /root/by-hand"
    commit = "git -c user.name=op -c user.email=op@example commit -qam 'by hand'"
    return host.run("sh", "-ec", f"{clone}; {script}; {commit}; git push -q", check=False)


def test_a_manual_commit_takes_effect_within_a_second(host: HiveHost) -> None:
    """Row H2."""
    done = commit_by_hand(host, 'sed -i \'s/"title": ""/"title": "Chief"/\' agents/ann.json')
    assert done.returncode == 0, done
    host.until(lambda: host.ask("ann", "Whoami")["title"] == "Chief", "in force", at_most(1.5))
    identity = json.loads(host.inside("ann", "cat", "/run/hive/identity.json"))
    assert identity["title"] == "Chief"


def test_an_invalid_manual_commit_is_parked_and_blocks_nothing(host: HiveHost) -> None:
    commit = host.call("Status")["commit"]
    cycle = json.dumps({"ann": "bob", "bob": "ann", "root": None})
    assert "cycle" in commit_by_hand(host, f"echo '{cycle}' >topology.json").stderr
    host.until(lambda: host.call("Status")["refused"], "refused", seconds=3)
    reply = host.call("Status")
    assert reply["commit"] == commit
    assert "cycle" in reply["refused"][0]["reason"]
    assert host.hive("meta", "log", "-n", "1", "-o", "name").strip() == commit
    host.grow(cat={"parent": "ann", "command": HOLD})
    host.hive("destroy", "cat", "--yes")


def test_manual_commits_create_destroy_and_move_agents(host: HiveHost) -> None:
    """Rows H2, H3: rows that an operation would have written come along."""
    uuid = "12345678-0000-4000-8000-000000000001"
    spec = json.dumps({"uuid": uuid, "command": HOLD})
    tree = {"ann": "root", "bob": "root", "dan": "ann", "root": None}
    files = f"echo '{spec}' >agents/dan.json; echo '{json.dumps(tree)}' >topology.json"
    assert commit_by_hand(host, f"{files}; git add agents/dan.json").returncode == 0
    host.until(lambda: host.tree() == tree, "adopted")
    host.wait("running", "dan")
    assert [message["kind"] for message in host.mail("bob", wait=30)] == ["moved"]
    del tree["dan"]
    files = f"echo '{json.dumps(tree)}' >topology.json; git rm -q agents/dan.json"
    assert commit_by_hand(host, files).returncode == 0
    host.until(lambda: host.show("dan", "ActiveState") == "inactive", "ended")
    host.until(lambda: [archive["id"] for archive in host.call("ListArchives")["archives"]
                        if archive["id"] == uuid], "archived")  # fmt: skip
