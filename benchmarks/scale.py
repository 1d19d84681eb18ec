"""Many agents: what planning and a change cost as their number grows, and what hived itself takes.

Plans and changes are measured in this process (the meta repo on disk, in /var/tmp). hived is the
real one, in a lab, with a thousand agents that are declared and stopped, and later with a
connection of each of them that asked once and is idle.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from uuid import UUID

from e2e.hivehost import HiveHost
from e2e.labhost import Lab

from benchmarks.report.rows import ROUNDS, Row, seconds, with_aim
from hive_core.host.git.repo import MetaRepo
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredRun, DesiredState, Machine, Observed
from hive_core.model.agents.topology import Topology
from hive_core.model.config.settings import Settings
from hive_core.plan.desired import Desired, Moment
from hive_core.plan.diff import plan
from hive_core.plan.placement import Placement, Placements

COUNTS = (100, 1_000, 10_000)
DECLARED = 1_000
CHANGES = 40
IDLE = 15.0
FULL_EVERY = 60.0  # seconds between looks at the whole host
_BASE = 0x30000000
_INSIDE = "/usr/src/hive/benchmarks/inside"


def run() -> list[Row]:
    return [*_plans(), *_changes(), *_daemon()]


# Planning: everybody runs and is as it should be.


def _plans() -> Iterator[Row]:
    for count in COUNTS:
        desired, observed = all_is_well(count)
        assert not plan(desired, observed, Moment(0.0, 0.0)).steps
        again = lambda desired=desired, observed=observed: plan(desired, observed, Moment(0, 0))  # noqa: E731
        row = _row(f"plan with nothing to do, {count:,} agents", _best(again) * 1e3)
        row |= {"plot": "agents", "line": "plan with nothing to do", "x": count, "x_unit": "agents"}
        yield with_aim(row, "below 150 ms", at_most=150) if count == COUNTS[-1] else row


def _row(name: str, value: float, unit: str = "ms") -> Row:
    return {"name": name, "value": value, "unit": unit}


def _best(call: Callable[[], object]) -> float:
    return min(seconds(call) for _ in range(ROUNDS))


def forest(count: int) -> Hive:
    """So many agents, ten below each."""
    parents = {f"a{n}": f"a{(n - 1) // 10}" if n else None for n in range(count)}
    specs = {name: _spec(number) for number, name in enumerate(parents)}
    return Hive("c", Topology.forest(parents, 32), specs)


def _spec(number: int) -> AgentSpec:
    return AgentSpec(uuid=UUID(int=(number + 1) << 96 | 1))


def all_is_well(count: int) -> tuple[Desired, Observed]:
    places = Placements.build(forest(count), Settings())
    runs = {uuid: DesiredRun(uuid, DesiredState.RUNNING, 1) for uuid in places.by_uuid}
    bases = {uuid: _BASE + number * 65536 for number, uuid in enumerate(runs)}
    machines = {place.uuid: _machine(place) for place in places.by_uuid.values()}
    return Desired(places, Settings(), runs, bases), Observed(machines)


def _machine(place: Placement) -> Machine:
    return Machine(
        place.uuid,
        f"hive-agent@{place.name}.service",
        "active",
        "running",
        nonce=1,
        spec_hash=place.spec_hash,
        invocation="i",
        main_pid=7,
        leader=8,
        slice=place.slice_unit,
        verified=True,
        executed=True,
        node=place.lineage,
        mounted=True,
        socket_directory=True,
        listening=True,
        identity=place.identity,
        view=place.view,
    )


# A change: the commit that a spawn or a move makes, on disk with its branch moved.


def _changes() -> Iterator[Row]:
    for count in COUNTS:
        row = _row(f"commit of a change, p50, {count:,} agents", median(changes(count)) * 1e3)
        yield row | {"plot": "agents", "line": "commit of a change", "x": count, "x_unit": "agents"}


def changes(count: int) -> list[float]:
    """Seconds of each of some changes in a tree of so many."""
    with (
        TemporaryDirectory(dir="/var/tmp") as disk,
        TemporaryDirectory(dir="/dev/shm") as memory,
    ):
        return list(_commit_times(Path(memory) / "meta", Path(disk) / "meta", count))


def _commit_times(memory: Path, disk: Path, count: int) -> Iterator[float]:
    """The first commit has all of them; only those after it are on disk, and measured."""
    hive = _commit(MetaRepo.open(memory), forest(count), Hive())
    shutil.copytree(memory, disk, symlinks=True)
    repo = MetaRepo.open(disk)
    waiting: list[Callable[[], None]] = []
    repo.schedule = waiting.append
    for number in range(CHANGES):
        added = hive.with_agent(f"b{number}", "a0", _spec(count + number))
        after = hive.with_parent(f"a{count - 1 - number}", "a0") if number % 2 else added
        start = time.perf_counter()
        hive = _commit(repo, after, hive)
        yield time.perf_counter() - start
        while waiting:  # the files that people look at come after the reply
            waiting.pop()()


def _commit(repo: MetaRepo, hive: Hive, before: Hive) -> Hive:
    oid = repo.write(hive, before, "change", {"Hive-Caller": "operator"})
    with repo.hold(before.commit) as move:
        move(oid)
    return hive.at_commit(oid)


# hived itself.


def _daemon() -> Iterator[Row]:
    with Lab() as lab:
        host = HiveHost(lab)
        host.setup()
        bases = _declare(host)
        about = f"hived with {DECLARED:,} declared agents"
        ready = min(_restart_time(host) for _ in range(3))
        yield with_aim(
            _row(f"{about}: start to READY, best of 3", ready * 1e3), "below 2 s", at_most=2e3
        )
        yield _row(f"{about}: PSS", _memory(host), "MB")
        with _crowd(lab, bases) as held:
            about = f"hived with {DECLARED:,} declared agents and {held:,} idle connections"
            yield with_aim(_row(f"{about}: PSS", _memory(host), "MB"), "below 120 MB", at_most=120)
            yield from _idle(host, about)


def _declare(host: HiveHost) -> Mapping[str, int]:
    """Agents are made at once, and what they need is there when hived has looked at them all."""
    host.run("systemctl", "stop", "hived")
    user = ("setpriv", "--reuid=hive", "--regid=hive", "--init-groups", "--reset-env")
    made = host.run(*user, sys.executable, f"{_INSIDE}/declare.py", str(DECLARED - 1))
    host.run("systemctl", "start", "hived")
    bases: Mapping[str, int] = json.loads(made.stdout)
    sockets = [host.lab.path(f"/run/hive/agents/{uuid}/run/broker.sock") for uuid in bases]
    host.until(lambda: all(path.exists() for path in sockets), "sockets are missing", seconds=60)
    return bases


def _restart_time(host: HiveHost) -> float:
    host.run("systemctl", "stop", "hived")
    start = time.perf_counter()
    host.run("systemctl", "start", "hived")
    return time.perf_counter() - start


def _process(host: HiveHost) -> Path:
    pid = host.run("systemctl", "show", "--value", "--property=MainPID", "hived").stdout.strip()
    return host.lab.path(f"/proc/{pid}")


def _memory(host: HiveHost) -> float:
    """Megabytes that are its own, and its share of what it shares."""
    lines = (_process(host) / "smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


def _idle(host: HiveHost, about: str) -> Iterator[Row]:
    """Processor time of a while without any call, and of one look at the whole host."""
    time.sleep(2)  # what the connections began has ended
    before = _cpu_seconds(host)
    time.sleep(IDLE)
    idle = (_cpu_seconds(host) - before) / IDLE
    before = _cpu_seconds(host)
    host.call("Converge")
    time.sleep(3)
    full = _cpu_seconds(host) - before - 3 * idle
    yield _row(f"{about}: a look at the whole host, processor time", full * 1e3)
    share = (idle + full / FULL_EVERY) * 100
    row = _row(f"{about}: no-op passes, share of a core", share, "%")
    yield with_aim(row, "below 1 % of a core", at_most=1)


def _cpu_seconds(host: HiveHost) -> float:
    fields = (_process(host) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _crowd(lab: Lab, bases: Mapping[str, int]) -> Iterator[int]:
    """An idle connection of each of them."""
    program, pipe = ["/usr/bin/python3", f"{_INSIDE}/crowd.py"], subprocess.PIPE
    crowd = lab.popen(program, stdin=pipe, stdout=pipe)
    assert crowd.stdin is not None
    assert crowd.stdout is not None
    try:
        crowd.stdin.write(json.dumps(bases) + "\n")
        crowd.stdin.flush()
        yield int(crowd.stdout.readline())
    finally:
        crowd.kill()
        crowd.communicate()
