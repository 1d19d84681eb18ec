"""Agents of the image `nix` in real containers, built by a real Nix daemon from stand-in inputs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from e2e.hivehost import Reply
from e2e.labhost import Lab
from e2e.nixhost import CONF, INPUTS, NixHost

pytestmark = pytest.mark.lab

AGENT = "nixie"


def module_with_word(text: str, more: str = "") -> str:
    """A module that leaves a word behind."""
    return f'{{ ... }}: {{ environment.etc.word.text = "{text}"; {more} }}'


@pytest.fixture(scope="module")
def bare(lab: Lab) -> Iterator[NixHost]:
    """Nothing is locked yet."""
    made = NixHost(lab)
    made.prepare()
    yield made
    made.close_connections()


@pytest.fixture(scope="module")
def host(bare: NixHost) -> NixHost:
    """An agent with its own configuration; the tests change its module alone."""
    if AGENT not in bare.tree():
        bare.lock()
        bare.grow(nixie={"parent": "root", "image": "nix"})
    bare.change(AGENT, module_with_word("first"))
    return bare


@pytest.fixture(scope="module")
def other(host: NixHost) -> str:
    """A second agent, which the last test destroys."""
    host.grow(other={"parent": "root", "image": "nix"})
    return "other"


def installed_word(host: NixHost) -> str:
    """What the system that runs in the container has in its /etc."""
    return host.guest(AGENT, "cat", "/run/current-system/etc/word")


def test_h13_an_agent_is_built_once_the_inputs_are_locked(bare: NixHost) -> None:
    """An agent spawned before reports what is missing, and starts by itself once it exists."""
    assert bare.call("Spawn", name=AGENT, parent="root", image="nix")["job"]
    bare.until(lambda: "not locked yet" in json.dumps(bare.mail("root")), "root is not told")
    done = bare.lock()
    assert {change["input"] for change in done["review"]["changes"]} == {"hive", "nixpkgs"}  # type: ignore[index]
    bare.wait("running", AGENT)
    assert bare.guest(AGENT, "readlink", "/run/current-system") == bare.system(AGENT)
    bare.run("git", "clone", "-q", "hive::meta", "/root/meta")
    log = bare.run("git", "-C", "/root/meta", "log", "--format=%s", "--", "flake.lock")
    assert log.stdout.splitlines() == ["update inputs (1 agent follows)"]


def test_h26_a_module_is_switched_to_in_place(host: NixHost) -> None:
    pid, before = host.main_pid(AGENT), host.system(AGENT)
    done = host.change(AGENT, module_with_word("second"))
    assert done["effect"] == "switch"
    assert installed_word(host) == "second"
    assert host.main_pid(AGENT) == pid
    links = host.links(AGENT)
    assert links["current"] == host.system(AGENT) != before
    assert links["booted"] == before
    assert {before, links["current"]} <= {to for name, to in links.items() if "system-" in name}


def test_a_switch_that_fails_goes_back_by_itself(host: NixHost) -> None:
    pid, before, words = host.main_pid(AGENT), host.system(AGENT), installed_word(host)
    host.mail("root")
    broken = 'fixture.switch = "echo it cannot be; exit 3";'
    done = host.change(AGENT, module_with_word("broken", broken), state="failed")
    assert "it cannot be" in str(done["reason"])
    assert (host.system(AGENT), host.main_pid(AGENT), installed_word(host)) == (before, pid, words)
    assert "it cannot be" in json.dumps(host.mail("root"))


def test_an_unhealthy_switch_is_reverted(host: NixHost) -> None:
    """A word of what is being switched to is enough; the way back is a switch in place as well."""
    pid, before, words = host.main_pid(AGENT), host.system(AGENT), installed_word(host)
    tell = """/opt/hive/bin/hive-agent call Hello '{"fault": "no"}'"""
    done = host.change(
        AGENT, module_with_word("sick", f"fixture.switch = '' {tell} '';"), state="failed"
    )
    assert done["reason"] == "the agent reports: no"
    unit = ["journalctl", "-b", "-o", "cat", "-u", f"hive-agent@{AGENT}.service"]
    back = f"switching to {before}"
    host.until(lambda: back in host.run(*unit).stdout, "is not switched back")
    host.until(lambda: installed_word(host) == words, "has not the old one")
    assert host.main_pid(AGENT) == pid


def test_a_failed_build_changes_nothing(host: NixHost) -> None:
    pid, before = host.main_pid(AGENT), host.system(AGENT)
    done = host.change(
        AGENT, module_with_word("x", 'fixture.build = "echo so it is >&2; exit 1";'), state="failed"
    )
    assert "failed" in str(done["reason"])
    assert "so it is" in json.dumps(host.mail("root"))
    done = host.change(
        AGENT,
        '{ ... }: { environment.etc.x.text = builtins.readFile "/etc/passwd"; }',
        state="failed",
    )
    assert (host.system(AGENT), host.main_pid(AGENT)) == (before, pid)


def test_h4_moving_an_agent_builds_nothing(host: NixHost) -> None:
    pid, before = host.main_pid(AGENT), host.system(AGENT)
    host.grow(boss="root")
    builds = host.builds()
    host.hive("move", AGENT, "--parent", "boss")
    flake = host.run("cat", "/var/lib/hive/meta/flake.nix").stdout
    assert f'"{AGENT}" = {{\n          parent = "boss";' in flake
    assert (host.system(AGENT), host.main_pid(AGENT), host.builds()) == (before, pid, builds)
    host.hive("restart", AGENT)
    host.wait("running", AGENT)
    assert "HIVE_PARENT=boss" in host.guest(AGENT, "cat", "/proc/2/environ").split("\0")
    assert host.builds() == builds
    host.hive("move", AGENT, "--parent", "root")
    host.hive("destroy", "boss", "--yes")


def show_once_pending(host: NixHost, asked: Reply) -> str:
    """What the operator reads before anybody decides."""
    assert host.wait_for_approval(str(asked["approval"]))["state"] == "pending"
    return host.hive("approval", "show", str(asked["approval"]))


def test_h26_newer_inputs_reach_all_agents_in_waves(host: NixHost, other: str) -> None:
    before = {name: host.system(name) for name in (AGENT, other)}
    pids = host.pids(*before)
    host.run("sh", "-c", f"echo newer >{INPUTS}/nixpkgs/newer")
    asked = host.call("RequestUpdateMetaInputs", inputs=["nixpkgs"], message="newer")
    shown = show_once_pending(host, asked)
    assert "2 agents follow" in shown
    assert f"  {AGENT} is rebuilt and switched in place" in shown
    done = host.approve(asked)
    (change,) = done["review"]["changes"]  # type: ignore[index]
    assert all(f"{word} {change[word]}" in shown for word in ("old", "new"))
    assert str(change["new"]).rpartition(" ")[2] in shown.partition("Changes:")[2]
    assert [change_["input"] for change_ in done["review"]["changes"]] == ["nixpkgs"]  # type: ignore[index]
    assert host.call("WaitJob", id=asked["job"], wait=40)["state"] == "done"
    host.until(
        lambda: all(host.system(name) != old for name, old in before.items()), "one has the old one"
    )
    assert host.pids(*before) == pids
    for name in before:
        assert host.guest(name, "readlink", "/run/current-system") == host.system(name)


def test_attack_32_the_collector_keeps_running_and_previous_systems(host: NixHost) -> None:
    first, word = host.links(AGENT), installed_word(host)
    host.change(AGENT, module_with_word("newest"))
    host.run("nix-store", "--gc", timeout=60)
    for system in {*first.values(), *host.links(AGENT).values()}:
        host.run("test", "-x", f"{system}/init")
    assert host.call("Rollback", agent=AGENT, wait=20).error == ""
    host.until(lambda: installed_word(host) == word, "does not go back")


def test_attack_25_builds_run_as_users_that_nix_does_not_trust(host: NixHost) -> None:
    log = host.run("journalctl", "-b", "-o", "cat", "-u", "nix-daemon").stdout
    users = {line.split("user ")[1].split()[0] for line in log.splitlines() if "accepted" in line}
    jobs = {user for user in users if user.isdecimal()}
    assert jobs
    assert all(1874853888 <= int(user) < 1879048192 for user in jobs)
    assert "trusted" not in log


def test_attack_29_without_a_sandbox_there_is_no_image_nix(host: NixHost) -> None:
    """Refused with a clear text, before anything is evaluated; the rest of the hive works."""
    builds = host.builds()
    host.conf(CONF.replace("sandbox = true", "sandbox = false"))
    try:
        done = host.change(AGENT, module_with_word("open"), state="failed")
        assert "`sandbox = true`" in str(done["reason"])
        assert host.builds() == builds
        doctor = host.run("hive", "doctor", check=False)
        assert doctor.returncode == 1
        assert "not `false`" in doctor.stdout
        host.grow(plain="root")
        host.hive("destroy", "plain", "--yes")
    finally:
        host.conf(CONF)
    assert host.run("hive", "doctor").returncode == 0


def test_the_collector_removes_the_systems_of_a_destroyed_agent(host: NixHost, other: str) -> None:
    place = f"/nix/var/nix/profiles/hive/{host.uuid(other)}"
    host.run("test", "-d", place)
    host.hive("destroy", other, "--yes")

    def is_removed() -> bool:
        host.hive("gc")
        return host.run("test", "-d", place, check=False).returncode == 1

    host.until(is_removed, "is kept")
