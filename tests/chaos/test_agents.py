"""Rows R7 and R17: bad agents in real containers, and how their neighbours fare.

Processor time is shared out between agents, so a neighbour hardly notices one that spins.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from e2e import wire
from e2e.hivehost import HiveHost
from long import at_most, figure, times

pytestmark = [pytest.mark.lab("slow"), pytest.mark.sized]

CALLS = times(150, 1500)
# Of the machine that the lab runs on: a hundredth of few calls is the slowest one or two.
NOISE = 0.004
# Seconds after its grace: a thousand processes that fork have to be ended.
ENDING = 8
WIRE = Path(wire.__file__).read_text() + "\nimport sys\nimport time\n"
# A neighbour's call now and then: when one comes back late, the next ones are not put off by it.
PINGS = (
    WIRE
    + """
wire = Wire()
for line in sys.stdin:
    took = []
    for _ in range(int(line)):
        began = time.perf_counter()
        wire.ask("Whoami", {})
        took.append(time.perf_counter() - began)
        time.sleep(0.002)
    print(json.dumps(took), flush=True)
"""
)
SENDS = (
    WIRE
    + """
wire, number, frames = Wire(), 0, b""
for to in ("ann", "ben"):
    frame = {"method": "org.hive.Broker.Send", "parameters": {"to": to, "body": "x" * 100}}
    frames += (json.dumps(frame).encode() + bytes(1)) * 50
while True:
    wire.write(frames)
    for _ in range(100):
        wire.read()
"""
)


# https://man7.org/linux/man-pages/man2/reboot.2.html: in a container it ends the container, which
# systemd then starts again by itself.
REBOOTS = "import ctypes; ctypes.CDLL(None).reboot(0x1234567)"
# Forks hold up whatever moves a process into a control group, and so each start of a unit, of all
# who share the kernel: https://docs.kernel.org/admin-guide/cgroup-v2.html#mounting, favordynmods.
# Other tests run beside the short form: there it is a few processes that let others go first.
FORKS = f"""
import os
os.nice({times(19, 0)})
while True:
    try:
        os.fork()
    except OSError:
        pass
"""


@dataclass(frozen=True)
class BadAgent:
    """A bad agent: what it runs, with what, and the states that it may end up in."""

    name: str
    command: tuple[str, ...]
    ends: tuple[str, ...] = ("running",)
    role: str = "agent"
    limits: dict[str, int] = field(default_factory=dict)

    @property
    def spec(self) -> dict[str, object]:
        return {"parent": "lead", "role": self.role, "command": self.command, "limits": self.limits}


def sh(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


BAD = (
    BadAgent("exits-at-once", sh("exit 3"), ("failed",)),
    BadAgent("comes-back", sh("exit 3"), ("parked",), role="daemon"),
    BadAgent("reboots", ("python3", "-c", REBOOTS), ("parked",)),
    BadAgent("ignores-stop", sh("trap '' TERM INT HUP; while :; do sleep 0.1; done")),
    BadAgent("forks", ("python3", "-Ic", FORKS), limits={"tasks_max": times(32, 1024)}),
    BadAgent("logs", sh("yes 'what nobody wants to read, again and again'")),
    BadAgent("eats-memory", ("python3", "-c", "x = []\nwhile 1: x.append(bytes(1 << 20))"),
        ("failed", "running"), limits={"memory_max": 64 << 20}),
    BadAgent("sends", ("python3", "-Ic", SENDS)),
)  # fmt: skip


class Neighbour:
    """A process in the container of `ann` that makes calls on its socket when told to."""

    def __init__(self, host: HiveHost) -> None:
        command = ["hive", "shell", "ann", "--", "python3", "-Ic", PINGS]
        self._process = host.lab.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def pings(self, calls: int = CALLS) -> list[float]:
        """How long so many calls took, the fastest first."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{calls}\n")
        self._process.stdin.flush()
        return sorted(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def neighbour(host: HiveHost) -> Iterator[Neighbour]:
    with closing(Neighbour(host)) as made:
        made.pings(1)
        yield made


def p99(took: list[float]) -> float:
    return took[len(took) * 99 // 100]


def life(host: HiveHost) -> dict[str, str]:
    """The part of the state that differs after a daemon ended."""
    units = ("hived.service", "hive-privd.service", "dbus.service", "systemd-journald.service")
    shown = host.run("systemctl", "show", "-p", "Id,MainPID,NRestarts", *units).stdout
    return {part.partition("\n")[0]: part for part in shown.split("\n\n")}


@contextmanager
def expect_unharmed(host: HiveHost) -> Iterator[None]:
    before = life(host), host.main_pid("ann"), host.main_pid("ben")
    yield
    assert (life(host), host.main_pid("ann"), host.main_pid("ben")) == before
    troubles = [alarm for alarm in host.json("status")["alarms"] if "parked" not in alarm]
    assert troubles == []


@pytest.mark.parametrize("bad", BAD[times(1, 0) :], ids=lambda bad: bad.name)
def test_a_bad_agent_is_bounded_and_barely_affects_its_neighbours(
    host: HiveHost, neighbour: Neighbour, bad: BadAgent
) -> None:
    """Attacks 8, 37, 45 and 50. How long things take is judged where the machine is ours."""
    quiet = neighbour.pings()
    with expect_unharmed(host):
        assert not host.call("Spawn", name=bad.name, **bad.spec).error
        at_work = ["running", "failed", *bad.ends]
        host.call("WaitAgents", agents=[bad.name], states=at_work, wait=20)
        loud = neighbour.pings()
        # In between it may be on its way down.
        reply = host.call("WaitAgents", agents=[bad.name], states=bad.ends, wait=50)
        assert reply["done"], reply
        began = time.monotonic()
        host.call("Stop", agent=bad.name, grace=1, wait=0)
        host.wait("stopped", bad.name, seconds=50)
        ended = time.monotonic() - began
    figure(f"bad agent {bad.name}", quiet_p99_ms=p99(quiet) * 1e3, loud_p99_ms=p99(loud) * 1e3,
           quiet_p50_ms=quiet[CALLS // 2] * 1e3, loud_p50_ms=loud[CALLS // 2] * 1e3,
           stop_seconds=ended)  # fmt: skip
    assert len(loud) == CALLS
    assert ended < at_most(1 + ENDING)
    assert p99(loud) <= at_most(2 * p99(quiet) + NOISE)


def test_an_agent_beyond_the_memory_of_all_agents_is_killed_and_no_daemon_is(
    host: HiveHost,
) -> None:
    """Attack 8: agents have one bound together, none each; the rest belongs to the host."""
    settings = host.run("cat", "/etc/hive/hive.toml").stdout
    together = f"{settings}\n[all_limits]\nmemory_max = {400 << 20}\n"
    host.settings(together)
    host.run("systemctl", "restart", "hived.service")
    try:
        host.until(
            lambda: unit_property(host, "hive.slice", "MemoryMax") == str(400 << 20), "no cap"
        )
        with expect_unharmed(host):
            balloon = "x = []\nwhile 1: x.append(bytes(1 << 22))"
            host.call("Spawn", name="balloon", parent="lead", command=["python3", "-c", balloon])
            host.wait("failed", "balloon")
            kinds = [message["kind"] for message in host.mail("lead")]
            assert kinds[-1:] == ["container_crash"]
        for unit in ("hived.service", "hive-privd.service", "dbus.service"):
            assert unit_property(host, unit, "OOMScoreAdjust") == "-900"
            assert not unit_property(host, unit, "ControlGroup").startswith("/hive.slice")
    finally:
        host.settings(settings)
        host.run("systemctl", "restart", "hived.service")
        host.close_connections()


def unit_property(host: HiveHost, unit: str, name: str) -> str:
    return host.run("systemctl", "show", "--value", f"--property={name}", unit).stdout.strip()


def test_by_default_a_fifth_of_the_memory_is_left_to_the_host(
    host: HiveHost,
) -> None:
    """Attack 8: without a word in hive.toml all agents have four fifths of the machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0.7 * memory < int(unit_property(host, "hive.slice", "MemoryMax")) <= 0.8 * memory
    assert unit_property(host, "hive-agent@ann.service", "MemorySwapMax") == "0"
    assert unit_property(host, "hive-agent@ann.service", "TasksMax") == "1024"
    assert int(unit_property(host, "hive.slice", "TasksMax")) < 1 << 22
    assert "MemoryMax of all agents together" in host.hive("doctor")


def test_agent_logs_are_bounded_for_any_journal_setting_of_the_host(
    host: HiveHost,
) -> None:
    """Attack 45: 10,000 lines in 30 s; journald takes up to six times that on a big disk."""
    host.run("sh", "-c", "printf '[Journal]\\nRateLimitBurst=0\\n' >/etc/systemd/journald.conf; "
             "systemctl restart systemd-journald")  # fmt: skip
    host.grow(floods={"parent": "lead", "command": sh("yes 'what nobody wants to read'")})
    unit, counts = "hive-agent@floods.service", [0, 1]
    while counts[-1] != counts[-2]:
        time.sleep(0.5)
        lines = host.run("journalctl", "-q", "-o", "cat", "-u", unit, timeout=30).stdout
        counts.append(lines.count("\n"))
        assert counts[-1] < 70_000
    figure("journal lines of an agent that logs without end", lines=counts[-1])
    assert counts[-1] > 1000
