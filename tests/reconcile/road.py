"""A change road on a host in memory, with a real ledger and a hive that tests change by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from seeds import empty_ledger

from hive_core.broker.call import Call, Change, Record
from hive_core.broker.operation import Result
from hive_core.errors import HiveError
from hive_core.ledger.agents.archives import Archive
from hive_core.ledger.agents.revocations import NewRevocation
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredState, Machine, State
from hive_core.model.config.settings import Paths, Settings
from hive_core.model.wire.record import DAEMON, JobRecord, Message
from hive_core.plan.actions import JobKind, RunJob
from hive_core.plan.revocation import consequences
from hive_core.reconcile.deps import BrokerHandle, Ports
from hive_core.reconcile.observed import ObservedState
from hive_core.reconcile.reconciler import Reconciler
from hive_core.testing import ManualClock, MemoryJobs, MemoryJournal, MemoryMachines

MANY = 400
R = TypeVar("R", bound=Result)


class Road:
    """`settle` runs passes until nothing is left to do; time stands still meanwhile."""

    def __init__(self, folder: Path, hive: Hive, settings: Settings | None = None) -> None:
        paths = Paths(state=folder / "state", runtime=folder / "run")
        self.settings = (settings or Settings()).model_copy(update={"paths": paths})
        self.hive = hive
        self.clock = ManualClock()
        empty_ledger().plant(folder)
        self.ledger = Ledger.open(folder / "hive.db", limits=self.settings.limits, primed=0)
        self.host = MemoryMachines(self.clock)
        self.journal = MemoryJournal()
        self.links = 0  # of those who lose access, that are found outside
        self.jobs = MemoryJobs(self.host, work=paths.work)
        self.jobs.programs[JobKind.OWN_INODES] = self._own_inodes
        self.topics: list[str] = []
        self.how: dict[str, Any] = {}  # of a move: `restart`, `latest`
        self.faults: list[BaseException] = []
        self.restart()

    def restart(self) -> None:
        """The daemon starts anew: what it remembered is gone, the host is not."""
        self.host.forget_watchers()
        look = ObservedState.build(self.ledger, self.settings, self.hive, self.clock)
        ports = Ports(self.host, self.journal, self.jobs, self.clock, self.ledger, self.settings)
        broker_handle = BrokerHandle(lambda: self.hive, self.topics.extend, self._perform)
        self.road = Reconciler.build(ports, broker_handle, look, self.faults.append)
        self.look = look
        self.host.known = look.uuids

    def _own_inodes(self, _: RunJob, folder: Path) -> None:
        figures = {"files": 9, "links": self.links}
        (folder / "out/said.json").write_text(json.dumps({"ok": True, "figures": figures}))

    def _perform(self, name: str, handler: Callable[[Call], Change[R] | Record[R]]) -> R:
        """As the broker does it, without commits and without the audit log."""
        topics: list[str] = []
        with self.ledger.transaction():
            result = handler(Call(
                DAEMON, DAEMON, name, self.clock.now(), self.hive, self.ledger, self.settings,
                self.look, topics,
            ))  # fmt: skip
        self.topics.extend(topics)
        self.road.on_topics(frozenset(topics))
        return result.result

    async def settle(self) -> None:
        for _ in range(MANY):
            await self.road.converge()
            while busy := [*self.road.runner.busy.values(), *self.road.revoker.tasks.busy.values()]:
                await asyncio.gather(*busy)
            if self.road.idle:
                assert not self.faults, self.faults
                return
        raise AssertionError("it never settles")

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.settle()

    async def commit(self, hive: Hive, **goals: str) -> JobRecord:
        """As an operation does, and what follows."""
        job = self.begin(hive, **goals)
        await self.settle()
        return self.job(job.id)

    def begin(self, hive: Hive, **goals: str) -> JobRecord:
        """The next hive, the rows that belong to it, a job."""
        before, self.hive = self.hive, hive
        now = self.clock.now()
        with self.ledger.transaction():
            for uuid in before.names.keys() - hive.names.keys():
                spec = before.specs[before.names[uuid]].model_dump_json()
                expires = now + self.settings.retention.archive
                name = before.names[uuid]
                self.ledger.archives.put(Archive(uuid, name, spec, None, now, expires))
                self.ledger.runs.want(uuid, DesiredState.STOPPED, now, reason="destroyed")
            known = {**{n: s.id for n, s in before.specs.items()},
                     **{n: s.id for n, s in hive.specs.items()}}  # fmt: skip
            wanted = {known[name]: goal for name, goal in goals.items()}
            job = self.ledger.jobs.create("test", "operator", wanted, now)
            for name in (agent for agent, goal in goals.items() if goal == "moved"):
                result = consequences(before, hive, name)
                if result.lost:
                    lost = tuple(hive.spec(agent).id for agent in result.lost)
                    new = NewRevocation(job.id, hive.spec(name).id, name, lost, **self.how)
                    id_ = self.ledger.revocations.create(new, now)
                    if self.how.get("restart", True):
                        noted = {hive.spec(agent).id: 0 for agent in result.losing}
                        self.ledger.revocations.set_nonces(id_, noted)
        self.road.on_topics(frozenset({"tree"}))
        return job

    async def want(
        self,
        wanted: DesiredState,
        *names: str,
        goal: str = "",
        grace: float = 5.0,
        fresh: bool = False,
    ) -> JobRecord:
        """As start, stop, kill and restart do."""
        uuids = [self.uuid(name) for name in names]
        with self.ledger.transaction():
            for uuid in uuids:
                self.ledger.runs.want(uuid, wanted, self.clock.now(), grace=grace, fresh=fresh)
            goals = dict.fromkeys(uuids, goal or wanted.value)
            job = self.ledger.jobs.create("test", "operator", goals, self.clock.now())
        self.road.on_topics(frozenset(f"run:{uuid}" for uuid in uuids))
        await self.settle()
        return self.job(job.id)

    def job(self, job_id: str) -> JobRecord:
        result = self.ledger.jobs.get(job_id)
        assert result is not None
        return result

    def uuid(self, name: str) -> str:
        return self.hive.specs[name].id

    def state(self, name: str) -> State:
        return self.look.state(self.uuid(name))

    def states(self) -> Mapping[str, State]:
        return {name: self.state(name) for name in self.hive.specs}

    def unit(self, name: str) -> Machine:
        return self.host.units[self.uuid(name)]

    def mail(self, name: str) -> list[Message]:
        return self.ledger.messages.inbox(self.uuid(name), dead=False, limit=100)

    def events(self, kind: str) -> list[str]:
        return [event.reason for event in self.ledger.events.page(0, 1000) if event.kind == kind]

    def refuse(self, action: str, error: HiveError) -> None:
        self.host.refused[action] = error

    async def close(self) -> None:
        for task in (*self.road.runner.busy.values(), *self.road.revoker.tasks.busy.values()):
            task.cancel()
        self.ledger.close()


def hive(parents: Mapping[str, str | None], **specs: Mapping[str, object]) -> Hive:
    """A hive by name -> parent, with fields of some specs."""
    result = Hive()
    for name, parent in parents.items():
        spec = AgentSpec.model_validate({"uuid": uuid4(), **specs.get(name, {})})
        result = result.with_agent(name, parent, spec)
    return result.at_commit("c0")
