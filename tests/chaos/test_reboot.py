"""Row R22: a host full of agents is rebooted, and its plug pulled."""

from __future__ import annotations

import re
import time
from collections import Counter
from contextlib import closing
from itertools import accumulate

import pytest
from e2e import wire
from e2e.hivehost import OPERATOR_SOCKET, HiveHost
from e2e.labhost import Lab
from long import at_most, figure, times

pytestmark = [pytest.mark.lab("slow"), pytest.mark.sized]

AGENTS = times(8, 50)
BOOTED = times(0, 4)
ANSWERS = at_most(2)  # seconds after hived was started
AT_ONCE = 8


@pytest.fixture(scope="module")
def host(grown_host: HiveHost) -> HiveHost:
    made = grown_host
    made.prune({"root": None})
    names = [f"agent-{number:02}" for number in range(AGENTS)]
    for number, name in enumerate(names):
        reply = made.call("Spawn", name=name, parent="root", boot=number < BOOTED)
        assert not reply.error, reply
    made.wait("running", *names, seconds=50)
    return made


def time_of_answer(host: HiveHost) -> float:
    """When the operator's socket answered, in monotonic seconds."""
    path, deadline = str(host.lab.path(OPERATOR_SOCKET)), time.monotonic() + 30
    while True:
        try:
            with closing(wire.Wire(path)) as line:
                line.ask("Status", {})
                return time.monotonic()
        except OSError:
            assert time.monotonic() < deadline, "hived does not answer"
            time.sleep(0.005)


def moment(host: HiveHost, unit: str, name: str) -> float:
    shown = host.run("systemctl", "show", "--value", f"--property={name}Monotonic", *unit.split())
    return int(shown.stdout) / 1e6


def starts(host: HiveHost) -> dict[str, tuple[float, float]]:
    """When each agent's unit began to start, and when systemd called it started."""
    names = ("Id", "InactiveExitTimestampMonotonic", "ActiveEnterTimestampMonotonic")
    shown = host.run("systemctl", "show", "-p", ",".join(names), "hive-agent@*.service").stdout
    result = {}
    for part in shown.strip().split("\n\n"):
        unit = dict(line.split("=", 1) for line in part.splitlines())
        began, ended = (int(unit[name]) / 1e6 for name in names[1:])
        result[unit["Id"].removeprefix("hive-agent@").removesuffix(".service")] = (began, ended)
    return result


def most_at_once(spans: dict[str, tuple[float, float]]) -> int:
    """How many of the spans lie over one another at most."""
    edges = [(began, 1) for began, _ in spans.values()]
    edges += [(ended, -1) for _, ended in spans.values()]
    return max(accumulate(step for _, step in sorted(edges)))


@pytest.mark.parametrize("power_cut", [True, False][: times(1, 2)])
def test_after_a_reboot_all_wanted_agents_run_once_and_the_operator_is_answered(
    lab: Lab, host: HiveHost, *, power_cut: bool
) -> None:
    """No agent runs twice, at most eight start at once, and stopped agents stay stopped."""
    stopped = [f"agent-{number:02}" for number in range(BOOTED, AGENTS, 5)]
    wanted = {"root", *(f"agent-{number:02}" for number in range(AGENTS))} - set(stopped)
    for name in stopped:
        host.call("Stop", agent=name, wait=20)
    while host.mail("root"):
        pass  # of the files before
    host.close_connections()
    booted = time.time()
    lab.reboot(power_cut=power_cut)
    answer = time_of_answer(host)
    began = moment(host, "hived.service", "ExecMainStartTimestamp")
    host.wait("running", *wanted, seconds=50)
    running = time.monotonic()
    assert {host.call("Locate", agent=name)["state"] for name in stopped} == {"stopped"}
    spans = starts(host)
    assert spans.keys() == wanted
    lines = host.run("journalctl", f"--since=@{booted}", "-o", "cat", "-u", "hived").stdout
    assert Counter(re.findall(r"(?m)^(\S+): StartUnit ", lines)) == Counter(wanted)
    assert most_at_once(spans) <= AT_ONCE
    boot = moment(host, "", "UserspaceTimestamp")
    figure("reboot" if not power_cut else "power cut", agents=len(wanted), booted=BOOTED,
           answers_after_start=answer - began, answers_after_boot=answer - boot,
           all_running_after_start=running - began, at_once=most_at_once(spans))  # fmt: skip
    assert answer - began < ANSWERS
    assert host.json("status")["alarms"] == []
    assert "container_crash" not in [message["kind"] for message in host.mail("root")]
    assert host.json("converge", "--dry-run")["steps"] == []
