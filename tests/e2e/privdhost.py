"""A lab with nothing of hive but the root helper, and a caller with hived's rights."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from e2e.labhost import Lab, LabError
from long import at_most

from hive_core.errors import HiveError, from_wire
from hive_core.plan.actions import (
    AGENT_BASES,
    JOB_BASES,
    RANGE,
    STORAGE_BASE,
    Action,
    MakeNode,
    MakeSocketDirectory,
    Mount,
    ObserveStorage,
    ObserveUnit,
    RemoveSocketDirectory,
    RunJob,
    StartUnit,
    StopUnit,
    UnitLimits,
    Unmount,
)  # fmt: skip
from hive_core.plan.results import Done, Result, StorageFacts, UnitFacts, encode, read

PACKAGE = "/usr/src/hive/hive_core"
_SETUP = f"""
useradd --system --user-group --home-dir /var/lib/hive --shell /usr/sbin/nologin hive
sed 's,@PACKAGE@,{PACKAGE},;s,@BIN@,/usr/local/bin,' {PACKAGE}/privd/unit_files/hive-privd.service \
    >/etc/systemd/system/hive-privd.service
cp {PACKAGE}/privd/unit_files/hive.tmpfiles /etc/tmpfiles.d/hive.conf
systemd-tmpfiles --create hive.conf
systemctl daemon-reload
systemctl start hive-privd
"""
# What hived will do: frames in, frames out, from a process with hived's user.
_RELAY = """
import socket, sys
wire = socket.socket(socket.AF_UNIX); wire.connect("/run/hive/privd.sock")
for line in sys.stdin.buffer:
    wire.sendall(line.rstrip(b"\\n") + b"\\0"); got = b""
    while not got.endswith(b"\\0"): got += wire.recv(1 << 20)
    sys.stdout.buffer.write(got[:-1] + b"\\n"); sys.stdout.buffer.flush()
"""
# An agent that runs what it finds in `do`, so that all of it is confined like an agent. It waits in
# a pipe for being told to: many of them run at once, and one that looks again and again is busy.
_OBEY = """
[ -p go ] || mkfifo go
exec 3<>go
while read -r _ <&3; do
    sh do >said 2>&1 </dev/null 3<&-; echo $? >code; mv do done
done
"""
# A tree that an operator prepared, called `plain`.
_PLAIN = """
mount -t tmpfs tmpfs /srv  # idmapped mounts are refused on the lab's overlay
mkdir -p /srv/tree/{usr,etc,dev,root}; cp -a /etc/os-release /etc/passwd /etc/group /srv/tree/etc
programs=$(for name in sh sleep cat stat mv rm ls ln echo mkfifo; do echo /usr/bin/$name; done)
cp -L --parents $programs $(ldd $programs | grep -o '/lib[^ ]*' | sort -u | sed s,^,/usr,) /srv/tree
for name in bin lib lib64; do ln -s usr/$name /srv/tree/$name; done
mknod /srv/tree/dev/null c 1 3; echo hello >/srv/tree/root/hi; chown 1000:1000 /srv/tree/root/hi
mkdir -p /etc/hive; echo "plain /srv/tree" >/etc/hive/images
"""


@dataclass(frozen=True)
class Agent:
    number: int
    lineage: tuple[str, ...]
    name: str
    boot: bool = False
    image: str = "host"
    command: tuple[str, ...] = ("sh", "-c", _OBEY)
    slice: tuple[str, ...] = ()
    limits: UnitLimits = field(default_factory=UnitLimits)
    nonce: int = 1
    parent: str | None = None
    patience: int = 120_000

    @property
    def uuid(self) -> str:
        return f"{self.number:08x}-0000-4000-8000-{self.number:012x}"

    @property
    def base(self) -> int:
        return AGENT_BASES[self.number]

    @property
    def unit(self) -> str:
        return f"hive-agent@{self.name}.service"

    @property
    def node(self) -> Path:
        return Path("/var/lib/hive/tree", *"/kids/".join(self.lineage).split("/"))

    @property
    def mount(self) -> Mount:
        return Mount(self.uuid, self.lineage, self.base, self.image)

    @property
    def start(self) -> StartUnit:
        return StartUnit(
            uuid=self.uuid, name=self.name, nonce=self.nonce, spec="abc", base=self.base,
            slice=self.slice, limits=self.limits, image=self.image, boot=self.boot,
            parent=self.parent, command=self.command, patience=self.patience,
        )  # fmt: skip


class PrivdHost:
    """A lab, its root helper, and the steps that hived takes."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._numbers = itertools.count(1)
        lab.run(["sh", "-ec", _SETUP])
        self._relay = self._connect()

    def _connect(self) -> subprocess.Popen[str]:
        command = ["setpriv", "--reuid=hive", "--regid=hive", "--clear-groups", "/usr/bin/python3"]
        pipe = subprocess.PIPE
        return self.lab.popen([*command, "-Ic", _RELAY], stdin=pipe, stdout=pipe)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()

    def raw(self, call: object) -> dict[str, object]:
        assert self._relay.stdin is not None
        assert self._relay.stdout is not None
        self._relay.stdin.write(json.dumps(call) + "\n")
        self._relay.stdin.flush()
        reply: dict[str, object] = json.loads(self._relay.stdout.readline())
        return reply

    def do(self, action: Action) -> Result:
        method = "org.hive.Privd.Apply"
        reply = self.raw({"method": method, "parameters": {"action": encode(action)}})
        parameters = reply["parameters"]
        assert isinstance(parameters, dict)
        if "error" in reply:
            raise from_wire(str(reply["error"]), parameters)
        return read(action, parameters["result"])

    def hang_up(self) -> None:
        self._relay.kill()
        self._relay.communicate()

    def reconnect(self) -> None:
        self.hang_up()
        self._relay = self._connect()

    def has_mounts(self, agent: Agent) -> bool:
        """Say whether all that is to be mounted was; now it is."""
        return self.do(agent.mount) == Done(changed=False)

    def agent(self, above: Agent | None = None, **more: object) -> Agent:
        number = next(self._numbers)
        lineage = (*(above.lineage if above else ()), f"{number:08x}")
        fresh = Agent(number, lineage, f"agent-{number}", parent=above.name if above else None)
        return replace(fresh, **more)  # type: ignore[arg-type]

    def prepare(self, agent: Agent) -> None:
        for action in (
            MakeNode(agent.lineage),
            MakeSocketDirectory(agent.uuid),
            Unmount(agent.uuid),
        ):
            self.do(action)
        self.do(agent.mount)

    def launch(self, agent: Agent) -> Agent:
        """Start an agent and wait until root sees that it runs."""
        self.prepare(agent)
        self.do(agent.start)
        try:
            self.until(lambda: self.runs(agent), f"{agent.name} does not run")
        except LabError as error:
            raise LabError(f"{error}: {self.log('-u', agent.unit)}") from None
        return agent

    def running(self, above: Agent | None = None, **more: object) -> Agent:
        return self.launch(self.agent(above, **more))

    def facts(self, agent: Agent) -> UnitFacts:
        pid = int(self.show(agent.unit, "MainPID") or 0)
        if pid == 0:
            return UnitFacts(ours=False, mapped=False, payload=False, tree=False, leader=0)
        result = self.do(ObserveUnit(agent.uuid, agent.name, agent.lineage, agent.base, pid))
        assert isinstance(result, UnitFacts)
        return result

    def runs(self, agent: Agent) -> bool:
        if self.show(agent.unit, "ActiveState") != "active":
            return False
        facts = self.facts(agent)
        return facts.ours and facts.mapped and facts.payload and facts.tree

    def stop(self, agent: Agent) -> dict[str, object]:
        self.do(StopUnit(agent.uuid, agent.name))
        return self.exit_of(agent)

    def exit_of(self, agent: Agent) -> dict[str, object]:
        gone = lambda: self.show(agent.unit, "ActiveState") == "inactive"  # noqa: E731
        self.until(gone, f"{agent.name} does not end", seconds=30)
        return self.exit_record(agent.uuid)

    def exit_record(self, uuid: str) -> dict[str, object]:
        record: dict[str, object] = json.loads(self.lab.path(f"/run/hive/exits/{uuid}").read_text())
        return record

    def job(self, job: RunJob) -> dict[str, object]:
        """Run a job to its end and take its mounts away."""
        self.do(job)
        unit = f"hive-job@{job.job}.service"
        self.until(lambda: self.show(unit, "ActiveState") == "inactive", f"{unit} does not end")
        self.do(Unmount(job.job))
        return self.exit_record(job.job)

    def a_job(self) -> tuple[str, int]:
        """Give a UUID and a range for a job."""
        number = next(self._numbers)
        return (f"{number:08x}-0000-4000-9000-{number:012x}", JOB_BASES[number % len(JOB_BASES)])

    def prepare_tree(self) -> None:
        self.lab.run(["bash", "-ec", _PLAIN])

    def say(self, agent: Agent, script: str, *, check: bool = True) -> str:
        """Run a script in an obedient agent; return its output."""
        state = self.lab.path(agent.node / "state")
        (state / "do.new").write_text(script)
        os.chown(state / "do.new", STORAGE_BASE, STORAGE_BASE)  # else nobody's, and immovable
        (state / "done").unlink(missing_ok=True)
        (state / "do.new").rename(state / "do")
        self.until(lambda: _rung(state / "go"), f"{agent.name} does not listen")
        self.until((state / "done").exists, f"{agent.name} does not obey: {script}")
        said, code = (state / "said").read_text(), (state / "code").read_text().strip()
        if check and code != "0":
            raise LabError(f"{script!r} ended with {code}: {said}")
        return said.rstrip("\n")

    def enter(self, agent: Agent, *command: str) -> str:
        """Run a command in a container as the operator's shell does; it is not confined."""
        leader = str(self.facts(agent).leader)
        enter = ["nsenter", "--target", leader, "--all", "--", *command]
        return self.lab.run(enter, check=False).stdout.rstrip("\n")

    def show(self, unit: str, property_: str) -> str:
        return self.lab.run(["systemctl", "show", "--value", "-p", property_, unit]).stdout.strip()

    def log(self, *match: str) -> Sequence[str]:
        self.lab.run(["journalctl", "--sync"])
        output = self.lab.run(["journalctl", "--output=cat", *match], check=False).stdout
        return output.splitlines()

    def end_all(self) -> None:
        """End all agents and jobs, and take away what is mounted for them."""
        units = ("hive-agent@*", "hive-job@*")
        self.lab.run(["systemctl", "kill", "--signal=KILL", *units], check=False)
        listed = ["systemctl", "list-units", "--plain", "--no-legend", *units]
        self.until(lambda: self.lab.run(listed).stdout == "", "an agent does not end", 30)
        self.reconnect()
        facts = self.do(ObserveStorage())
        assert isinstance(facts, StorageFacts)
        for uuid in facts.mounts:
            self.do(Unmount(uuid))
        for uuid in facts.socket_directories:
            self.do(RemoveSocketDirectory(uuid))

    @staticmethod
    def until(condition: Callable[[], bool], failure: str, seconds: float = 15) -> None:
        deadline, began = time.monotonic() + at_most(seconds), time.monotonic()
        while not condition():
            if time.monotonic() > deadline:
                raise LabError(failure)
            # Who looks by starting processes leaves the machine to what it waits for.
            time.sleep(max(0.02, time.monotonic() - began))
            began = time.monotonic()


class SharedPrivdHost:
    """The lab of the files about the root helper: each of them begins without agents."""

    def __init__(self) -> None:
        self._host: PrivdHost | None = None

    def prepare(self) -> PrivdHost:
        if self._host is not None:
            try:
                self._host.end_all()
            except (AssertionError, HiveError, LabError, OSError, ValueError):  # of a failed test
                self.close()
        if self._host is None:
            self._host = PrivdHost(Lab().start())
        return self._host

    def close(self) -> None:
        if self._host is not None:
            self._host.hang_up()
            self._host.lab.stop()
            self._host = None


def _rung(pipe: Path) -> bool:
    """Tell an obedient agent to look; whether it was there to be told."""
    try:
        opened = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.write(opened, b"\n") == 1
    finally:
        os.close(opened)


def inside(base: int, uid: str) -> bool:
    """Say whether a uid lies in the range that starts there."""
    return base <= int(uid) < base + RANGE
