"""`init_config` on a host in memory: the job runs until it has ended, once, and says how."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from fixtures.deploys import DeployHarness, Done, play

from hive_core.broker.call import Call, Record
from hive_core.errors import Internal, Unreachable
from hive_core.jobs import seed as program
from hive_core.model.wire.record import JobRecord
from hive_core.plan.actions import JobKind, RunJob
from hive_core.testing import MemoryJobs

Run = Callable[[RunJob, Path], None]


def asks(harness: DeployHarness, agent: str) -> str:
    """What the operation does: the job's id."""
    uuid = harness.uuid(agent)

    def handler(call: Call) -> Record[Done]:
        job = call.ledger.jobs.create("init_config", "operator", {uuid: "seed"}, call.now)
        call.notify(f"seed:{uuid}")
        return Record(Done(id=job.id))

    return harness.broker.perform("init_config", handler).id


def jobs(harness: DeployHarness, run: Run) -> MemoryJobs:
    """Containers in which `run` stands for the program."""
    memory = harness.ports.jobs
    assert isinstance(memory, MemoryJobs)
    memory.work = harness.settings.paths.work
    memory.programs[JobKind.SEED] = run
    return memory


def end(harness: DeployHarness, job: str) -> JobRecord:
    row = harness.ledger.jobs.get(job)
    assert row is not None
    return row


def seeds(place: Path) -> Run:
    """The program itself, on a folder that stands for the agent's."""

    def run(action: RunJob, folder: Path) -> None:
        (folder / "agent").symlink_to(place)
        figures = program.run(action.words, folder)
        (folder / "agent").unlink()
        (folder / "out/said.json").write_text(json.dumps({"ok": True, "figures": figures}))

    return run


def test_a_template_is_put_in_place_by_a_job_and_nothing_that_runs_changes(tmp_path: Path) -> None:
    """H8: reseeding."""
    place = tmp_path / "config"
    place.mkdir()
    (place / "mine").write_text("m")

    async def story(harness: DeployHarness) -> None:
        ran, before = jobs(harness, seeds(place)).ran, dict(harness.host.units)
        for number in (1, 2):
            job = asks(harness, "bob")
            await harness.settle()
            assert (end(harness, job).state, end(harness, job).error) == ("done", "")
            assert len(ran) == number
            assert ran[-1].uuid == harness.uuid("bob")
            assert ran[-1].lineage == harness.broker.hive.path("bob")
            harness.clock.advance(0.25)
        assert ran[0].words != ran[1].words
        assert (place / ".before" / ran[0].words[0] / "mine").exists()
        assert (place / "agent.toml").exists()
        assert harness.host.units == before
        assert list(harness.settings.paths.work.iterdir()) == []

    play(story, paths={"state": str(tmp_path)})


def test_a_job_that_cannot_be_run_now_is_run_later_and_one_that_fails_says_why(
    tmp_path: Path,
) -> None:
    async def story(harness: DeployHarness) -> None:
        done = jobs(harness, refuses)
        done.refused = Unreachable("no bus")
        job = asks(harness, "bob")
        await harness.settle()
        assert end(harness, job).state == "running"
        done.refused = None
        await harness.advance(31)
        assert end(harness, job).error == "NotFound: a time is a number (time)"
        done.refused = Internal("it broke")
        job = asks(harness, "bob")
        await harness.settle()
        assert (end(harness, job).state, end(harness, job).error) == (
            "failed",
            "Internal: it broke",
        )

    play(story, paths={"state": str(tmp_path)})


def refuses(_: RunJob, folder: Path) -> None:
    said = {"ok": False, "rule": "time", "text": "a time is a number"}
    (folder / "out/said.json").write_text(json.dumps(said))


def test_a_daemon_that_was_killed_runs_the_job_again_under_its_name(tmp_path: Path) -> None:
    """R18: the program finishes what is left, for the time is the same."""

    async def story(harness: DeployHarness) -> None:
        words = []

        def dies(action: RunJob, _: Path) -> None:
            words.append((action.job, action.words))
            raise KeyboardInterrupt

        jobs(harness, dies)
        job = asks(harness, "bob")
        try:
            await harness.settle()
        except KeyboardInterrupt:
            await harness.kill()
        harness.open()
        place = tmp_path / "config"
        place.mkdir()
        ran = jobs(harness, seeds(place)).ran
        await harness.settle()
        assert end(harness, job).state == "done"
        assert [(action.job, action.words) for action in ran] == words

    play(story, paths={"state": str(tmp_path)})


def test_an_agent_that_is_gone_is_not_seeded(tmp_path: Path) -> None:
    async def story(harness: DeployHarness) -> None:
        ran = jobs(harness, lambda *_: None).ran
        job = asks(harness, "bob")
        harness.destroy("bob")
        await harness.settle()
        assert end(harness, job).error == "NotFound: the agent was destroyed meanwhile"
        assert [action for action in ran if action.work is JobKind.SEED] == []

    play(story, paths={"state": str(tmp_path)})


def test_many_at_once_have_their_turn_and_leave_room_for_requests(tmp_path: Path) -> None:
    async def story(harness: DeployHarness) -> None:
        ran = jobs(harness, refuses).ran
        ids = [asks(harness, name) for name in ("root", "ann", "bob") * 3]
        await harness.settle()
        assert {end(harness, job).state for job in ids} == {"failed"}
        assert len(ran) == len(ids)

    play(story, paths={"state": str(tmp_path)})
