"""Row R6: systemd executes itself anew, the bus and the journal are restarted, the bus is deaf.

Operations go on meanwhile: nothing that was acknowledged is lost, no crash is told that was none.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from e2e.hivehost import HiveHost
from long import at_most, figure, times

from hive_core.errors import HiveError
from hive_core.host.systemd.bus import Bus

ROUNDS = times(1, 10)
RECONNECT = 5.0
INBOX = 900  # a thousand letters fill it
PAUSE = 0.1 + 0.02 * ROUNDS  # before an operation: the machine has more to do
CYCLE_PAUSE = 0.4  # a stop and a start take as long of a processor
ACTS = {
    "reexec": "systemctl daemon-reexec",
    "reload": "systemctl daemon-reload",
    # Drops every client, so no distribution does this on a machine that runs; a crash does.
    "dbus": "systemctl kill --signal=KILL dbus.service; systemctl reset-failed; "
    "systemctl start dbus.service",
    "journald": "systemctl restart systemd-journald.service",
}


class BackgroundOperations:
    """Operations one after another: a message, an agent stopped, started; each acknowledged."""

    def __init__(self, host: HiveHost) -> None:
        self.host, self.sent, self.cycles = host, list[str](), 0
        self._over = threading.Event()
        self._threads = [threading.Thread(target=target) for target in (self._send, self._cycle)]

    def __enter__(self) -> BackgroundOperations:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    def _send(self) -> None:
        with closing(self.host.connect()) as line:
            while not self._over.wait(PAUSE) and len(self.sent) < INBOX:
                reply = line.ask("Send", {"to": "ben", "body": "on and on"})
                assert "error" not in reply, reply
                self.sent.append(reply["parameters"]["id"])

    def _cycle(self) -> None:
        """Stop and start `ann`: both take systemd, the bus and the root helper."""
        with closing(self.host.connect()) as line:
            while not self._over.wait(CYCLE_PAUSE):
                for method, state in (("Stop", "stopped"), ("Start", "running")):
                    done = line.ask(method, {"agent": "ann", "wait": 40})
                    assert "error" not in done, done
                    reply = line.ask(
                        "WaitAgents", {"agents": ["ann"], "states": [state], "wait": 40}
                    )
                    assert reply["parameters"]["done"], reply
                self.cycles += 1


@contextmanager
def expect_undisturbed(host: HiveHost) -> Iterator[BackgroundOperations]:
    """No agent crashes, no crash is reported, and every acknowledged operation was done."""
    host.mail("lead")
    host.mail("ben")
    host.close_connections()
    before = host.pids("root", "lead", "ben")
    daemon = host.run("systemctl", "show", "-p", "MainPID,NRestarts", "hived.service").stdout
    with BackgroundOperations(host) as works:
        host.until(lambda: works.cycles, "nothing goes on")
        yield works
        cycles = works.cycles
        host.until(lambda: works.cycles > cycles + 1, "it does not go on", 30)
    assert host.pids(*before) == before
    after = host.run("systemctl", "show", "-p", "MainPID,NRestarts", "hived.service").stdout
    assert after == daemon
    assert [message for message in host.mail("lead") if message["kind"] == "container_crash"] == []
    got = [message["id"] for message in iter_mail(host, "ben")]
    assert set(works.sent) <= set(got)
    assert len(set(got)) == len(got)
    assert host.json("status")["alarms"] == []
    host.until(lambda: host.json("converge", "--dry-run")["steps"] == [], "something is left")


def iter_mail(host: HiveHost, agent: str) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = []
    while more := host.mail(agent):
        messages += more
    return messages


def notices(host: HiveHost) -> float:
    """Seconds until hived notices an agent that ended: it listens to systemd again."""
    main = host.main_pid("probe")
    began = time.monotonic()
    host.run("kill", "-KILL", str(main))
    host.until(
        lambda: host.call("Locate", agent="probe")["main_pid"] not in {0, main}, "never noticed", 70
    )
    return time.monotonic() - began


@pytest.mark.lab("slow")
@pytest.mark.sized
@pytest.mark.parametrize("act", ACTS)
def test_restarts_of_systemd_lose_no_operation_and_report_no_crash(
    host: HiveHost, act: str
) -> None:
    host.grow(probe={"parent": "root", "role": "daemon"})
    usual, seen = notices(host), []  # on a busy machine looking takes its time too
    with expect_undisturbed(host):
        for _ in range(ROUNDS):
            host.run("sh", "-c", ACTS[act], timeout=60)
            seen.append(notices(host))
            assert seen[-1] < at_most(RECONNECT + 2 * usual)
            # Wanted anew: its ends are forgotten, else it would be parked after five.
            host.call("Restart", agent="probe", wait=40)
            host.wait("running", "probe")
    figure(f"row R6: {act}", rounds=ROUNDS, usual_seconds=usual, noticed_after_seconds=max(seen))


def test_a_silent_bus_costs_a_call_no_more_than_its_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row R6: no call without end; after the deadline the connection is tried again."""

    async def story() -> None:
        bus = Bus(0.2, lambda _: None, ())
        running = asyncio.create_task(bus.run())
        for _ in range(3):  # it comes back each time
            async with asyncio.timeout(10):
                taken.append((await asyncio.get_running_loop().sock_accept(deaf))[0])
        for call in (bus.ready(), bus.state(), bus.list_units(["x"]), bus.list_named_units(["x"])):
            began = time.monotonic()
            with pytest.raises(HiveError):
                await call
            assert time.monotonic() - began < at_most(2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    taken: list[socket.socket] = []
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path / 'bus'}")
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "bus"))
        deaf.listen()
        deaf.settimeout(0)
        asyncio.run(story())
    for connection in taken:
        connection.close()
