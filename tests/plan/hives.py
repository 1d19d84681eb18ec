"""Hives and hosts for the tests of the change road: small ones by hand, random ones by drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from hypothesis import strategies as st

from hive_core.model.agents.agent import AgentSpec, Limits, Role, SubtreeLimits
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredRun, DesiredState, FailureHistory
from hive_core.model.agents.topology import Topology
from hive_core.model.config.settings import Settings
from hive_core.plan import actions as a
from hive_core.plan.daemon_actions import Forget, RequestRestart
from hive_core.plan.desired import Desired, Moment, ReconcilePlan, ReconcileStep
from hive_core.plan.diff import plan
from hive_core.plan.placement import Placements
from hive_core.testing import ManualClock, MemoryMachines

SETTINGS = Settings()
FIRST_BASE = 0x30000000


def uuid(number: int) -> str:
    return str(UUID(int=(number + 1) << 96 | 1))


def spec(number: int, **fields: object) -> AgentSpec:
    return AgentSpec.model_validate({"uuid": uuid(number), **fields})


def hive(parents: Mapping[str, str | None], specs: Mapping[str, AgentSpec] | None = None) -> Hive:
    """A hive by the map name -> parent; agents are numbered as they come."""
    usual = {name: spec(number) for number, name in enumerate(parents)}
    return Hive("c", Topology.forest(parents, 100), {**usual, **(specs or {})})


@dataclass
class World:
    """Desired and a host, and passes between them, without a ledger."""

    hive: Hive
    settings: Settings = SETTINGS
    clock: ManualClock = field(default_factory=ManualClock)
    runs: dict[str, DesiredRun] = field(default_factory=dict)
    starts: dict[str, FailureHistory] = field(default_factory=dict)
    archives: dict[str, float] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.host = MemoryMachines(self.clock, lambda: {*self.places.by_uuid, *self.archives})
        self.change(self.hive)

    def change(self, hive: Hive) -> None:
        """Commit another hive; who is new should run."""
        before = set(self.hive.names)
        self.hive = hive
        self.places = Placements.build(hive, self.settings)
        for name in hive.names:
            self.runs.setdefault(name, DesiredRun(name, DesiredState.RUNNING, 1))
        for name in before - set(hive.names):
            self.archives[name] = self.clock.now() + self.settings.retention.archive
            self.runs.pop(name, None)

    def want(self, name: str, wanted: DesiredState, grace: float = 5.0) -> None:
        uuid = self.hive.specs[name].id
        bump = wanted is DesiredState.RUNNING
        run = self.runs[uuid]
        self.runs[uuid] = DesiredRun(uuid, wanted, run.nonce + bump, grace, self.clock.now())

    @property
    def desired(self) -> Desired:
        numbers = {uuid: n for n, uuid in enumerate((*self.places.by_uuid, *self.archives))}
        bases = {uuid: FIRST_BASE + n * a.RANGE for uuid, n in numbers.items()}
        return Desired(
            self.places, self.settings, self.runs, bases, self.starts, self.archives,
            frozenset(self.held),
        )  # fmt: skip

    @property
    def moment(self) -> Moment:
        return Moment(self.clock.now(), self.clock.monotonic())

    def plan(self, dirty: Sequence[str] | None = None) -> ReconcilePlan:
        return plan(self.desired, self.host.snapshot(), self.moment, dirty)

    def converge(self, passes: int = 200) -> int:
        """Pass after pass until there is nothing left to do; says how many it took."""
        for number in range(passes):
            steps = self.plan().steps
            if not steps:
                return number
            for step in steps:
                self._do(step)
        raise AssertionError([step.text for step in self.plan().steps])

    def _do(self, step: ReconcileStep) -> None:
        match step.action:
            case RequestRestart(uuid):
                run = self.runs[uuid]
                self.runs[uuid] = replace(run, nonce=run.nonce + 1)
            case Forget(uuid):
                self.archives.pop(uuid, None)
            case a.RunJob() as job:
                if job.work is a.JobKind.COPY_TREE:
                    self.host.storage.roots.add(job.job)
            case action:
                self.host.apply_now(action)

    def uuid(self, name: str) -> str:
        return self.hive.specs[name].id


@st.composite
def hives(draw: st.DrawFn, most: int = 12) -> Hive:
    """A random forest with random specs."""
    count = draw(st.integers(1, most))
    names = [f"a{number}" for number in range(count)]
    parents: dict[str, str | None] = {}
    specs: dict[str, AgentSpec] = {}
    for number, name in enumerate(names):
        parents[name] = draw(st.sampled_from([None, *names[:number]]))
        specs[name] = draw(_specs(number))
    return hive(parents, specs)


@st.composite
def _specs(draw: st.DrawFn, number: int) -> AgentSpec:
    limit = draw(st.sampled_from([None, 1 << 30]))
    return AgentSpec(
        uuid=UUID(uuid(number)),
        role=draw(st.sampled_from([Role.DAEMON, Role.AGENT, Role.WORKER])),
        image=draw(st.sampled_from(["host", "debian"])),
        boot=draw(st.booleans()),
        limits=Limits(memory_max=draw(st.sampled_from([None, 1 << 28]))),
        subtree=SubtreeLimits(memory_max=limit) if limit else None,
    )


@st.composite
def move(draw: st.DrawFn, before: Hive, turn: int = 0) -> Hive:
    """Another hive with some of the same agents in other places, some gone, some new."""
    names = [name for name in before.specs if draw(st.integers(0, 4))]
    order = draw(st.permutations(names))
    parents: dict[str, str | None] = {}
    for index, name in enumerate(order):
        parents[name] = draw(st.sampled_from([None, *order[:index]]))
    specs = {name: before.specs[name] for name in order}
    for number in range(draw(st.integers(0, 3))):
        name = f"b{turn}x{number}"
        parents[name] = draw(st.sampled_from([None, *specs]))
        specs[name] = draw(_specs(1000 * (turn + 1) + number))
    return Hive("d", Topology.forest(parents, 100), specs)
