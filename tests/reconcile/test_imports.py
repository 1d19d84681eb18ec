"""Files of an older install on their way into a state: rows H15 and H19, the daemon's part."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.world import World, world

from hive_core.errors import Internal
from hive_core.model.config.settings import Paths, Settings
from hive_core.model.wire.record import OPERATOR
from hive_core.plan.actions import JobKind, RunJob
from hive_core.reconcile.deps import BrokerHandle, Ports
from hive_core.reconcile.jobs.import_state import TRIES, ImportJobs
from hive_core.testing import MemoryJobs, MemoryJournal, MemoryMachines

SOURCE = "import-0123456789abcdef"


class Host:
    """A world with a change path for imports alone; `say` is what the job leaves behind."""

    def __init__(self, made: World) -> None:
        self.world = made
        self.say: dict[str, object] = {"ok": True, "figures": {"files": 3}}
        machines = MemoryMachines(made.clock)
        self.jobs = MemoryJobs(machines, work=made.settings.paths.work)
        self.jobs.programs[JobKind.IMPORT_STATE] = self._program
        self.ports = Ports(
            machines, MemoryJournal(), self.jobs, made.clock, made.ledger, made.settings
        )
        self.imports = self.again()

    def again(self) -> ImportJobs:
        """Another daemon's."""
        broker = BrokerHandle(
            lambda: self.world.hive, self.world.broker.touch, self.world.broker.perform
        )
        imports = ImportJobs.build(self.ports, broker, self._fatal)
        self.world.broker.listeners[:] = [self._on_topics]
        self.imports = imports
        return imports

    def _on_topics(self, topics: frozenset[str]) -> None:
        self.world.loop.call_soon(self.imports.on_topics, topics)

    def begin(self) -> None:
        self.world.loop.call_soon(self.imports.start)

    def _fatal(self, error: BaseException) -> None:
        raise error

    def _program(self, _: RunJob, folder: Path) -> None:
        (folder / "out/said.json").write_text(json.dumps(self.say))

    def ask(self, agent: str = "ann", into: str = "") -> str:
        words = {"agent": agent, "source": SOURCE, "into": into}
        return str(self.world.call(OPERATOR, "import_state", **words)["job"])

    def settle(self) -> None:
        for _ in range(200):
            self.world.loop.run_until_complete(asyncio.sleep(0))
            self.world.run()

    def job(self, id_: str) -> dict[str, object]:
        return self.world.call(OPERATOR, "get_job", id=id_)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    settings = Settings(paths=Paths(state=tmp_path / "state", runtime=tmp_path / "run"))
    with world(settings, "root/ann") as made:
        yield Host(made)


def test_a_job_copies_them_and_says_how_much_it_was(host: Host) -> None:
    host.begin()
    job = host.ask(into="old-config")
    host.settle()
    assert (host.job(job)["state"], host.job(job)["progress"]) == ("done", {"files": 3})
    (ran,) = host.jobs.ran
    hive = host.world.hive
    assert (ran.uuid, ran.lineage) == (hive.spec("ann").id, hive.path("ann"))
    assert (ran.image, ran.words) == (SOURCE, (SOURCE, "old-config"))
    assert not list(host.ports.settings.paths.work.iterdir()), "nothing is left of the exchange"


def test_what_was_asked_for_before_a_kill_is_done_by_the_next_daemon(host: Host) -> None:
    job = host.ask()  # nobody has begun
    host.settle()
    assert host.job(job)["state"] == "running"
    host.again()
    host.begin()
    host.settle()
    assert host.job(job)["state"] == "done"
    assert len(host.jobs.ran) == 1


def test_a_refusal_of_the_job_is_the_end_of_it_and_its_reason(host: Host) -> None:
    host.begin()
    host.say = {"ok": False, "rule": "place", "path": "old", "text": "is no folder"}
    job = host.ask()
    host.settle()
    assert host.job(job)["error"] == "Conflict: old: is no folder (place)"


def test_a_job_that_breaks_is_tried_again_and_in_the_end_told(host: Host) -> None:
    host.begin()
    host.jobs.refused = Internal("job import_state broke")
    job = host.ask()
    for number in range(1, TRIES + 1):
        host.settle()
        assert len(host.jobs.ran) == number
        host.world.loop.call_soon(host.world.clock.advance, 60)
    host.settle()
    assert host.job(job)["error"] == "Internal: job import_state broke"
    assert len(host.jobs.ran) == TRIES


def test_an_agent_that_was_destroyed_meanwhile_gets_nothing(host: Host) -> None:
    job = host.ask()
    host.world.call(OPERATOR, "destroy", agent="ann")
    host.again()
    host.begin()
    host.settle()
    assert host.job(job)["error"] == "NotFound: the agent was destroyed meanwhile"
    assert host.jobs.ran == []


def test_only_the_operator_may_and_only_what_root_has_entered(host: Host) -> None:
    made = host.world
    assert made.fault("root", "import_state", agent="ann", source=SOURCE) == "NotAllowed"
    assert made.fault(OPERATOR, "import_state", agent="ann", source="/etc") == "InvalidArgument"
    into = {"agent": "ann", "source": SOURCE, "into": "../x"}
    assert made.fault(OPERATOR, "import_state", **into) == "InvalidArgument"
