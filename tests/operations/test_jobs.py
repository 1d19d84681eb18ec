"""get_job, wait_job, list_jobs: what takes time."""

from __future__ import annotations

import pytest
from fixtures.world import World, names

from hive_core.errors import NotFound


@pytest.fixture
def job(world: World) -> str:
    return str(world.call("a", "stop", agent="a1")["job"])


def test_only_its_caller_and_the_operator_see_a_job(world: World, job: str) -> None:
    """Attack 41: a foreign job and an unknown one get the same answer."""
    assert world.call("operator", "get_job", id=job)["id"] == job
    texts = []
    for name, value in (("root", job), ("root", "unknown")):
        with pytest.raises(NotFound) as caught:
            world.call(name, "get_job", id=value)
        texts.append(caught.value.reason.replace(value, "X"))
    assert texts[0] == texts[1]


def test_waiting_for_a_job_ends_with_it(world: World, job: str) -> None:
    asked = world.ask("a", "wait_job", id=job, wait=50)
    assert not asked.replies
    world.finish(job)
    result = asked.result()
    assert (result["state"], result["next"]) == ("done", None)
    assert result["ended"] == world.clock.now()


def test_waiting_ends_in_time_with_a_job_that_still_runs(world: World, job: str) -> None:
    asked = world.ask("a", "wait_job", id=job, wait=3)
    world.advance(3.1)
    assert asked.result()["state"] == "running"


def test_a_failed_job_says_why(world: World, job: str) -> None:
    world.finish(job, error="it does not stop")
    reply = world.call("a", "wait_job", id=job)
    assert (reply["state"], reply["error"]) == ("failed", "it does not stop")


@pytest.mark.parametrize("operation", ["get_job", "wait_job"])
def test_a_stream_gives_each_news_and_ends_with_the_job(
    world: World, job: str, operation: str
) -> None:
    asked = world.ask("a", operation, id=job, more=True)
    assert [page["progress"] for page in asked.pages] == [{}]
    with world.ledger.transaction():
        world.ledger.jobs.progress(job, {"step": 1})
    world.broker.touch({f"job:{job}"})
    world.run()
    assert [page["progress"] for page in asked.pages] == [{}, {"step": 1}]
    world.finish(job)
    assert not asked.pending
    assert asked.result()["state"] == "done"


def test_a_stream_without_news_says_nothing(world: World, job: str) -> None:
    asked = world.ask("a", "wait_job", id=job, more=True, wait=0)
    world.advance(60)
    assert len(asked.pages) == 1


def test_an_agent_that_has_gone_stands_in_its_job_by_its_uuid(world: World, job: str) -> None:
    uuid = world.uuid("a1")
    world.call("operator", "destroy", agent="a1")
    assert world.call("a", "get_job", id=job)["agents"] == [uuid]


def test_the_operator_lists_the_newest_jobs_of_all(world: World, job: str) -> None:
    newest = world.call("b", "stop", agent="b1")["job"]
    jobs = world.call("operator", "list_jobs", limit=2)["jobs"]
    assert names(jobs, "id") == [newest, job]


def test_jobs_come_in_pages(world: World, job: str) -> None:
    theirs = str(world.call("b", "stop", agent="b1")["job"])
    mine = [job, *(str(world.call("a", "stop", agent=name)["job"]) for name in ("a2", "a1", "a2"))]
    result, after = [], None
    while True:
        page = world.call("a", "list_jobs", limit=3, **({"after": after} if after else {}))
        result += names(page["jobs"], "id")
        after = page["next"]
        if after is None:
            break
    assert result == mine[::-1]
    for hidden in (theirs, "unknown"):
        assert world.fault("a", "list_jobs", after=hidden) == "InvalidArgument"
    older = names(world.call("operator", "list_jobs", after=theirs)["jobs"], "id")
    assert job in older
    assert not {theirs, *mine[1:]} & set(older)
