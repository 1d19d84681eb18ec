"""The real sockets, broker, ledger and repo in a process of their own: FOLDER AGENTS PATIENCE.

Agent number n listens on FOLDER/a<n>.sock, the operator on operator.sock, and services that carry
logins, as the user that runs this, on login.sock. A second start on the same folder goes on with
what the first one wrote. PATIENCE divides the seconds that a peer may
take.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from fixtures.broker import NothingObserved, SlowReads

from hive_core.broker.batch import Services
from hive_core.broker.core import Broker
from hive_core.host.git.repo import MetaRepo
from hive_core.host.sockets.connection import PATIENCE
from hive_core.host.sockets.server import SocketServer
from hive_core.host.systemd.clock import SystemClock
from hive_core.host.systemd.watchdog import freeze_heap
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.topology import Topology
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.operations import load
from hive_core.surfaces.service import introspection_methods

ROOT = Path(__file__).resolve().parents[2]
# One sender must not be the measure of a thousand.
BOUNDS = HostLimits(
    inbox_count=10**8, inbox_bytes=10**12, send_rate=10**9, send_burst=10**9,
    change_rate=10**9, change_burst=10**9, commit_rate=10**9, commit_burst=10**9,
)  # fmt: skip


class HiveProcess:
    """Such a process, ready."""

    def __init__(self, folder: Path, pid: int) -> None:
        self.folder, self.pid = folder, pid

    def path(self, number: int) -> Path:
        return self.folder / f"a{number}.sock"

    @property
    def memory(self) -> float:
        """Resident MiB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    @property
    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


class HiveDaemon(HiveProcess):
    """Such a process that this one starts, and starts again on the same disk."""

    def __init__(self, folder: Path, agents: int, patience: float) -> None:
        self._argv = [
            sys.executable, "-m", "fuzz.served", str(folder), str(agents), str(patience),
        ]  # fmt: skip
        self._process = self._start()
        super().__init__(folder, self._process.pid)
        self._await_ready()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def restart(self) -> None:
        """End it as a crash does, and start it again."""
        self.kill()
        self._process = self._start()
        self.pid = self._process.pid
        self._await_ready()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **of_the_unit(), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
        return subprocess.Popen(self._argv, stdout=subprocess.PIPE, env=environment)

    def _await_ready(self) -> None:
        if self._process.stdout is None or self._process.stdout.readline() != b"ready\n":
            self.kill()
            raise RuntimeError("the service does not start")


@contextmanager
def serve_in_process(folder: Path, agents: int, patience: float = 1.0) -> Iterator[HiveDaemon]:
    hived = HiveDaemon(folder, agents, patience)
    try:
        yield hived
        assert hived.is_running, "the service has ended"
    finally:
        hived.kill()


def of_the_unit() -> dict[str, str]:
    """The environment that systemd gives the daemon."""
    unit = (ROOT / "hive_core/host/unit_files/hived.service").read_text()
    lines = (line for line in unit.splitlines() if line.startswith("Environment="))
    pairs = (pair for line in lines for pair in line.partition("=")[2].split())
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def family(agents: int) -> Hive:
    specs = {"root": AgentSpec(uuid=UUID(int=1))}
    specs |= {f"a{number}": AgentSpec(uuid=UUID(int=number + 1 << 96)) for number in range(agents)}
    parents = {name: None if name == "root" else "root" for name in specs}
    return Hive(topology=Topology(parents), specs=specs).validate()


def write_family(ledger: Ledger, repo: MetaRepo, agents: int) -> Hive:
    """Make the first commit: the family of so many agents."""
    hive = family(agents)
    oid = repo.write(hive, Hive(), "family", {})
    with repo.hold("") as move, ledger.transaction():
        ledger.head = oid
        move(oid)
    return hive.at_commit(oid)


async def serve(folder: Path, agents: int, patience: float) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    settings, registry = Settings(limits=BOUNDS), load()
    with closing(Ledger.open(folder / "hive.db", limits=BOUNDS)) as ledger:
        repo = MetaRepo.open(folder / "meta")
        hive = repo.read(ledger.head) if ledger.head else write_family(ledger, repo, agents)
        world = Services(ledger, repo, settings, NothingObserved(), SystemClock())
        broker = Broker(world, hive, registry, introspection_methods(registry, "1"))
        result = replace(
            PATIENCE, first=PATIENCE.first / patience, begun=PATIENCE.begun / patience,
            deaf=PATIENCE.deaf / patience, look=PATIENCE.look / patience,
        )  # fmt: skip
        sockets = SocketServer(broker, SlowReads(), lambda _: os._exit(1), patience=result)
        for number in range(agents):
            path = folder / f"a{number}.sock"
            await sockets.listen(hive.specs[f"a{number}"].id, path, 0)
        await sockets.listen_operator(folder / "operator.sock")
        await sockets.listen_logins(folder / "login.sock", "", {os.getuid()})
        gc.collect()
        freeze_heap()  # as hived does when it serves
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
