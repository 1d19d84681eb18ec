"""A host that is short of memory: the daemon starts, answers, and is not taken for dead."""

from __future__ import annotations

import subprocess
import time

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost
from long import at_most, figure, times

pytestmark = pytest.mark.lab

AGENTS = [f"agent-{number}" for number in range(5)]
# Of the whole lab. hived alone has 90 MB, a command 30; the rest has to hold what starts beside.
MEMORY = 512 << 20
FILLED = 0.9
SLACK = 4 << 20
READY = 20  # seconds
# Takes as many MiB as each line of its input says, and keeps them in use.
HOG = """
import os, select, sys
blocks = []
while True:
    if select.select([0], [], [], 0.05)[0]:
        blocks += [bytearray(os.urandom(1 << 20)) for _ in range(int(os.read(0, 80)))]
        print("full", flush=True)
    for block in blocks:
        block[0] = 1
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    """The last one of those who share it: its memory stays bound."""
    made = shared_host.prepare("models")
    made.run("systemctl", "stop", "hive-small.service", check=False)  # it has weights in memory
    made.grow(**dict.fromkeys(AGENTS, "root"))
    return made


def test_the_daemon_has_reserved_memory(host: HiveHost) -> None:
    """Where control groups know of that; the slice has it too, else it would be for nothing."""
    for unit, least in (("hived.slice", 256), ("hived.service", 192), ("hive-privd.service", 48)):
        shown = host.run("systemctl", "show", "-p", "MemoryMin", "--value", unit).stdout
        assert int(shown) == least << 20
    for unit in ("hived.service", "hive-privd.service"):
        shown = host.run("systemctl", "show", "-p", "Slice", "--value", unit).stdout
        assert shown == "hived.slice\n"
    said = host.run("hive", "doctor", "-o", "jsonl", check=False).stdout
    assert '"check": "memory"' in said


def fill_memory(host: HiveHost, hog: subprocess.Popen[str]) -> None:
    """Have the hog take what is missing, again where a program has given memory back meanwhile."""
    assert hog.stdin is not None
    assert hog.stdout is not None
    while (missing := int(FILLED * MEMORY) - host.lab.groups.memory_in_use()) > SLACK:
        hog.stdin.write(f"{missing >> 20}\n")
        hog.stdin.flush()
        assert hog.stdout.readline() == "full\n"


@pytest.mark.sized
def test_the_daemon_starts_in_time_with_nine_tenths_of_the_memory_used(
    host: HiveHost,
) -> None:
    host.lab.groups.bound_memory(MEMORY)
    hog = ["systemd-run", "--quiet", "--pipe", "--unit=hog", "-p", "OOMScoreAdjust=500"]
    command = [*hog, "/usr/bin/python3", "-Ic", HOG]
    with host.lab.popen(command, stdin=-1, stdout=-1) as process:
        fill_memory(host, process)
        assert host.lab.groups.memory_in_use() > 0.85 * MEMORY
        took = []
        for _ in range(times(1, 3)):
            began = time.monotonic()
            host.restart()
            host.wait("running", "root", *AGENTS)
            took.append(time.monotonic() - began)
        figure("starts beside 90 % of memory", seconds=[round(time_, 1) for time_ in took])
        assert max(took) < at_most(READY)
        assert host.run("systemctl", "is-active", "hog").stdout == "active\n"  # none was killed
        assert host.run("systemctl", "show", "-p", "NRestarts", "--value", "hived").stdout == "0\n"
        host.run("systemctl", "stop", "hog")
