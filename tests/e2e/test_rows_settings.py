"""A host with settings of its own: K40, K10, and what H16 leaves to them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab

TOML = "/etc/hive/hive.toml"
PURE = "[root]\nautostart = false\n"
SETTINGS = """
[root]
name = "queen"
command = ["sh", "-c", "env; pwd; exec sleep 1000"]
[back_off]
first = 0.2
failures = 3
[limits]
children = 2
depth = 3
inbox_count = 5
"""


def write(host: HiveHost, text: str) -> None:
    host.run("sh", "-c", f"mkdir -p /etc/hive; cat >{TOML}", text=text)


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    return shared_host.prepare("work", PURE)


@pytest.fixture(scope="module")
def queen(host: HiveHost) -> Iterator[HiveHost]:
    """The same host with its settings changed."""
    write(host, SETTINGS)
    host.run("systemctl", "set-environment", "API_KEY=secret")
    host.run("systemctl", "restart", "hive-privd.service", "hived.service")
    host.wait("running", "queen")
    yield host
    host.run("systemctl", "unset-environment", "API_KEY")


@pytest.fixture(autouse=True)
def tidy(host: HiveHost) -> Iterator[None]:
    yield
    if "queen" in host.tree():
        host.prune({"queen": None})


def test_an_empty_hive_runs(host: HiveHost) -> None:
    """K40, H16: set up without an agent; then the operator creates a root.

    A test below starts the daemon again without an agent.
    """
    assert host.json("tree") == []
    assert host.json("status")["agents"] == {}
    assert host.run("cat", TOML).stdout == PURE
    assert host.run("hive", "doctor").returncode == 0
    host.hive("agent", "create", "first", "--", "sleep", "1000")
    assert host.tree() == {"first": None}
    host.hive("destroy", "first", "--yes")


@pytest.mark.parametrize(
    ("text", "says"), [("uid_start = 5\n", "uid_start"), ("[limits\n", "hive.toml")]
)
def test_invalid_settings_are_refused(host: HiveHost, text: str, says: str) -> None:
    """K40: the daemon does not start, and says which setting is wrong.

    What else is refused is in tests/host/test_config.py, and in the next test.
    """
    since = host.call("Status")["hived"]["since"]
    write(host, text)
    done = host.run("hived", check=False)
    assert done.returncode not in {0, -15}, done
    said = done.stderr + host.run("journalctl", "-n", "5", "--no-pager", "-o", "cat").stdout
    assert says in said
    assert "Traceback" not in said
    write(host, PURE)
    assert host.call("Status")["hived"]["since"] == since
    assert host.tree() == {}


def test_a_reload_with_invalid_settings_keeps_the_old_ones(
    host: HiveHost,
) -> None:
    """One validator: the daemon, doctor and `config check` say the same, with the line.

    K40: a daemon that starts again without an agent has none.
    """
    since = host.call("Status")["hived"]["since"]
    write(host, "[limits]\ndepht = 3\n[waits]\nopen = 'many'\n")
    said = (
        f"{TOML}:2: limits.depht: unknown key; did you mean depth?",
        f'{TOML}:4: waits.open: "many" does not fit; allowed is a whole number from 1',
    )
    assert host.run("hive", "config", "check", check=False).stdout.splitlines() == list(said)
    assert host.run("systemctl", "reload", "hived.service", check=False).returncode == 1
    host.run("systemctl", "kill", "--signal=HUP", "--kill-whom=main", "hived.service")
    log = ("journalctl", "--unit=hived.service", "--output=cat", "--no-pager", "--lines=20")
    host.until(
        lambda: "keeping the settings of the last start" in host.run(*log).stdout,
        "the daemon to look at its settings",
    )
    for fault in said:
        assert f"Cannot reload: {fault}" in host.run(*log).stdout
    doctor = host.run("hive", "doctor", "-o", "json", check=False)
    assert doctor.returncode == 1
    faults = [row["detail"] for row in json.loads(doctor.stdout) if row["check"] == "config"]
    assert faults == list(said)
    assert said[0] in host.fails(2, "setup")
    assert host.call("Status")["hived"]["since"] == since
    write(host, PURE)
    host.run("systemctl", "reload", "hived.service")
    host.answers()
    assert host.call("Status")["hived"]["since"] > since
    assert host.json("tree") == []


def test_the_settings_define_the_root_agent(queen: HiveHost) -> None:
    """K40, H16, H15: its name and command; no name is special; settings are kept by set-up."""
    assert queen.tree() == {"queen": None}
    queen.grow(root={"parent": "queen"})
    assert queen.call("Destroy", agent="queen").error == "NotAllowed"
    assert queen.call("Destroy", agent="root", wait=20)["agents"] == ["root"]
    queen.setup()
    assert queen.run("cat", TOML).stdout == SETTINGS


def test_workspace_and_environment_are_explicit(queen: HiveHost) -> None:
    """K40: a folder to work in; nothing of the host's environment comes along."""
    lines = [line["text"] for line in queen.ask("queen", "GetLogs")["lines"]]
    names = {line.partition("=")[0] for line in lines if "=" in line}
    assert names <= {
        "PATH", "HOME", "USER", "LOGNAME", "LANG", "PWD", "SHLVL", "_", "OLDPWD", "TERM",
        "HIVE_NAME", "HIVE_SOCKET", "container", "container_uuid", "NOTIFY_SOCKET",
        "CREDENTIALS_DIRECTORY", "PYTHONPATH",
        "container_host_id", "container_host_version_id", "container_host_build_id",
        "container_host_variant_id", "container_ttys",
    }, names  # fmt: skip
    assert "HOME=/tree/state" in lines
    assert "/tree/state" in lines
    assert "secret" not in "\n".join(lines)
    assert "secret" not in queen.inside("queen", "sh", "-c", "env; cat /proc/*/environ; true")


def test_settings_take_effect(queen: HiveHost) -> None:
    """K40, H8: depth, children and the inbox."""
    queen.grow(one={"parent": "queen", "role": "lead"})
    queen.grow(two={"parent": "one", "role": "lead"})
    deep = queen.call("Spawn", name="three", parent="two")
    assert deep.error in {"LimitReached", "InvalidArgument"}, deep
    queen.grow(a={"parent": "one", "role": "lead"})
    assert queen.ask("one", "Spawn", name="b").error == "LimitReached"
    for number in range(5):
        assert queen.ask("one", "Send", to="two", body=str(number))["id"]
    full = queen.ask("one", "Send", to="two", body="one more")
    assert full.error == "InboxFull", full
    done = queen.run("hive", "send", "two", "x", check=False)
    assert done.returncode == 75
    assert [message["body"] for message in queen.mail("two")] == ["0", "1", "2", "3", "4"]
    assert queen.ask("one", "Send", to="two", body="again")["id"]


def starts(host: HiveHost, agent: str) -> int:
    return len(host.call("GetLogs", agent=agent, grep="started", lines=500)["lines"])


def test_the_role_decides_whether_a_crashed_agent_restarts(queen: HiveHost) -> None:
    """K10: a daemon again and again, parked at the bound, its parent told; the others once."""
    fails = ["sh", "-c", "echo started; sleep 0.2; exit 3"]
    queen.mail("queen")
    queen.grow(boss={"parent": "queen", "role": "lead"})
    queen.call("Spawn", name="d", parent="boss", role="daemon", command=fails)
    queen.wait("parked", "d", seconds=40)
    assert starts(queen, "d") == 3
    bodies = [message["body"] for message in queen.mail("boss")]
    assert len(bodies) == 3
    assert all(body.startswith("d crashed: ended with 3; ") for body in bodies)
    assert "parked" in bodies[-1]
    assert "d" in " ".join(queen.call("Status")["alarms"])
    for role in ("agent", "lead", "worker", "architect", "task"):
        name = f"is-{role}"
        queen.call("Spawn", name=name, parent="boss", role=role, command=fails)
        queen.wait("failed", name)
        (letter,) = queen.mail("boss")
        assert letter["kind"] == "container_crash"
        queen.call("Destroy", agent=name, wait=20)
        (letter,) = queen.mail("boss")
        assert letter["body"] == f"{name} was destroyed by operator"
    # A new chance: the count begins anew.
    queen.call("Start", agent="d", wait=40)
    queen.wait("parked", "d", seconds=40)
    assert starts(queen, "d") == 6


def test_an_agent_that_exited_with_0_or_was_stopped_is_not_restarted(queen: HiveHost) -> None:
    """K10: a daemon that ends with 0, or is stopped or killed, stays down."""
    queen.grow(boss={"parent": "queen", "role": "lead"})
    queen.call("Spawn", name="d", parent="boss", role="daemon",
               command=["sh", "-c", "echo started; sleep 0.2; exit 0"])  # fmt: skip
    queen.wait("stopped", "d")
    daemon: dict[str, object] = {"parent": "boss", "role": "daemon"}
    queen.grow(e=daemon, f=daemon)
    for name, verb in {"e": "Stop", "f": "Kill"}.items():
        queen.call(verb, agent=name, wait=20)
    queen.restart()
    assert queen.call("WaitAgents", agents=["d", "e", "f"], states=["stopped"], wait=40)["done"]
    steps = queen.json("converge", "--dry-run")["steps"]
    assert {"d", "e", "f"}.isdisjoint(step["agent"] for step in steps)
    assert starts(queen, "d") == 1
    result = [message["body"].split("\n")[0] for message in queen.mail("boss")]
    ends = ["d ended with 0", "e was stopped by operator", "f was killed by operator"]
    assert sorted(result) == ends, "of each end once"
