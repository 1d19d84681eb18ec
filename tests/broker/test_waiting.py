"""Calls that wait: for a topic, a time, a job, a slow read, or for the transport to drain."""

from __future__ import annotations

import asyncio

import pytest
from fixtures.broker import BrokerClient, BrokerHarness, SlowReads, spec

from hive_core.broker.operation import Result
from hive_core.errors import Busy, Internal, NotFound, NotRunning

ANN, BOB = spec("ann").id, spec("bob").id


def waiting(harness: BrokerHarness, name: str = "ann", **params: float) -> BrokerClient:
    client = harness.client(name)
    client.ask("Hear", params)
    harness.run()
    assert not client.replies
    return client


def test_a_wait_is_answered_when_its_topic_is_touched(harness: BrokerHarness) -> None:
    ann = waiting(harness, wait=30.0)
    harness.client("bob").call("Tell", {"agent": "ann", "text": "hi"})
    assert ann.result() == {"texts": ["hi"]}


def test_a_wait_ends_at_its_deadline_with_what_was_promised(harness: BrokerHarness) -> None:
    ann = waiting(harness, wait=30.0)
    harness.advance(29.9)
    assert not ann.replies
    harness.advance(0.2)
    assert ann.result() == {"texts": []}


def test_a_wait_of_no_time_is_answered_at_once(harness: BrokerHarness) -> None:
    assert harness.client("ann").call("Hear") == {"texts": []}


def test_asking_again_earlier_does_not_move_the_deadline(harness: BrokerHarness) -> None:
    ann = waiting(harness, wait=10.0, doze=4.0)
    for _ in range(2):
        harness.advance(4.0)
        assert not ann.replies
    harness.advance(2.1)
    assert ann.result() == {"texts": []}


def test_a_clock_that_jumps_moves_no_deadline(harness: BrokerHarness) -> None:
    ann = waiting(harness, wait=10.0)
    harness.clock.time += 86_400
    harness.broker.touch({f"inbox:{ANN}"})
    harness.run()
    assert not ann.replies
    harness.clock.time -= 2 * 86_400
    harness.advance(10.1)
    assert ann.result() == {"texts": []}


def test_a_topic_of_another_agent_wakes_no_waiting_call(harness: BrokerHarness) -> None:
    waiting(harness, wait=30.0)
    harness.broker.touch({f"inbox:{BOB}", "tree"})
    assert not harness.transport.woken


def test_a_waiting_call_blocks_its_line_and_no_other(harness: BrokerHarness) -> None:
    ann = waiting(harness, wait=30.0)
    ann.ask("Look")
    harness.run()
    assert not ann.replies
    assert harness.client("ann").call("Look")["name"] == "ann"
    harness.advance(31)
    assert [set(reply) for reply in ann.results()] == [{"texts"}, {"name", "agents"}]


def test_a_letter_sent_in_the_same_batch_after_the_wait_is_not_missed(
    harness: BrokerHarness,
) -> None:
    ann, bob = harness.client("ann"), harness.client("bob")
    ann.ask("Hear", {"wait": 30.0})
    bob.ask("Tell", {"agent": "ann", "text": "hi"})
    harness.run()
    assert ann.result() == {"texts": ["hi"]}


def test_a_connection_that_closes_takes_its_wait_along(harness: BrokerHarness) -> None:
    ann = waiting(harness, wait=30.0)
    harness.broker.drop(ann.line)
    harness.client("bob").call("Tell", {"agent": "ann", "text": "hi"})
    harness.advance(31)
    assert not ann.replies
    assert len(harness.broker._waiting) == 0
    assert harness.client("ann").call("Hear") == {"texts": ["hi"]}


def test_a_wait_is_judged_again_when_it_is_asked_again(harness: BrokerHarness) -> None:
    cat = waiting(harness, "cat", wait=30.0)
    harness.broker.hive = harness.hive.without("cat")
    harness.advance(31)
    with pytest.raises(NotFound):
        cat.result()


def test_a_stream_is_asked_page_by_page_until_its_end(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.ask("Count", {"to": 5}, more=True)
    harness.run()
    assert [reply.get("continues", False) for reply in ann.replies] == [True, True, False]
    assert [result["numbers"] for result in ann.results()] == [[1, 2], [3, 4], [5]]


def test_without_more_a_stream_is_one_page(harness: BrokerHarness) -> None:
    assert harness.client("ann").call("Count", {"to": 5}) == {"numbers": [1, 2], "next": 2}


def test_a_stream_stops_while_the_peer_does_not_read(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.ask("Count", {"to": 100}, more=True)
    harness.turn()
    ann.line.write_blocked = True
    harness.run()
    assert len(ann.replies) == 1
    harness.broker.on_write_resumed(ann.line)
    harness.turn()
    assert len(ann.replies) == 2


def test_a_caller_that_loses_the_right_is_refused_at_the_next_page(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.ask("Count", {"to": 100, "agent": "cat"}, more=True)
    harness.turn()
    assert ann.result()["numbers"] == [1, 2]
    harness.broker.hive = harness.hive.with_parent("bob", "dan")
    harness.run()
    with pytest.raises(NotFound):
        ann.result()
    assert not ann.replies


def test_a_stream_may_wait_for_more(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.ask("Count", {"after": 9, "to": 20}, more=True)
    harness.run()
    assert not ann.replies
    harness.broker.touch({"ten"})
    harness.run()
    assert not ann.replies


def test_a_stream_without_places_goes_on_for_ever(harness: BrokerHarness) -> None:
    ann, bob = harness.client("ann"), harness.client("bob")
    ann.ask("Hear", more=True)
    harness.run()
    for text in ("one", "two"):
        bob.call("Tell", {"agent": "ann", "text": text})
    assert all(reply["continues"] for reply in ann.replies)
    assert [result["texts"] for result in ann.results()] == [["one"], ["two"]]
    harness.advance(1000)


def test_a_slow_read_happens_outside_and_is_delivered(harness: BrokerHarness) -> None:
    desk = SlowReads()
    desk.journal.write(ANN, "line")
    ann = harness.client("ann")
    ann.ask("Fetch")
    ann.ask("Look")
    harness.run()
    ((line, read),) = harness.transport.reads

    async def bring() -> Result:
        return await read(desk)

    result = asyncio.run(bring())
    harness.broker.on_read_completed(line, result)
    harness.run()
    assert ann.result() == {"lines": ["line"]}
    assert ann.result()["name"] == "ann"


def test_a_slow_read_is_judged_again_on_delivery(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.ask("Fetch", {"agent": "cat"})
    harness.run()
    ((line, _),) = harness.transport.reads
    harness.broker.hive = harness.hive.with_parent("bob", "dan")
    harness.broker.on_read_completed(line, Result())
    harness.run()
    with pytest.raises(NotFound):
        ann.result()


def test_a_slow_read_that_fails_is_the_callers_error(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.ask("Fetch")
    harness.run()
    harness.broker.on_read_completed(harness.transport.reads[0][0], Busy("later"))
    harness.run()
    with pytest.raises(Busy):
        ann.result()


def test_a_slow_read_for_a_connection_that_is_gone_is_dropped(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.ask("Fetch")
    harness.run()
    harness.broker.drop(ann.line)
    harness.broker.on_read_completed(ann.line, Result())
    harness.run()
    assert not ann.replies


def end(harness: BrokerHarness, job: str, error: str = "", **progress: object) -> None:
    """The change path has reached the goals of a job, or cannot."""
    with harness.ledger.transaction():
        if progress:
            harness.ledger.jobs.progress(job, progress)
        harness.ledger.jobs.finish(job, error, harness.clock.now())
    harness.broker.touch({f"job:{job}"})
    harness.run()


def only_job(harness: BrokerHarness) -> str:
    (job,) = harness.ledger.jobs.open()
    return job.id


def test_a_job_is_answered_at_once_without_wait(harness: BrokerHarness) -> None:
    job = harness.client("ann").call("Work")["job"]
    assert job == only_job(harness)


def test_with_wait_a_job_is_answered_after_it_ended_with_what_it_ended(
    harness: BrokerHarness,
) -> None:
    ann = harness.client("ann")
    ann.ask("Work", {"wait": 20.0})
    harness.run()
    assert not ann.replies
    job = only_job(harness)
    end(harness, job, ended=["pid 7"], other="not a field of the result")
    assert ann.result() == {"job": job, "ended": ["pid 7"]}


def test_a_job_that_takes_longer_than_the_wait_is_answered_with_its_id(
    harness: BrokerHarness,
) -> None:
    ann = harness.client("ann")
    ann.ask("Work", {"wait": 20.0})
    harness.run()
    harness.advance(20.1)
    assert ann.result()["job"] == only_job(harness)


def test_a_failed_job_is_the_error_of_the_call_that_waits(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    for error in ("NotRunning: it is parked", "no such image", "InvalidParameter: x"):
        ann.ask("Work", {"wait": 20.0})
        harness.run()
        end(harness, only_job(harness), error)
    with pytest.raises(NotRunning, match=r"^it is parked$"):
        ann.result()
    for text in ("no such image", "InvalidParameter: x"):
        with pytest.raises(Internal, match=text):
            ann.result()


def test_a_waiting_caller_that_is_moved_away_still_gets_its_own_answer(
    harness: BrokerHarness,
) -> None:
    """The request was carried out before, so no decision follows."""
    ann = harness.client("ann")
    ann.ask("Work", {"wait": 20.0})
    harness.run()
    harness.broker.hive = harness.hive.with_parent("ann", "dan")
    end(harness, only_job(harness))
    assert ann.result()["job"]
