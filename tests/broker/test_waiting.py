"""Calls that wait: for a topic, a time, a job, a slow read, or for the transport to drain."""

from __future__ import annotations

import asyncio

import pytest
from fixtures.broker import House, Phone, SlowReads, spec

from hive_core.broker.operation import Result
from hive_core.errors import Busy, Internal, NotFound, NotRunning

ANN, BOB = spec("ann").id, spec("bob").id


def waiting(house: House, name: str = "ann", **params: float) -> Phone:
    phone = house.phone(name)
    phone.ask("Hear", params)
    house.run()
    assert not phone.replies
    return phone


def test_a_wait_is_answered_when_its_topic_is_touched(house: House) -> None:
    ann = waiting(house, wait=30.0)
    house.phone("bob").call("Tell", {"agent": "ann", "text": "hi"})
    assert ann.result() == {"texts": ["hi"]}


def test_a_wait_ends_at_its_deadline_with_what_was_promised(house: House) -> None:
    ann = waiting(house, wait=30.0)
    house.advance(29.9)
    assert not ann.replies
    house.advance(0.2)
    assert ann.result() == {"texts": []}


def test_a_wait_of_no_time_is_answered_at_once(house: House) -> None:
    assert house.phone("ann").call("Hear") == {"texts": []}


def test_asking_again_earlier_does_not_move_the_deadline(house: House) -> None:
    ann = waiting(house, wait=10.0, doze=4.0)
    for _ in range(2):
        house.advance(4.0)
        assert not ann.replies
    house.advance(2.1)
    assert ann.result() == {"texts": []}


def test_a_clock_that_jumps_moves_no_deadline(house: House) -> None:
    ann = waiting(house, wait=10.0)
    house.clock.time += 86_400
    house.broker.touch({f"inbox:{ANN}"})
    house.run()
    assert not ann.replies
    house.clock.time -= 2 * 86_400
    house.advance(10.1)
    assert ann.result() == {"texts": []}


def test_a_topic_of_somebody_else_asks_nobody_again(house: House) -> None:
    waiting(house, wait=30.0)
    house.broker.touch({f"inbox:{BOB}", "tree"})
    assert not house.desk.woken


def test_a_waiting_call_blocks_its_line_and_no_other(house: House) -> None:
    ann = waiting(house, wait=30.0)
    ann.ask("Look")
    house.run()
    assert not ann.replies
    assert house.phone("ann").call("Look")["name"] == "ann"
    house.advance(31)
    assert [set(reply) for reply in ann.results()] == [{"texts"}, {"name", "agents"}]


def test_a_letter_sent_in_the_same_batch_after_the_wait_is_not_missed(house: House) -> None:
    ann, bob = house.phone("ann"), house.phone("bob")
    ann.ask("Hear", {"wait": 30.0})
    bob.ask("Tell", {"agent": "ann", "text": "hi"})
    house.run()
    assert ann.result() == {"texts": ["hi"]}


def test_a_connection_that_closes_takes_its_wait_along(house: House) -> None:
    ann = waiting(house, wait=30.0)
    house.broker.drop(ann.line)
    house.phone("bob").call("Tell", {"agent": "ann", "text": "hi"})
    house.advance(31)
    assert not ann.replies
    assert len(house.broker._waiting) == 0
    assert house.phone("ann").call("Hear") == {"texts": ["hi"]}


def test_a_wait_is_judged_again_when_it_is_asked_again(house: House) -> None:
    cat = waiting(house, "cat", wait=30.0)
    house.broker.hive = house.hive.without("cat")
    house.advance(31)
    with pytest.raises(NotFound):
        cat.result()


def test_a_stream_is_asked_page_by_page_until_its_end(house: House) -> None:
    ann = house.phone("ann")
    ann.ask("Count", {"to": 5}, more=True)
    house.run()
    assert [reply.get("continues", False) for reply in ann.replies] == [True, True, False]
    assert [result["numbers"] for result in ann.results()] == [[1, 2], [3, 4], [5]]


def test_without_more_a_stream_is_one_page(house: House) -> None:
    assert house.phone("ann").call("Count", {"to": 5}) == {"numbers": [1, 2], "next": 2}


def test_a_stream_stops_while_the_peer_does_not_read(house: House) -> None:
    ann = house.phone("ann")
    ann.ask("Count", {"to": 100}, more=True)
    house.turn()
    ann.line.write_blocked = True
    house.run()
    assert len(ann.replies) == 1
    house.broker.write_resumed(ann.line)
    house.turn()
    assert len(ann.replies) == 2


def test_a_caller_that_loses_the_right_is_refused_at_the_next_page(house: House) -> None:
    ann = house.phone("ann")
    ann.ask("Count", {"to": 100, "agent": "cat"}, more=True)
    house.turn()
    assert ann.result()["numbers"] == [1, 2]
    house.broker.hive = house.hive.with_parent("bob", "dan")
    house.run()
    with pytest.raises(NotFound):
        ann.result()
    assert not ann.replies


def test_a_stream_may_wait_for_more(house: House) -> None:
    ann = house.phone("ann")
    ann.ask("Count", {"after": 9, "to": 20}, more=True)
    house.run()
    assert not ann.replies
    house.broker.touch({"ten"})
    house.run()
    assert not ann.replies


def test_a_stream_without_places_goes_on_for_ever(house: House) -> None:
    ann, bob = house.phone("ann"), house.phone("bob")
    ann.ask("Hear", more=True)
    house.run()
    for text in ("one", "two"):
        bob.call("Tell", {"agent": "ann", "text": text})
    assert all(reply["continues"] for reply in ann.replies)
    assert [result["texts"] for result in ann.results()] == [["one"], ["two"]]
    house.advance(1000)


def test_a_slow_read_happens_outside_and_is_delivered(house: House) -> None:
    desk = SlowReads()
    desk.journal.write(ANN, "line")
    ann = house.phone("ann")
    ann.ask("Fetch")
    ann.ask("Look")
    house.run()
    ((line, read),) = house.desk.reads

    async def bring() -> Result:
        return await read(desk)

    result = asyncio.run(bring())
    house.broker.read_completed(line, result)
    house.run()
    assert ann.result() == {"lines": ["line"]}
    assert ann.result()["name"] == "ann"


def test_a_slow_read_is_judged_again_on_delivery(house: House) -> None:
    ann = house.phone("ann")
    ann.ask("Fetch", {"agent": "cat"})
    house.run()
    ((line, _),) = house.desk.reads
    house.broker.hive = house.hive.with_parent("bob", "dan")
    house.broker.read_completed(line, Result())
    house.run()
    with pytest.raises(NotFound):
        ann.result()


def test_a_slow_read_that_fails_is_the_callers_error(house: House) -> None:
    ann = house.phone("ann")
    ann.ask("Fetch")
    house.run()
    house.broker.read_completed(house.desk.reads[0][0], Busy("later"))
    house.run()
    with pytest.raises(Busy):
        ann.result()


def test_a_slow_read_for_a_connection_that_is_gone_is_dropped(house: House) -> None:
    ann = house.phone("ann")
    ann.ask("Fetch")
    house.run()
    house.broker.drop(ann.line)
    house.broker.read_completed(ann.line, Result())
    house.run()
    assert not ann.replies


def end(house: House, job: str, error: str = "", **progress: object) -> None:
    """The change road has reached the goals of a job, or cannot."""
    with house.ledger.transaction():
        if progress:
            house.ledger.jobs.progress(job, progress)
        house.ledger.jobs.finish(job, error, house.clock.now())
    house.broker.touch({f"job:{job}"})
    house.run()


def only_job(house: House) -> str:
    (job,) = house.ledger.jobs.open()
    return job.id


def test_a_job_is_answered_at_once_without_wait(house: House) -> None:
    job = house.phone("ann").call("Work")["job"]
    assert job == only_job(house)


def test_with_wait_a_job_is_answered_after_it_ended_with_what_it_ended(house: House) -> None:
    ann = house.phone("ann")
    ann.ask("Work", {"wait": 20.0})
    house.run()
    assert not ann.replies
    job = only_job(house)
    end(house, job, ended=["pid 7"], other="not a field of the result")
    assert ann.result() == {"job": job, "ended": ["pid 7"]}


def test_a_job_that_takes_longer_than_the_wait_is_answered_with_its_id(house: House) -> None:
    ann = house.phone("ann")
    ann.ask("Work", {"wait": 20.0})
    house.run()
    house.advance(20.1)
    assert ann.result()["job"] == only_job(house)


def test_a_failed_job_is_the_error_of_the_call_that_waits(house: House) -> None:
    ann = house.phone("ann")
    for error in ("NotRunning: it is parked", "no such image", "InvalidParameter: x"):
        ann.ask("Work", {"wait": 20.0})
        house.run()
        end(house, only_job(house), error)
    with pytest.raises(NotRunning, match=r"^it is parked$"):
        ann.result()
    for text in ("no such image", "InvalidParameter: x"):
        with pytest.raises(Internal, match=text):
            ann.result()


def test_a_waiting_caller_that_is_moved_away_still_gets_its_own_answer(house: House) -> None:
    """What it asked for is done; nothing is decided any more."""
    ann = house.phone("ann")
    ann.ask("Work", {"wait": 20.0})
    house.run()
    house.broker.hive = house.hive.with_parent("ann", "dan")
    end(house, only_job(house))
    assert ann.result()["job"]
