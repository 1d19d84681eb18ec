"""How jobs are run: one at a time under each id, ended when they must, told by their own line."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from fixtures.job_host import JobHost, run_on_host, until

from hive_core.errors import Busy, HiveError, Internal
from hive_core.host.systemd.job_exchange import exchange
from hive_core.host.systemd.jobs import NspawnJobs
from hive_core.model.names import job_unit
from hive_core.plan import actions as a
from hive_core.plan.agent_steps import job_id_for_key, new_job_id
from hive_core.plan.results import Done

JOB, OTHER = (f"0000000{number}-0000-4000-9000-000000000001" for number in (1, 2))
DEEP = "[" * 100_000
REVIEW = a.RunJob(JOB, a.JobKind.REVIEW, a.JOB_BASES[0])


def test_a_job_runs_ends_and_leaves_nothing(tmp_path: Path) -> None:
    async def test(_: JobHost, jobs: NspawnJobs) -> None:
        assert await jobs.run(REVIEW) == Done(changed=True)

    host = run_on_host(tmp_path, test)
    assert host.asked.count("RunJob") == 1
    assert not host.mounted
    assert list(host.exits.iterdir()) == []


def test_no_job_begins_before_those_of_an_earlier_daemon_have_ended(tmp_path: Path) -> None:
    """Else it may get the range of one of them, and is refused."""

    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        with jobs.hold_back():
            pushed = asyncio.create_task(jobs.run(REVIEW))
            for _ in range(20):
                await asyncio.sleep(0)
            await jobs.sweep()
            assert host.asked.count("RunJob") == 0
        assert await pushed == Done(changed=True)

    assert run_on_host(tmp_path, test).asked.count("RunJob") == 1


@pytest.mark.parametrize("action", ["Unmount", "RemoveSocketDirectory"])
def test_a_root_helper_that_is_killed_while_a_job_ends_leaves_nothing_of_it(
    tmp_path: Path, action: str
) -> None:
    """The mounts of a job stayed until the daemon started again."""

    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        await jobs.run(REVIEW)
        host.killed_at = action
        await jobs.run(REVIEW)
        host.stays, host.killed_at = True, ""
        running = asyncio.create_task(jobs.run(REVIEW))
        await until(lambda: JOB in host.running)
        host.killed_at = action
        host.end(JOB)
        jobs.on_unit_signal("")
        await running

    host = run_on_host(tmp_path, test)
    assert not host.mounted
    assert list(host.exits.iterdir()) == []


def test_a_job_fails_with_the_line_of_its_program(tmp_path: Path) -> None:
    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        with exchange(host.work, JOB) as box:
            said = {"fault": "no such\x1b commit\n" + "x" * 1000}
            (box.folder / "out/said.json").write_text(json.dumps(said))
            with pytest.raises(Internal, match=r"^job review: no such  commit x{400,500}$"):
                await jobs.run(REVIEW)

    run_on_host(tmp_path, test, status="1", result="exit-code")


def test_a_job_that_fails_says_what_it_wrote_last(tmp_path: Path) -> None:
    """`job lock: ended with 1` told a newcomer nothing; the journal had the reason."""

    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        write = host.journal.write
        write(JOB, "Spawning container hive-job on /x.", job_unit(JOB))
        for number in range(30):
            write(JOB, f"line {number}", job_unit(JOB))
        write(OTHER, "of another one", job_unit(OTHER))
        write(JOB, "Failed to stat /nix/store:\x1b[2J No such file " + "x" * 1000, job_unit(JOB))
        write(JOB, "Container hive-job failed with error code 1.", job_unit(JOB))
        with pytest.raises(Internal) as failed:
            await jobs.run(REVIEW)
        first, *lines = failed.value.reason.splitlines()
        assert first == "job review: ended with 1; its last lines:"
        assert lines[0] == "line 21"
        assert len(lines) == 10
        assert lines[-1].startswith("Failed to stat /nix/store: [2J No such file xxx")
        assert all(line.isprintable() and len(line) <= 500 for line in lines)

    run_on_host(tmp_path, test, status="1", result="exit-code")


def test_a_job_without_a_line_and_a_journal_that_cannot_be_read_are_no_other_fault(
    tmp_path: Path,
) -> None:
    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        with pytest.raises(Internal, match=r"^job review: ended with 1$"):
            await jobs.run(REVIEW)
        host.journal.fault = Busy("the journal took too long; try again")
        with pytest.raises(Internal, match=r"^job review: ended with 1$"):
            await jobs.run(REVIEW)

    run_on_host(tmp_path, test, status="1", result="exit-code")


@pytest.mark.parametrize(
    "said", [None, "", "[]", '{"fault": ', "{}", DEEP], ids=lambda said: str(said)[:9]
)
def test_a_job_that_says_nothing_of_use_fails_with_its_end(
    tmp_path: Path, said: str | None
) -> None:
    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        with exchange(host.work, JOB) as box:
            if said is not None:
                (box.folder / "out/said.json").write_text(said)
            with pytest.raises(Internal, match=r"^job review: ended with 1$"):
                await jobs.run(REVIEW)

    run_on_host(tmp_path, test, status="1", result="exit-code")


def test_what_a_killed_job_said_before_is_not_the_reason(tmp_path: Path) -> None:
    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        with exchange(host.work, JOB) as box:
            (box.folder / "out/said.json").write_text('{"fault": "all is well"}')
            with pytest.raises(Internal, match=r"^job review: .*oom-kill"):
                await jobs.run(REVIEW)

    run_on_host(tmp_path, test, status="9", result="oom-kill")


def test_a_job_of_an_earlier_daemon_is_ended_before_its_work_is_begun_anew(tmp_path: Path) -> None:
    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        host.running.add(JOB)
        host.mounted.add(JOB)
        await jobs.run(REVIEW)

    host = run_on_host(tmp_path, test)
    assert host.asked[:4] == ["KillUnit", "Unmount", "RemoveSocketDirectory", "RunJob"]


def test_the_daemon_begins_without_jobs_and_without_their_folders(tmp_path: Path) -> None:
    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        host.running |= {JOB, OTHER}
        (host.work / JOB / "out").mkdir(parents=True)
        await jobs.sweep()

    host = run_on_host(tmp_path, test)
    assert not host.running
    assert list(host.work.iterdir()) == []


def test_the_daemon_begins_without_records_of_jobs_that_ended_while_it_was_away(
    tmp_path: Path,
) -> None:
    agent, done = str(uuid4()), job_id_for_key("an approval", a.JobKind.REVIEW)

    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        for record_id in (agent, done):
            (host.exits / record_id).write_text("{}")
        host.mounted.add(done)
        await jobs.sweep()

    host = run_on_host(tmp_path, test)
    assert [path.name for path in host.exits.iterdir()] == [agent]
    assert not host.mounted


@pytest.mark.parametrize("unreadable", [False, True])
def test_mounts_of_a_job_whose_unit_was_never_started_are_removed_at_the_start(
    tmp_path: Path, *, unreadable: bool
) -> None:
    """The daemon was killed while the root helper mounted: no unit and no record tells of it."""
    agent, cut_off = str(uuid4()), new_job_id(a.JobKind.RECEIVE)

    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        host.mounted |= {agent, cut_off}
        (host.work / cut_off / "out").mkdir(parents=True)
        await jobs.sweep()

    host = run_on_host(tmp_path, test, unreadable=unreadable)
    assert host.mounted == ({agent, cut_off} if unreadable else {agent})
    assert list(host.work.iterdir()) == []


def test_a_job_is_not_begun_twice_at_once(tmp_path: Path) -> None:
    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        first = asyncio.create_task(_run(jobs))
        await until(lambda: bool(host.running))
        with pytest.raises(Busy):
            await jobs.run(REVIEW)
        host.end(JOB)
        jobs.on_unit_signal("")
        await first

    run_on_host(tmp_path, test, stays=True)


def test_a_caller_that_stops_waiting_ends_the_job(tmp_path: Path) -> None:
    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        task = asyncio.create_task(_run(jobs))
        await until(lambda: bool(host.running))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not host.mounted)
        host.stays = False
        again = replace(REVIEW, job=OTHER)
        assert await jobs.run(again) == Done(changed=True)

    host = run_on_host(tmp_path, test, stays=True)
    assert "KillUnit" in host.asked


def test_a_job_that_outlives_sigkill_keeps_its_mounts_and_so_its_range(tmp_path: Path) -> None:
    """The root helper refuses a range in which something is mounted."""

    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        host.running |= {JOB, OTHER}
        host.mounted |= {JOB, OTHER}
        await jobs.sweep()
        assert host.mounted == {JOB, OTHER}
        with pytest.raises(Busy, match="runs on 0 s after SIGKILL"):
            await jobs.run(REVIEW)
        assert host.mounted == {JOB, OTHER}
        assert host.asked.count("RunJob") == 0
        host.outlives = False
        await jobs.sweep()
        assert host.mounted == set()

    run_on_host(tmp_path, test, outlives=True)


def test_a_daemon_that_stops_is_not_kept_by_a_job(tmp_path: Path) -> None:
    """Its bus is gone by then: nothing can be cleaned up, and a cancellation stays one."""

    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        task = asyncio.create_task(_run_ignoring_errors(jobs))
        await until(lambda: bool(host.running))
        host.gone = True
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_on_host(tmp_path, test, stays=True)


def test_the_same_work_can_be_done_again(tmp_path: Path) -> None:
    async def test(_: JobHost, jobs: NspawnJobs) -> None:
        for _again in range(3):
            assert await jobs.run(REVIEW) == Done(changed=True)

    run_on_host(tmp_path, test)


def test_a_job_that_leaves_no_word_of_its_end_has_failed(tmp_path: Path) -> None:
    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        host.exits = tmp_path / "elsewhere"
        host.exits.mkdir()
        with pytest.raises(Internal, match="exited without writing a result"):
            await jobs.run(REVIEW)

    run_on_host(tmp_path, test)


def test_a_job_is_cleaned_up_when_systemd_is_back(tmp_path: Path) -> None:
    """It was restarted at the end of the job, whose mounts then stayed."""

    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        host.breaks = 3  # the look before, that at its end, and the one after
        assert await jobs.run(REVIEW) == Done(changed=True)

    host = run_on_host(tmp_path, test)
    assert not host.mounted
    assert list(host.exits.iterdir()) == []


def test_few_run_at_once_each_in_a_range_of_its_own(tmp_path: Path) -> None:
    async def test(host: JobHost, jobs: NspawnJobs) -> None:
        many = [
            replace(REVIEW, job=f"{number:08x}-0000-4000-9000-000000000001")
            for number in range(100)
        ]
        tasks = [asyncio.create_task(_run(jobs, item)) for item in many]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            assert len(host.running) <= 16
            assert len({host.bases[job] for job in host.running}) == len(host.running)
            if host.running and len(host.running) == min(
                16, sum(not task.done() for task in tasks)
            ):
                host.end(host.running.copy().pop())
                jobs.on_unit_signal("")
        assert len(host.bases) == 100

    run_on_host(tmp_path, test, stays=True)


async def _run(jobs: NspawnJobs, job: a.RunJob = REVIEW) -> None:
    await jobs.run(job)


async def _run_ignoring_errors(jobs: NspawnJobs) -> None:
    """Run a job as its callers do: an error is reported, and the daemon continues."""
    with suppress(HiveError):
        await jobs.run(REVIEW)
    await asyncio.Event().wait()
