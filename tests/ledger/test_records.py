"""Runs, ranges, keys, jobs, archives and back-off."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_core.errors import Internal, LimitReached, NotFound
from hive_core.ledger.agents.archives import Archive
from hive_core.ledger.core.idempotency_keys import KEPT, StoredResult
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.machines.uid_ranges import END, FIRST, SIZE
from hive_core.model.agents.machine import DesiredState, FailureHistory
from hive_core.model.states import IllegalTransition


def test_a_new_wish_to_run_gets_a_new_nonce(ledger: Ledger) -> None:
    runs = ledger.runs
    with ledger.transaction():
        assert runs.want("a", DesiredState.RUNNING, 1.0).nonce == 1
        assert runs.want("a", DesiredState.RUNNING, 2.0).nonce == 1
        assert runs.want("a", DesiredState.RUNNING, 3.0, fresh=True).nonce == 2
        assert runs.want("a", DesiredState.STOPPED, 4.0, grace=0.0, reason="told to").nonce == 2
        again = runs.want("a", DesiredState.RUNNING, 5.0)
        assert runs.want("b", DesiredState.STOPPED, 5.0).nonce == 0
    assert again.nonce == 3
    assert runs.get("a") == again
    assert set(runs.all()) == {"a", "b"}


def test_a_repeated_wish_does_not_move_its_beginning(ledger: Ledger) -> None:
    with ledger.transaction():
        ledger.runs.want("a", DesiredState.STOPPED, 1.0)
        again = ledger.runs.want("a", DesiredState.STOPPED, 9.0, grace=0.0)
        assert (again.since, again.grace) == (1.0, 0.0)
        ledger.runs.drop("a")
    assert ledger.runs.get("a") is None


def test_a_range_is_given_once_and_kept_over_a_restart(folder: Path) -> None:
    for _ in range(2):
        ledger = Ledger.open(folder / "hive.db", primed=0)
        with ledger.transaction():
            bases = [ledger.ranges.allocate(agent) for agent in ("a", "b", "a")]
        assert bases == [FIRST, FIRST + SIZE, FIRST]
        assert ledger.ranges.all() == {"a": FIRST, "b": FIRST + SIZE}
        ledger.close()


def test_a_range_is_not_given_again_while_others_were_never_used(ledger: Ledger) -> None:
    """Attack 4: also not a range that was released."""
    ranges = ledger.ranges
    with ledger.transaction():
        ranges.allocate("a")
        ranges.release("a")
        assert ranges.base("a") is None
        assert ranges.allocate("b") == FIRST + SIZE
        assert ranges.allocate("a") == FIRST + 2 * SIZE


def test_when_all_ranges_are_used_the_longest_free_one_comes_back(ledger: Ledger) -> None:
    ranges, first = ledger.ranges, END - 3 * SIZE
    with ledger.transaction():
        for agent in "abc":
            ranges.allocate(agent, first)
        with pytest.raises(LimitReached):
            ranges.allocate("d", first)
        ranges.release("b")
        ranges.release("a")
        assert ranges.allocate("d", first) == first + SIZE
        assert ranges.allocate("e", first) == first
        assert len(set(ranges.all().values())) == 3


def test_the_first_result_of_a_key_is_kept_for_seven_days(ledger: Ledger) -> None:
    """attack 42."""
    stored = StoredResult("digest", "send", '{"id": "1"}')
    with ledger.transaction():
        ledger.keys.store("anna", "k", stored, 10.0)
        assert ledger.keys.lookup("anna", "k") == stored
        assert ledger.keys.lookup("bob", "k") is None
        assert ledger.keys.prune(10.0 + KEPT) == 0
        assert ledger.keys.prune(10.1 + KEPT) == 1
        assert ledger.keys.lookup("anna", "k") is None


def test_a_key_cannot_be_stored_twice(ledger: Ledger) -> None:
    stored = StoredResult("digest", "send", "{}")
    with ledger.transaction():
        ledger.keys.store("anna", "k", stored, 10.0)
        with pytest.raises(Internal), ledger.savepoint():
            ledger.keys.store("anna", "k", stored, 10.0)


def test_a_job_runs_until_it_ends_once(ledger: Ledger) -> None:
    jobs = ledger.jobs
    with ledger.transaction():
        job = jobs.create("stop", "anna", {"b": "stopped", "c": "stopped"}, 10.0)
        assert (job.agents, dict(job.goals), job.state) == (("b", "c"), job.goals, "running")
        jobs.progress(job.id, {"b": "done"})
        assert jobs.open() == [jobs.get(job.id)]
        ended = jobs.finish(job.id, "", 20.0)
        assert (ended.state, ended.ended, dict(ended.progress)) == ("done", 20.0, {"b": "done"})
        with pytest.raises(IllegalTransition, match="cannot fail a job that is done"):
            jobs.finish(job.id, "too late", 30.0)
    assert jobs.open() == []
    assert jobs.page("anna", 10) == jobs.page(None, 10) == [ended]
    assert jobs.page("bob", 10) == []


def test_a_job_that_failed_says_why_and_is_forgotten_in_time(ledger: Ledger) -> None:
    jobs = ledger.jobs
    with ledger.transaction():
        job = jobs.create("start", "anna", {"b": "running"}, 10.0)
        assert jobs.finish(job.id, "no such image", 20.0).error == "no such image"
        assert jobs.prune(20.0 + KEPT) == 0
        assert jobs.prune(21.0 + KEPT) == 1
        with pytest.raises(NotFound):
            jobs.finish(job.id, "", 30.0)


@pytest.mark.parametrize("state", ["running", "nonsense"])
def test_sql_cannot_move_a_job_where_no_move_leads(ledger: Ledger, state: str) -> None:
    with ledger.transaction():
        job = ledger.jobs.create("stop", "anna", {}, 10.0)
        ledger.jobs.finish(job.id, "", 20.0)
        with pytest.raises(Internal, match="illegal move of a job"), ledger.savepoint():
            ledger.connection.run("UPDATE jobs SET state = ? WHERE job = ?", (state, job.id))
        with pytest.raises(Internal, match="illegal first state"), ledger.savepoint():
            ledger.connection.run(
                "INSERT INTO jobs (job, operation, caller, goals, state, started)"
                " VALUES ('x', '', '', '{}', 'done', 0)"
            )


def test_an_archive_ends_and_its_uuid_stays_taken(ledger: Ledger) -> None:
    """attack 40."""
    archive = Archive("u1", "bob", "{}", None, 10.0, 20.0)
    with ledger.transaction():
        ledger.archives.put(archive)
        assert ledger.archives.get("u1") == archive
        assert ledger.archives.past_retention(19.9) == []
        assert ledger.archives.past_retention(20.0) == ledger.archives.all() == [archive]
        ledger.archives.drop("u1")
        assert ledger.archives.get("u1") is None
        assert ledger.archives.is_tombstone("u1")
        assert not ledger.archives.is_tombstone("u2")
        ledger.archives.put(archive)


def test_back_off_is_kept_as_it_is(ledger: Ledger) -> None:
    starts = FailureHistory(failures=(1.0, 2.0), next_at=3.0, parked=True, exit_seen="x", nonce=2)
    with ledger.transaction():
        ledger.starts.put("a", starts)
        assert ledger.starts.all() == {"a": starts}
        assert ledger.starts.get("a") == starts
        ledger.starts.clear("a")
        assert ledger.starts.get("a") is None


def test_a_short_id_is_known_as_long_as_its_range_is_given(ledger: Ledger) -> None:
    uuid = "0badcafe-0000-4000-8000-000000000001"
    with ledger.transaction():
        ledger.ranges.allocate(uuid)
        assert ledger.ranges.has_short_id("0badcafe")
        assert not ledger.ranges.has_short_id("0badcaff")
        ledger.ranges.release(uuid)
        assert not ledger.ranges.has_short_id("0badcafe")
