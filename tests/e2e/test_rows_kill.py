"""Killed under load and switched off: nothing that was acknowledged is lost, nor any container."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from itertools import takewhile
from pathlib import Path
from typing import Self

import pytest
from e2e import wire
from e2e.hivehost import OPERATOR_SOCKET, HiveHost
from e2e.labhost import Lab

pytestmark = pytest.mark.lab

TREE: dict[str, str | None] = {"root": None, "ann": "root", "ben": "root", "cid": "ann"}
LOUD = "[limits]\nsend_rate = 100000\nsend_burst = 100000\ninbox_count = 100000\n"
KILLS = 5
BETWEEN = 40  # messages that each client gets acknowledged between two kills
# Who sends to whom; the operator's are sent from the host.
ROUTES = (
    ("ann", "ben", "keyed"), ("ben", "ann", "plain"), ("cid", "ann", "keyed"),
    ("root", "cid", "plain"), ("operator", "ben", "keyed"), ("operator", "cid", "plain"),
)  # fmt: skip


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[HiveHost]:
    made = HiveHost(lab)
    made.run("sh", "-c", "mkdir -p /etc/hive; cat >/etc/hive/hive.toml", text=LOUD)
    made.setup()
    made.grow(ann="root", ben="root")
    made.grow(cid="ann")
    yield made
    made.hush()


class Sender:
    """One client: it sends as fast as it gets answers, and keeps what was acknowledged."""

    def __init__(self, host: HiveHost, route: tuple[str, str, str]) -> None:
        self.sender, self.to, self.manner = route
        self.name = f"{self.sender}-{self.to}"
        self.acked: dict[str, str] = {}  # body -> id
        self._host = host
        self._going = True
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._going = False
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._thread.join(30)

    def _work(self) -> None:
        with closing(self._acknowledged()) as acknowledged:
            for body, message in takewhile(lambda _: self._going, acknowledged):
                self.acked[body] = message

    def _acknowledged(self) -> Generator[tuple[str, str], None, None]:
        if self.sender == "operator":
            path = str(self._host.lab.path(OPERATOR_SOCKET))
            keyed = self.manner == "keyed"
            yield from wire.insist(path, self.to, self.name, keyed=keyed)
        source = Path(wire.__file__).read_text()
        python = ("/usr/bin/python3", "-Ic", source, self.to, self.name, self.manner)
        command = ["hive", "shell", self.sender, "--", *python]
        self._process = self._host.lab.popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                body, _, message = line.strip().partition(" ")
                yield body, message


def pids(host: HiveHost) -> dict[str, int]:
    return {name: host.main_pid(name) for name in TREE}


def pid_of(host: HiveHost, unit: str) -> str:
    return host.run("systemctl", "show", "--value", "-p", "MainPID", unit).stdout.strip()


def answers(host: HiveHost) -> bool:
    return host.run("hive", "status", check=False).returncode == 0


def delivered(host: HiveHost, agent: str) -> dict[str, list[str]]:
    """What waits in an inbox: body -> ids."""
    found: dict[str, list[str]] = {}
    after: str | None = ""
    while after is not None:
        more = {"after": after} if after else {}
        page = host.call("ListMessages", agent=agent, limit=1000, **more)
        for message in page["messages"]:
            found.setdefault(message["body"], []).append(message["id"])
        after = page["next"] if page["messages"] else None
    return found


def test_the_daemon_is_killed_again_and_again_under_load(host: HiveHost) -> None:
    """No acknowledged message is lost or doubled, in its order; no container notices."""
    before = pids(host)
    with ExitStack() as stack:
        senders = [stack.enter_context(Sender(host, route)) for route in ROUTES]
        for _ in range(KILLS):
            marks = [len(each.acked) + BETWEEN for each in senders]
            host.until(
                lambda marks=marks: all(  # type: ignore[misc]
                    len(each.acked) >= mark for each, mark in zip(senders, marks, strict=True)
                ),
                f"they send no more: {[(each.name, len(each.acked)) for each in senders]}", 60,
            )  # fmt: skip
            killed = pid_of(host, "hived.service")
            host.run("kill", "-KILL", killed)
        host.until(lambda: answers(host), "not back")
        marks = [len(each.acked) + 1 for each in senders]
        host.until(lambda: all(len(s.acked) >= m for s, m in zip(senders, marks, strict=True)), "")
    for each in senders:
        found = delivered(host, each.to)
        for body, message in each.acked.items():
            assert found.get(body) == [message], (each.name, body)
        # Whatever was not acknowledged and arrived all the same arrived once.
        assert all(len(ids) == 1 for ids in found.values())
        order = [body for body in found if body.startswith(f"{each.name}-")]
        assert order == sorted(order, key=lambda body: int(body.rpartition("-")[2]))
    assert pids(host) == before
    assert host.json("status")["agents"] == {"running": len(TREE)}
    assert host.json("status")["alarms"] == []
    assert host.json("converge", "--dry-run")["steps"] == []


def test_the_root_helper_is_killed_under_load(host: HiveHost) -> None:
    """Starts and stops that were asked for come true; nobody else is touched."""
    before = pids(host)
    names = [f"pet-{number}" for number in range(6)]
    jobs = [host.call("Spawn", name=name, parent="ben")["job"] for name in names]
    for _ in range(3):
        killed = pid_of(host, "hive-privd.service")
        host.run("kill", "-KILL", killed)
        host.until(
            lambda killed=killed: pid_of(host, "hive-privd.service") not in {"0", killed},  # type: ignore[misc]
            "not back",
        )
    host.wait("running", *names)
    assert {host.call("WaitJob", id=job, wait=20)["state"] for job in jobs} == {"done"}
    hit = host.call("Destroy", agent="ben", recursive=True)
    host.run("kill", "-KILL", pid_of(host, "hive-privd.service"))
    assert host.call("WaitJob", id=hit["job"], wait=40)["state"] == "done"
    del before["ben"]
    assert {name: host.main_pid(name) for name in before} == before
    host.until(lambda: not host.json("converge", "--dry-run")["steps"], "something is left to do")


@pytest.mark.parametrize("power_cut", [False, True])
def test_the_host_starts_what_was_wanted_and_nothing_else(
    lab: Lab, host: HiveHost, *, power_cut: bool
) -> None:
    """A reboot and a pulled plug: wishes, mail, files and the tree are as they were.

    K11: one that does not end by itself holds up the whole for 15 s at most.
    """
    name = f"new-{int(power_cut)}"
    ox = ["sh", "-c", "trap '' TERM INT HUP; while :; do sleep 0.2; done"]
    host.grow(**{name: "cid"}, stopped="root", ox={"parent": "root", "command": ox})
    host.call("Spawn", name="ended", parent="root", command=["sh", "-c", "exit 0"])
    host.call("Spawn", name="broken", parent="root", command=["sh", "-c", "exit 3"])
    host.wait("stopped", "ended")
    host.wait("failed", "broken")
    host.call("Stop", agent="stopped", wait=20)
    host.inside(name, "sh", "-c", "echo kept >/tree/state/file; sync")
    sent = host.ask("cid", "Send", to=name, body=f"before {power_cut}")["id"]
    tree = host.tree()
    host.hush()
    began = time.monotonic()
    lab.reboot(power_cut=power_cut)
    assert time.monotonic() - began < 15 + 5  # and a boot
    host.until(lambda: answers(host), "not back", 30)
    running = [each for each in tree if each not in {"stopped", "ended", "broken"}]
    host.wait("running", *running)
    assert host.tree() == tree
    assert {host.call("Locate", agent=each)["state"] for each in ("stopped", "ended")} == {
        "stopped"
    }
    units = host.run("systemctl", "list-units", "--plain", "--no-legend", "hive-agent@*").stdout
    found = {line.split()[0] for line in units.splitlines() if " active " in line}
    assert found == {f"hive-agent@{each}.service" for each in running}
    assert host.inside(name, "cat", f"/agents/{name}/state/file") == "kept\n"
    assert host.inside("ann", "cat", f"/agents/{name}/state/file") == "kept\n"
    assert sent in {each["id"] for each in host.mail(name)}
    assert host.json("status")["alarms"] == []
    host.hush()
    for each in ("stopped", "ended", "broken", "ox"):
        host.call("Destroy", agent=each, wait=20)
