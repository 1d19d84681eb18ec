"""Agents of image `nix` before their first system: waiting calls learn of a failed build."""

from __future__ import annotations

from fixtures.deploys import FAMILY, DeployHarness, Done, play

from hive_core.broker.call import Call, Record
from hive_core.errors import Conflict
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.wire.record import JobRecord

LOCK = "there is no flake.lock yet"


async def born(harness: DeployHarness) -> None:
    """Ann, below root, whose system cannot be built; somebody waits for her to run."""
    harness.builder.fault = Conflict(LOCK)
    await harness.grow(FAMILY, ann={"image": "nix"})


def waiting(harness: DeployHarness, *, fresh: bool = False) -> str:
    """What `create` and `start` write down: a wish, and a job that ends when she runs."""
    uuid = harness.uuid("ann")

    def handler(call: Call) -> Record[Done]:
        call.ledger.runs.want(uuid, DesiredState.RUNNING, call.now, fresh=fresh)
        job = call.ledger.jobs.create("start", "operator", {uuid: "running"}, call.now)
        call.notify(f"run:{uuid}")
        return Record(Done(id=job.id))

    return harness.broker.perform("start", handler).id


def job(harness: DeployHarness, id_: str) -> JobRecord:
    row = harness.ledger.jobs.get(id_)
    assert row is not None
    return row


def test_a_waiter_for_an_agent_that_cannot_be_built_is_told_why() -> None:
    async def story(harness: DeployHarness) -> None:
        await born(harness)
        asked = waiting(harness)
        await harness.settle()
        assert harness.state("ann") is State.PARKED
        error = f"NotRunning: ann cannot be built: {LOCK}"
        assert (job(harness, asked).state, job(harness, asked).error) == ("failed", error)
        assert f"ann is parked: cannot be built: {LOCK}" in harness.observed.alarms()
        assert harness.builder.builds == 1

    play(story, {}, images={"nix": ""})


def test_another_start_builds_again_and_nothing_else_does() -> None:
    async def story(harness: DeployHarness) -> None:
        await born(harness)
        await harness.want("ann", DesiredState.STOPPED)
        await harness.want("bob", DesiredState.RUNNING, fresh=True)
        assert harness.builder.builds == 1
        again = waiting(harness, fresh=True)
        await harness.settle()
        assert (harness.builder.builds, job(harness, again).state) == (2, "failed")
        harness.builder.fault = None
        again = waiting(harness, fresh=True)
        await harness.settle()
        assert (harness.builder.builds, job(harness, again).state) == (3, "done")
        assert harness.spec("ann").system == harness.builder.system
        assert harness.state("ann") is State.RUNNING
        assert harness.observed.alarms() == []

    play(story, {}, images={"nix": ""})


def test_a_start_during_the_build_is_told_how_that_ends() -> None:
    async def story(harness: DeployHarness) -> None:
        requests = list[str]()

        def step(name: str) -> None:
            if name == "tagged building" and not requests:
                requests.append(waiting(harness, fresh=True))

        harness.step = step
        await born(harness)
        assert [job(harness, id_).state for id_ in requests] == ["failed"]
        assert (harness.builder.builds, harness.state("ann")) == (1, State.PARKED)

    play(story, {}, images={"nix": ""})


def test_a_daemon_that_starts_anew_knows_why_and_tries_once() -> None:
    async def story(harness: DeployHarness) -> None:
        await born(harness)
        await harness.kill()
        harness.open()
        await harness.settle()
        assert (harness.builder.builds, harness.state("ann")) == (2, State.PARKED)

    play(story, {}, images={"nix": ""})


def test_a_first_system_that_is_not_healthy_is_not_tried_for_ever() -> None:
    async def story(harness: DeployHarness) -> None:
        await harness.grow(FAMILY, ann={"image": "nix"})
        assert (harness.builder.builds, harness.state("ann")) == (1, State.RUNNING)
        harness.hello("ann", harness.spec("ann").config or "", fault="broken")
        for _ in range(4):
            await harness.advance(1000)
        assert (harness.builder.builds, harness.spec("ann").system) == (1, None)
        why = "ann is parked: the new system is not healthy: the agent reports: broken"
        assert (harness.state("ann"), why in harness.observed.alarms()) == (State.PARKED, True)
        again = waiting(harness, fresh=True)
        await harness.settle()
        assert (harness.builder.builds, job(harness, again).state) == (2, "done")

    play(story, {}, images={"nix": ""})
