"""Idempotency keys: attack 42, replayed and repeated calls."""

from __future__ import annotations

import pytest
from fixtures.broker import House, spec

from hive_core.errors import Conflict, InvalidArgument, LimitReached

NOTE = {"agent": "bob", "idempotency_key": "k1"}


def test_attack_42_a_repeat_gets_the_first_result_and_has_no_effect(house: House) -> None:
    ann = house.phone("ann")
    assert ann.call("Note", NOTE) == {"nonce": 1}
    assert ann.call("Note", NOTE) == {"nonce": 1}
    assert house.phone("ann").call("Note", NOTE) == {"nonce": 1}
    assert ann.call("Note", {"agent": "bob"}) == {"nonce": 2}
    assert len(house.events("record")) == 2


def test_a_repeat_in_the_same_batch_is_one_too(house: House) -> None:
    ann = house.phone("ann")
    ann.ask("Note", NOTE)
    ann.ask("Note", NOTE)
    house.run()
    assert ann.results() == [{"nonce": 1}, {"nonce": 1}]


def test_the_same_key_with_another_call_is_a_conflict(house: House) -> None:
    ann = house.phone("ann")
    ann.call("Note", NOTE)
    for method, parameters in (("Note", NOTE | {"times": 2}), ("Grow", {"name": "eve"})):
        error = ann.error(method, parameters | {"idempotency_key": "k1"})
        assert isinstance(error, Conflict)
        assert "key" in error.reason


def test_a_key_belongs_to_its_caller(house: House) -> None:
    house.phone("ann").call("Note", NOTE)
    assert house.phone("root").call("Note", NOTE) == {"nonce": 2}


def test_only_successes_are_kept(house: House) -> None:
    ann = house.phone("ann")
    call = {"agent": "bob", "idempotency_key": "k1", "then": "limit"}
    assert isinstance(ann.error("Note", call), LimitReached)
    assert ann.call("Note", call | {"then": ""}) == {"nonce": 1}


def test_a_repeat_is_answered_even_when_the_target_is_gone(house: House) -> None:
    """It is looked up before the target is resolved: the caller learns that it was done."""
    ann = house.phone("ann")
    ann.call("Note", NOTE)
    house.broker.hive = house.hive.without("bob")
    assert ann.call("Note", NOTE) == {"nonce": 1}


def test_a_repeated_change_commits_nothing(house: House) -> None:
    ann = house.phone("ann")
    call = {"name": "eve", "idempotency_key": "k1"}
    first, commit = ann.call("Grow", call), house.hive.commit
    assert ann.call("Grow", call) == first
    assert house.hive.commit == commit


def test_a_repeat_may_wait_for_the_job_of_the_first(house: House) -> None:
    ann = house.phone("ann")
    job = ann.call("Work", {"idempotency_key": "k1"})["job"]
    ann.ask("Work", {"idempotency_key": "k1", "wait": 20.0})
    house.run()
    assert not ann.replies
    with house.ledger.transaction():
        house.ledger.jobs.finish(job, "", house.clock.now())
    house.broker.touch({f"job:{job}"})
    house.run()
    assert ann.result()["job"] == job


def test_a_repeat_does_not_wait_for_a_job_that_has_ended(house: House) -> None:
    ann = house.phone("ann")
    job = ann.call("Work", {"idempotency_key": "k1"})["job"]
    with house.ledger.transaction():
        house.ledger.jobs.finish(job, "", house.clock.now())
    assert ann.call("Work", {"idempotency_key": "k1", "wait": 20.0})["job"] == job


def test_a_key_has_bounds(house: House) -> None:
    for key in ("", "k" * 129):
        error = house.phone("ann").error("Note", {"agent": "bob", "idempotency_key": key})
        assert isinstance(error, InvalidArgument)
        assert error.field == "idempotency_key"


def test_a_key_is_taken_back_with_the_effect(house: House) -> None:
    ann = house.phone("ann")
    call = {"agent": "bob", "idempotency_key": "k1", "then": "fault"}
    ann.error("Note", call)
    assert house.ledger.keys.lookup(spec("ann").id, "k1") is None
    with pytest.raises(AssertionError):
        ann.result()
