"""Containers from the outside: H10 (booted ones), H16, H23, H30, H31 and K11."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import LEAD, SharedHost
from long import at_most

pytestmark = pytest.mark.lab("slow")

TREE: dict[str, str | None] = {"root": None, "lead": "root"}
# Ends a second after it was asked to, and says when; its child does not end by being asked.
SLOW = """
setsid sh -c "trap '' TERM HUP INT; while :; do sleep 0.1; done" &
trap 'date +asked=%s.%N; sleep 0.7; date +ended=%s.%N; exit 0' TERM
echo ready; while :; do sleep 0.05; done
"""
STUBBORN = "trap '' TERM INT HUP; echo ready; while :; do sleep 0.1; done"


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    return shared_host.prepare("work", agents=LEAD)


@pytest.fixture(autouse=True)
def tidy(host: HiveHost) -> Iterator[None]:
    yield
    host.prune(TREE)


def script(text: str, **more: object) -> dict[str, object]:
    return {"parent": "lead", "command": ["sh", "-c", text], **more}


def lines(host: HiveHost, agent: str, grep: str = "") -> list[str]:
    result = host.call("GetLogs", agent=agent, **({"grep": grep} if grep else {}))["lines"]
    return [line["text"] for line in result]


def ready(host: HiveHost, *agents: str, starts: int = 1) -> None:
    """Wait until each agent is ready; its log has a line for each of its starts."""

    def is_ready(agent: str) -> bool:
        return lines(host, agent).count("ready") >= starts

    for agent in agents:
        host.until(partial(is_ready, agent), f"{agent} is not ready")


def unit_processes(host: HiveHost, agent: str) -> str:
    return host.run("sh", "-c", f"systemd-cgls -u hive-agent@{agent}.service 2>/dev/null",
                    check=False).stdout  # fmt: skip


def test_setup_creates_the_root_agent_and_it_is_restarted(host: HiveHost) -> None:
    """H16: the daemon keeps it running after any end; its own exit with 0 does not keep it down."""
    assert host.tree()["root"] is None
    for end in ("kill -KILL {main}", "kill -KILL {payload}"):
        main = host.main_pid("root")
        first = host.run("pgrep", "-P", str(main)).stdout.split()[0]
        payload = host.run("pgrep", "-P", first).stdout.split()[0]
        host.run("sh", "-c", end.format(main=main, payload=payload))
        host.until(lambda main=main: host.main_pid("root") not in {0, main}, "not back")  # type: ignore[misc]
        host.wait("running", "root")
    assert host.call("Destroy", agent="root").error == "NotAllowed"
    assert "root" in host.fails(5, "destroy", "root", "--yes")


def test_several_roots_and_the_default_parent(host: HiveHost) -> None:
    """H16, H15: roots beside `root`; the operator's new ones land under `root` unless told."""
    host.hive("agent", "create", "second", "--parent", "")
    host.hive("agent", "create", "landed", "--no-wait")
    assert host.tree() == {**TREE, "second": None, "landed": "root"}
    # The other root has what a root has, and sees nothing of the tree of `root`.
    ours = set(host.ask("second", "Whoami")["capabilities"])
    everything = {*ours, "applied.read", "meta.read"}
    assert everything == set(host.ask("root", "Whoami")["capabilities"]) != ours
    host.close_connections("second")
    host.hive("destroy", "second", "--yes")


def test_a_crash_is_told_to_the_parent(host: HiveHost) -> None:
    """H23: `container_crash` with the reason and the last lines; once; the tree stays."""
    host.mail("lead")
    host.grow(pet=script("echo a first line; echo a last line; exec sleep 12345"))
    host.until(lambda: "a last line" in lines(host, "pet"), "no lines")
    first = host.run("pgrep", "-P", str(host.main_pid("pet"))).stdout.split()[0]
    payload = host.run("pgrep", "-P", first).stdout.split()[0]
    host.run("kill", "-SEGV", payload)
    host.wait("failed", "pet")
    host.until(lambda: host.ask("lead", "ListMessages")["messages"], "not told")
    (exit_notices,) = host.mail("lead")
    assert (exit_notices["kind"], exit_notices["relation"], exit_notices["from"]) == (
        "container_crash",
        "daemon",
        "daemon",
    )
    assert exit_notices["body"].startswith("pet crashed: ")
    assert "a first line\na last line" in exit_notices["body"]
    assert host.tree() == {**TREE, "pet": "lead"}
    (event,) = (event for event in host.events(last=10) if event["kind"] == "crash")
    assert event["target"] in {"pet", host.uuid("pet")}
    host.hive("start", "pet")
    assert host.call("Locate", agent="pet")["state"] == "running"


def test_exit_notices_carry_the_code_and_status_0_is_no_crash(host: HiveHost) -> None:
    """H23, K10: 7 is a crash with its number, 0 a good end; other ends name who wanted them."""
    host.mail("lead")
    assert not host.call("Spawn", name="bad", **script("sleep 1; exit 7")).error
    host.wait("failed", "bad")
    assert "ended with 7" in host.mail("lead")[0]["body"]
    good = host.call("Spawn", name="good", **script("sleep 0.3; exit 0"))
    assert not good.error
    host.wait("stopped", "good")
    host.grow(ended=script(STUBBORN))
    host.call("Kill", agent="ended", wait=20)
    host.call("Start", agent="ended", wait=20)
    host.call("Stop", agent="ended", grace=0, wait=20)
    result = [(message["kind"], message["body"]) for message in host.mail("lead")]
    ends = ("good ended with 0", "ended was killed by operator", "ended was stopped by operator")
    assert result == [("child_exit", end) for end in ends]
    kinds = [event["kind"] for event in host.events(last=30) if "good" in json.dumps(event)]
    assert "crash" not in kinds


def test_a_crash_of_a_root_is_recorded_without_a_notice(host: HiveHost) -> None:
    """H23: a root has no parent; its crash is an event and it stays down."""
    ends = ["sh", "-c", "sleep 0.3; exit 9"]
    assert not host.call("Spawn", name="alone", parent="", command=ends).error
    host.wait("failed", "alone")
    (event,) = (event for event in host.events(last=10) if event["kind"] == "crash")
    assert "ended with 9" in event["reason"]


def test_a_stop_is_recursive_leaves_first_siblings_together(host: HiveHost) -> None:
    """K11: the answer lists whom it hit; the log tells when each was asked and had ended."""
    host.grow(mid=script(SLOW))
    host.grow(**{name: script(SLOW, parent="mid") for name in ("one", "two", "three")})
    ready(host, "mid", "one", "two", "three")
    began = time.monotonic()
    hit = host.ask("lead", "Stop", agent="mid", recursive=True, wait=30)
    took = time.monotonic() - began
    assert sorted(hit["agents"][:3]) == ["one", "three", "two"]
    assert hit["agents"][3:] == ["mid"]
    times = {
        name: {
            key: float(value)
            for key, _, value in (line.partition("=") for line in lines(host, name, "="))
        }
        for name in hit["agents"]
    }
    leaves = [times[name] for name in ("one", "two", "three")]
    assert times["mid"]["asked"] >= max(leaf["ended"] for leaf in leaves)
    assert max(leaf["asked"] for leaf in leaves) < min(leaf["ended"] for leaf in leaves)
    assert took < at_most(4)
    for name in hit["agents"]:
        assert host.show(name, "ActiveState") == "inactive"
        assert unit_processes(host, name).strip() in {"", "Unit not found"}


def test_a_stop_waits_for_the_given_grace(host: HiveHost) -> None:
    """K11: 5 s unless told, 0-30; then the whole container is killed."""
    host.grow(ox=script(STUBBORN))
    bounds = ((0, 0, 2.5), (1, 0.9, 4), (None, 4.8, 9))
    for starts, (grace, least, most) in enumerate(bounds, 1):
        host.call("Start", agent="ox", wait=20)
        ready(host, "ox", starts=starts)
        began = time.monotonic()
        more = {} if grace is None else {"grace": grace}
        stopped = host.call("Stop", agent="ox", wait=40, **more)
        assert stopped["agents"] == ["ox"]
        assert least <= time.monotonic() - began <= at_most(most), grace
        assert host.call("Locate", agent="ox")["state"] == "stopped"


def test_a_kill_overtakes_a_stop(host: HiveHost) -> None:
    """K11: a kill does not wait for the grace period of an earlier stop."""
    host.grow(ox=script(STUBBORN))
    ready(host, "ox")
    host.call("Stop", agent="ox", grace=30)
    began = time.monotonic()
    host.hive("kill", "ox", "--reason", "enough")
    assert time.monotonic() - began < at_most(3)
    assert host.show("ox", "ActiveState") in {"inactive", "failed"}
    event = [event for event in host.events(last=5) if event["operation"] == "kill"][-1]
    assert (event["target"], event["fields"]["reason"]) == ("ox", "enough")


def test_lines_of_units_in_a_booted_container(host: HiveHost) -> None:
    """H10: an init runs inside; a line appears with the name of its unit."""
    host.hive("agent", "create", "boat", "--boot", "--parent", "lead", "--",
              "sh", "-c", "echo from the harness; env; exec sleep 1000")  # fmt: skip
    assert host.inside("boat", "cat", "/proc/1/comm") == "systemd\n"
    code = "systemd-run --quiet --wait --unit=inner.service echo from the unit"
    host.inside("boat", "sh", "-c", code)
    result: dict[str, str] = {}

    def has_both_lines() -> bool:
        rows = host.ask("lead", "GetLogs", agent="boat", grep="from the")["lines"]
        result.update({row["text"]: row["unit"] for row in rows})
        return {"from the unit", "from the harness"} <= result.keys()

    host.until(has_both_lines, "no lines")
    assert result["from the unit"] == "inner.service"
    assert result["from the harness"].endswith(".service")
    said = {row["text"] for row in host.call("GetLogs", agent="boat", lines=1000)["lines"]}
    assert {"HIVE_NAME=boat", "HIVE_PARENT=lead", "HIVE_SOCKET=/run/hive/broker.sock"} <= said
    assert json.loads(host.inside("boat", "hive-agent", "whoami"))["name"] == "boat"
    assert host.call("Stop", agent="boat", wait=20)["agents"] == ["boat"]


def processes_of(host: HiveHost, uuid: str, name: str) -> dict[str, str]:
    """Everything on the host with its name or identity in it, by where it was found."""
    looks = {
        "units": "systemctl list-units --all --plain --no-legend 'hive-agent@*' 'hive-job@*'",
        "mounts": "cat /proc/self/mountinfo",
        # Who holds applied.read sees the repositories of archived agents too.
        "directories": "find /run/hive /run/systemd/nspawn /var/lib/hive/mounts /var/lib/hive/roots"
        " -path '/run/hive/agents/*/applied/.archive' -prune -o -print",
        "sockets": "cat /proc/$(systemctl show --value -p MainPID hived)/net/unix",
        "processes": "ps axo args",
    }
    result = {}
    for where, look in looks.items():
        said = host.run("sh", "-c", look, check=False).stdout
        marks = (uuid, uuid[:8], f"hive-agent@{name}.")
        hits = [line for line in said.splitlines() if any(mark in line for mark in marks)]
        if hits:
            result[where] = "\n".join(hits)
    return result


def test_a_unit_of_a_destroyed_agent_that_comes_up_late_is_stopped(host: HiveHost) -> None:
    """Its start may still be on the way while systemd or the root helper starts anew."""
    host.grow(pet={"parent": "lead"})
    uuid, unit = host.uuid("pet"), "hive-agent@pet.service"
    host.call("Destroy", agent="pet", wait=30)
    record = {
        "invocation": "late",
        "result": "success",
        "code": "exited",
        "status": "0",
        "nonce": 1,
    }
    host.run("tee", "/root/late", text=f"echo '{json.dumps(record)}' >/run/hive/exits/{uuid}\n")
    host.run("systemd-run", "--quiet", f"--unit={unit}", f"--description=hive agent {uuid} 1 ab",
             "--property=ExecStopPost=sh /root/late", "sleep", "1000")  # fmt: skip
    host.until(lambda: host.main_pid("pet") == 0, "the late unit runs", 10)
    host.until(lambda: uuid not in host.run("ls", "/run/hive/exits").stdout, "its exit record")


@pytest.mark.parametrize("boot", [False, True])
def test_no_resource_of_a_destroyed_agent_is_left(host: HiveHost, *, boot: bool) -> None:
    """H30: no unit, mount, socket, process; only the archive is kept, closed to all."""
    host.grow(pet={"parent": "lead", "boot": boot})
    uuid = host.uuid("pet")
    assert processes_of(host, uuid, "pet").keys() >= {"units", "mounts", "directories", "sockets"}
    host.call("Destroy", agent="pet", wait=30)
    assert processes_of(host, uuid, "pet") == {}
    assert host.run("ls", "/var/lib/hive/tree/.archive").stdout.split().count(uuid) == 1
    assert host.run("stat", "-c", "%U %a", "/var/lib/hive/tree").stdout == "root 700\n"
    assert host.inside("lead", "ls", "/agents") == "lead\n"
    assert host.inside("lead", "ls", "-A", "/tree/kids") == ""
    listed = {(row["kind"], row["name"]) for row in host.json("gc", "--dry-run")}
    assert not [row for row in listed if uuid in row[1] and row[0] != "archive"]


def test_orphans_are_reported_and_left(host: HiveHost) -> None:
    """H30: gc --dry-run lists stray units, nodes and mounts, and touches none of them."""
    host.run("systemd-run", "--quiet", "--unit=hive-agent@stray", "sleep", "1000")
    host.run("mkdir", "/var/lib/hive/tree/0badf00d")
    document: list[dict[str, Any]] = host.json("gc", "--dry-run")
    dumps = json.dumps(document)
    assert "hive-agent@stray.service" in dumps
    assert "0badf00d" in dumps
    drift = " ".join(host.json("converge", "--dry-run")["drift"])
    assert "hive-agent@stray.service" in drift
    host.hive("gc")
    assert host.run("systemctl", "is-active", "hive-agent@stray.service").stdout == "active\n"
    assert host.run("test", "-d", "/var/lib/hive/tree/0badf00d").returncode == 0
    host.run("systemctl", "stop", "hive-agent@stray.service")
    host.run("rmdir", "/var/lib/hive/tree/0badf00d")


def hived_property(host: HiveHost, name: str) -> str:
    shown = host.run("systemctl", "show", "--value", f"--property={name}", "hived.service")
    return shown.stdout.strip()


def test_systemd_shows_the_status_of_the_daemon(host: HiveHost) -> None:
    """H31: notify with status text, watchdog, descriptors kept, an unprivileged user."""
    assert (hived_property(host, "Type"), hived_property(host, "NotifyAccess")) == (
        "notify",
        "main",
    )
    assert "agent" in hived_property(host, "StatusText")
    assert hived_property(host, "WatchdogUSec") not in {"0", "infinity"}
    assert (
        int(hived_property(host, "NFileDescriptorStore")) >= 3
    )  # the operator's, root's and lead's
    pid = hived_property(host, "MainPID")
    status = host.run("cat", f"/proc/{pid}/status").stdout
    assert "CapEff:\t0000000000000000" in status
    assert host.run("stat", "-c", "%U", f"/proc/{pid}").stdout == "hive\n"


def test_the_journal_has_fields_and_no_program_is_run_for_it(host: HiveHost) -> None:
    """H31: entries have HIVE_UUID, a crash its MESSAGE_ID; logs are followed without a child."""
    host.grow(pet=script("echo hello; exec sleep 1000"))
    uuid = host.uuid("pet")
    with host.lab.popen(["hive", "logs", "pet", "-f"], stdout=-1) as follow:
        assert follow.stdout is not None
        assert "hello" in follow.stdout.readline()
        groups = host.run("systemd-cgls", "--no-pager", "-u", "hived.service").stdout
        assert len([line for line in groups.splitlines() if "─" in line]) == 1, groups
        follow.kill()
    host.inside("pet", "sh", "-c", "kill -KILL 2", check=False)
    host.wait("failed", "pet")
    query = ("journalctl", "_SYSTEMD_UNIT=hived.service", f"HIVE_UUID={uuid}", "-o", "json")
    entries = [json.loads(line) for line in host.run(*query).stdout.splitlines()]
    assert entries
    own = [entry for entry in entries if entry["SYSLOG_IDENTIFIER"] == "hived"]
    assert {entry["HIVE_NAME"] for entry in entries if "HIVE_NAME" in entry} == {"pet"}
    (crash,) = (entry for entry in own if "crashed" in entry["MESSAGE"])
    assert len(crash["MESSAGE_ID"]) == 32


def test_the_watchdog_is_fed_by_the_request_path(host: HiveHost) -> None:
    """H31: a daemon that does not answer is ended and comes back; containers go on.

    H16: the operator stops the root agent, also over this start of the daemon; the others run.
    """
    host.hive("stop", "root", "--grace", "1")
    lead = host.main_pid("lead")
    pid = hived_property(host, "MainPID")
    host.run("kill", "-STOP", pid)
    ended = host.lab.path(f"/proc/{pid}")
    host.until(lambda: not ended.exists(), "not ended", 45)  # the unit has WatchdogSec=30
    host.close_connections()
    host.answers()
    assert "watchdog" in host.run("journalctl", "-u", "hived.service", "-n", "40").stdout.lower()
    assert host.main_pid("lead") == lead
    assert host.hive("wait", "root", "--for", "stopped", "--timeout", "10")
    host.until(lambda: not host.json("converge", "--dry-run")["steps"], "something to do")
    assert host.show("root", "ActiveState") == "inactive"
    assert host.call("Locate", agent="lead")["state"] == "running"
    host.hive("start", "root")
    assert host.call("Locate", agent="root")["state"] == "running"
