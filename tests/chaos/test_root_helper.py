"""Row R2 for the root helper: killed at any mount, name, owner or program, it is asked again.

hived repeats whatever it got no answer to (every action is idempotent), so after a kill the same
action is asked once more, and then the rest of an agent's life: it must come out as always.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from chaos.shim import Act, Faults, Kind, build
from e2e.labhost import Lab
from e2e.privdhost import Agent, PrivdHost
from long import figure, seed, times
from typing_extensions import override

from hive_core.errors import from_wire
from hive_core.plan.actions import (
    Action,
    ArchiveNode,
    KillUnit,
    MakeNode,
    MakeSocketDirectory,
    MoveNode,
    RemoveSocketDirectory,
    RestoreNode,
    StartUnit,
    Unmount,
)
from hive_core.plan.results import Result, encode, read

pytestmark = pytest.mark.lab

SHIM, CONTROL = "/usr/local/lib/hive-shim.so", "/run/hive-faults"
UNIT = f"[Service]\nEnvironment=LD_PRELOAD={SHIM} HIVE_FAULTS={CONTROL}\n"
TRIES = 5
KINDS = Kind.NAME | Kind.GONE | Kind.MOUNT | Kind.UNIT | Kind.MODE
_VOLATILE = re.compile(r"[0-9a-f]{8}(-[0-9a-f-]{27})?|\d{2,}")
# As the other relay, but somebody who hangs up is told, and found again when he is back.
_RELAY = r"""
import socket, sys, time
def connect():
    while True:
        try:
            wire = socket.socket(socket.AF_UNIX); wire.connect("/run/hive/privd.sock"); return wire
        except OSError: time.sleep(0.02)
for line in sys.stdin.buffer:
    wire, got = connect(), b""
    try:
        wire.sendall(line.rstrip(b"\n") + b"\0")
        while not got.endswith(b"\0"):
            more = wire.recv(1 << 20)
            if not more: break
            got += more
    except OSError: got = b""
    sys.stdout.buffer.write((got[:-1] or b"null") + b"\n"); sys.stdout.buffer.flush()
"""


class Killed(Exception):
    """It hung up before it answered."""


class HelperWithFaults(PrivdHost):
    """A root helper under the shim."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        super().__init__(lab)
        lab.path(SHIM).write_bytes(build(folder).read_bytes())
        self.faults = Faults(lab.path(CONTROL))
        drop = lab.path("/etc/systemd/system/hive-privd.service.d")
        drop.mkdir()
        (drop / "faults.conf").write_text(UNIT)
        lab.run(["systemctl", "daemon-reload"])
        lab.run(["systemctl", "restart", "hive-privd"])
        self.reconnect()

    @override
    def _connect(self) -> subprocess.Popen[str]:
        command = ["setpriv", "--reuid=hive", "--regid=hive", "--clear-groups", "/usr/bin/python3"]
        pipe = subprocess.PIPE
        return self.lab.popen([*command, "-Ic", _RELAY], stdin=pipe, stdout=pipe)

    @override
    def do(self, action: Action) -> Result:
        assert self._relay.stdin is not None
        assert self._relay.stdout is not None
        call = {"method": "org.hive.Privd.Apply", "parameters": {"action": encode(action)}}
        self._relay.stdin.write(json.dumps(call) + "\n")
        self._relay.stdin.flush()
        reply = json.loads(self._relay.stdout.readline())
        if reply is None:
            raise Killed
        if "error" in reply:
            raise from_wire(reply["error"], reply["parameters"])
        return read(action, reply["parameters"]["result"])


@pytest.fixture(scope="module")
def helper(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HelperWithFaults]:
    with HelperWithFaults(lab, tmp_path_factory.mktemp("shim")) as made:
        yield made


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as host:
        yield host


def steps(agent: Agent, above: Agent) -> list[Action]:
    """A life: made, started, killed, moved, archived, brought back, archived for good."""
    there = (*above.lineage, agent.lineage[-1])
    return [
        MakeNode(agent.lineage), MakeSocketDirectory(agent.uuid), agent.mount, agent.start,
        MoveNode(agent.lineage, there), KillUnit(agent.uuid, agent.name), Unmount(agent.uuid),
        ArchiveNode(there, agent.uuid), RestoreNode(agent.uuid, agent.lineage),
        ArchiveNode(agent.lineage, agent.uuid), RemoveSocketDirectory(agent.uuid),
    ]  # fmt: skip


def live(
    helper: HelperWithFaults, above: Agent, kill: tuple[int, int] | None = None
) -> list[list[str]]:
    """A life, with the helper killed before a point of one step; the points of each step."""
    agent, points = helper.agent(command=("sleep", "infinity")), []
    for number, action in enumerate(steps(agent, above)):
        at = kill[1] if kill and kill[0] == number else 0
        helper.faults.arm("/", KINDS, Act.KILL_BEFORE if at else Act.NOTHING, at)
        try:
            helper.do(action)
        except Killed:
            assert at, action
            helper.faults.disarm()
            _again(helper, action)
        helper.faults.disarm()
        points.append([_label(name) for name in helper.faults.names()])
        if isinstance(action, KillUnit):
            helper.exit_of(agent)
    _check_nothing_is_left(helper, agent)
    return points


def _again(helper: HelperWithFaults, action: Action) -> None:
    """As hived would; a start that had happened is a conflict, and found to run."""
    if isinstance(action, StartUnit):
        unit = f"hive-agent@{action.name}.service"
        if helper.show(unit, "ActiveState") in ("active", "activating"):
            return
    for _ in range(TRIES):  # a helper may accept a connection and then be killed
        with suppress(Killed):
            helper.do(action)
            return
    raise Killed


def _check_nothing_is_left(helper: HelperWithFaults, agent: Agent) -> None:
    mounts = helper.lab.run(["cat", "/proc/self/mounts"]).stdout
    assert agent.uuid not in mounts, mounts
    assert helper.show(agent.unit, "ActiveState") == "inactive"
    assert not helper.lab.path(f"/run/hive/agents/{agent.uuid}").exists()
    assert not helper.lab.path(agent.node).exists()
    archive = helper.lab.path(f"/var/lib/hive/tree/.archive/{agent.uuid}")
    assert sorted(path.name for path in archive.iterdir()) == ["config", "kids", "state"]
    assert not helper.lab.path(f"/var/lib/hive/mounts/{agent.uuid}").exists()


def _label(name: str) -> str:
    return _VOLATILE.sub("*", name)


@pytest.mark.sized
def test_a_root_helper_killed_at_any_point_can_continue(helper: HelperWithFaults) -> None:
    above = helper.agent()
    helper.do(MakeNode(above.lineage))
    points: dict[tuple[int, str], int] = {}
    for step, names in enumerate(live(helper, above)):
        for at, name in enumerate(names, 1):
            points.setdefault((step, name), at)
    number = seed()
    chosen = sorted(points) * times(1, 3)
    if times(1, 0):
        chosen = random.Random(number).sample(chosen, 8)  # noqa: S311 - no secret
    for step, name in chosen:
        try:
            live(helper, above, (step, points[step, name]))
        except BaseException as error:
            error.add_note(f"killed at step {step}: {name}; seed {number}")
            raise
    figure("root helper killed", points=len(points), kills=len(chosen), seed=number)
