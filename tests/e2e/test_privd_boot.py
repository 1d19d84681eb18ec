"""Containers that boot an init: how fast, how whole, and where their lines go."""

import re
import time
from collections.abc import Iterator

import pytest
from e2e.privdhost import Agent, PrivdHost, SharedPrivdHost
from long import at_most

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def host(shared_privd: SharedPrivdHost) -> PrivdHost:
    return shared_privd.prepare()


def test_a_booted_agent_becomes_ready_without_failed_units(host: PrivdHost) -> None:
    agent = host.agent(boot=True, command=())
    host.prepare(agent)
    begin = time.monotonic()
    host.do(agent.start)
    host.until(lambda: host.runs(agent), "does not run")
    assert time.monotonic() - begin < at_most(5)
    assert host.enter(agent, "systemctl", "is-system-running") == "running"
    assert host.enter(agent, "systemctl", "--failed", "--no-legend") == ""
    units = host.enter(agent, "systemctl", "list-units", "--type=service", "--plain", "--no-legend")
    foreign = [
        name for name in (line.split()[0] for line in units.splitlines())
        if not name.startswith(("systemd-", "dbus.", "user@", "user-runtime-dir@", "hive-attend."))
    ]  # fmt: skip
    assert foreign == []  # nothing that the host has installed is started
    record = host.stop(agent)
    assert record["result"] == "success"


def test_words_of_a_command_arrive_as_they_are(host: PrivdHost) -> None:
    words = (
        "$$",
        "${HOME}",
        "%i",
        "a b",
        "",
        "\n",
        '"',
        "'",
        "\\",
        "-p",
        "ü",
        ";",
        "\x1b",
        "\\x41",
    )
    code = "import sys; open('words', 'w').write(ascii(sys.argv[1:])); sys.exit(5)"
    agent = host.agent(boot=True, command=("python3", "-c", code, *words))
    host.prepare(agent)
    host.do(agent.start)
    record = host.exit_of(agent)
    assert host.lab.path(agent.node / "state/words").read_text() == ascii(list(words))
    assert record["status"] == "5"  # the container ends as its command ended


COMMAND = """
echo "$HIVE_NAME $HIVE_PARENT $HIVE_SOCKET $PWD $HOME"; which hive-agent; echo from the harness
sleep infinity
"""


@pytest.fixture(scope="module")
def speaker(host: PrivdHost) -> Iterator[Agent]:
    agent = host.running(host.running(), boot=True, command=("sh", "-c", COMMAND))
    yield agent
    host.stop(agent)


def test_the_command_runs_as_a_service_with_the_environment(
    host: PrivdHost, speaker: Agent
) -> None:
    line = f"{speaker.name} {speaker.parent} /run/hive/broker.sock /tree/state /tree/state"
    host.until(lambda: any(line in said for said in host.log("-u", speaker.unit)), "is silent")
    log = "\n".join(host.log("-u", speaker.unit, f"HIVE_UUID={speaker.uuid}"))
    assert "/opt/hive/bin/hive-agent" in log
    shown = host.enter(speaker, "systemctl", "show", "-p", "ActiveState", "hive-harness")
    assert shown == "ActiveState=active"


def test_a_line_of_a_unit_inside_reaches_the_journal_with_its_name(
    host: PrivdHost, speaker: Agent
) -> None:
    """Whatever the unit calls itself; what speaks to syslog by itself is called as it says."""
    run = ["systemd-run", "--quiet", "--wait", "--unit=inner"]
    host.enter(speaker, *run, "sh", "-c", "echo hello; echo again >&2")
    host.enter(speaker, *run, "-p", "SyslogIdentifier=other", "echo", "third")
    host.enter(speaker, *run, "logger", "-t", "talker", "-p", "user.debug", "no")
    host.enter(speaker, *run, "logger", "-t", "talker", "yes")

    def lines() -> list[str]:
        log = host.log("-u", speaker.unit, f"HIVE_UUID={speaker.uuid}", "-t", speaker.name)
        return [re.sub(r"\[\d+\]", "", line) for line in log]

    host.until(lambda: "talker: yes" in lines(), "does not talk")
    unit = [line for line in lines() if line.startswith("inner.service: ")]
    assert unit == [f"inner.service: {word}" for word in ("hello", "again", "third")]
    assert "hive-harness.service: from the harness" in lines()
    assert "talker: no" not in lines()
