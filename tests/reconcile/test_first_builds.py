"""Agents of image `nix` before their first system: who waits is told when it cannot be built."""

from __future__ import annotations

from fixtures.deploys import FAMILY, Done, Stage, play

from hive_core.broker.call import Call, Record
from hive_core.errors import Conflict
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.wire.record import JobRecord

LOCK = "there is no flake.lock yet"


async def born(stage: Stage) -> None:
    """Ann, below root, whose system cannot be built; somebody waits for her to run."""
    stage.builder.fault = Conflict(LOCK)
    await stage.grow(FAMILY, ann={"image": "nix"})


def waiting(stage: Stage, *, fresh: bool = False) -> str:
    """What `create` and `start` write down: a wish, and a job that ends when she runs."""
    uuid = stage.uuid("ann")

    def handler(call: Call) -> Record[Done]:
        call.ledger.runs.want(uuid, DesiredState.RUNNING, call.now, fresh=fresh)
        job = call.ledger.jobs.create("start", "operator", {uuid: "running"}, call.now)
        call.notify(f"run:{uuid}")
        return Record(Done(id=job.id))

    return stage.broker.perform("start", handler).id


def job(stage: Stage, id_: str) -> JobRecord:
    row = stage.ledger.jobs.get(id_)
    assert row is not None
    return row


def test_who_waits_for_an_agent_that_cannot_be_built_is_told_why() -> None:
    async def story(stage: Stage) -> None:
        await born(stage)
        asked = waiting(stage)
        await stage.settle()
        assert stage.state("ann") is State.PARKED
        error = f"NotRunning: ann cannot be built: {LOCK}"
        assert (job(stage, asked).state, job(stage, asked).error) == ("failed", error)
        assert f"ann is parked: cannot be built: {LOCK}" in stage.look.alarms()
        assert stage.builder.builds == 1

    play(story, {}, images={"nix": ""})


def test_another_start_builds_again_and_nothing_else_does() -> None:
    async def story(stage: Stage) -> None:
        await born(stage)
        await stage.want("ann", DesiredState.STOPPED)
        await stage.want("bob", DesiredState.RUNNING, fresh=True)
        assert stage.builder.builds == 1
        again = waiting(stage, fresh=True)
        await stage.settle()
        assert (stage.builder.builds, job(stage, again).state) == (2, "failed")
        stage.builder.fault = None
        again = waiting(stage, fresh=True)
        await stage.settle()
        assert (stage.builder.builds, job(stage, again).state) == (3, "done")
        assert stage.spec("ann").system == stage.builder.system
        assert stage.state("ann") is State.RUNNING
        assert stage.look.alarms() == []

    play(story, {}, images={"nix": ""})


def test_a_start_during_the_build_is_told_how_that_ends() -> None:
    async def story(stage: Stage) -> None:
        requests = list[str]()

        def step(name: str) -> None:
            if name == "tagged building" and not requests:
                requests.append(waiting(stage, fresh=True))

        stage.step = step
        await born(stage)
        assert [job(stage, id_).state for id_ in requests] == ["failed"]
        assert (stage.builder.builds, stage.state("ann")) == (1, State.PARKED)

    play(story, {}, images={"nix": ""})


def test_a_daemon_that_starts_anew_knows_why_and_tries_once() -> None:
    async def story(stage: Stage) -> None:
        await born(stage)
        await stage.kill()
        stage.open()
        await stage.settle()
        assert (stage.builder.builds, stage.state("ann")) == (2, State.PARKED)

    play(story, {}, images={"nix": ""})


def test_a_first_system_that_is_not_healthy_is_not_tried_for_ever() -> None:
    async def story(stage: Stage) -> None:
        await stage.grow(FAMILY, ann={"image": "nix"})
        assert (stage.builder.builds, stage.state("ann")) == (1, State.RUNNING)
        stage.hello("ann", stage.spec("ann").config or "", fault="broken")
        for _ in range(4):
            await stage.advance(1000)
        assert (stage.builder.builds, stage.spec("ann").system) == (1, None)
        why = "ann is parked: the new system is not healthy: the agent reports: broken"
        assert (stage.state("ann"), why in stage.look.alarms()) == (State.PARKED, True)
        again = waiting(stage, fresh=True)
        await stage.settle()
        assert (stage.builder.builds, job(stage, again).state) == (2, "done")

    play(story, {}, images={"nix": ""})
