"""Idempotency keys: attack 42, replayed and repeated calls."""

from __future__ import annotations

import pytest
from fixtures.broker import BrokerHarness, spec

from hive_core.errors import Conflict, InvalidArgument, LimitReached

NOTE = {"agent": "bob", "idempotency_key": "k1"}


def test_attack_42_a_repeat_gets_the_first_result_and_has_no_effect(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    assert ann.call("Note", NOTE) == {"nonce": 1}
    assert ann.call("Note", NOTE) == {"nonce": 1}
    assert harness.client("ann").call("Note", NOTE) == {"nonce": 1}
    assert ann.call("Note", {"agent": "bob"}) == {"nonce": 2}
    assert len(harness.events("record")) == 2


def test_a_repeat_in_the_same_batch_is_one_too(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.ask("Note", NOTE)
    ann.ask("Note", NOTE)
    harness.run()
    assert ann.results() == [{"nonce": 1}, {"nonce": 1}]


def test_the_same_key_with_another_call_is_a_conflict(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.call("Note", NOTE)
    for method, parameters in (("Note", NOTE | {"times": 2}), ("Grow", {"name": "eve"})):
        error = ann.error(method, parameters | {"idempotency_key": "k1"})
        assert isinstance(error, Conflict)
        assert "key" in error.reason


def test_a_key_belongs_to_its_caller(harness: BrokerHarness) -> None:
    harness.client("ann").call("Note", NOTE)
    assert harness.client("root").call("Note", NOTE) == {"nonce": 2}


def test_only_successes_are_kept(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    call = {"agent": "bob", "idempotency_key": "k1", "then": "limit"}
    assert isinstance(ann.error("Note", call), LimitReached)
    assert ann.call("Note", call | {"then": ""}) == {"nonce": 1}


def test_a_repeat_is_answered_even_when_the_target_is_gone(harness: BrokerHarness) -> None:
    """It is looked up before the target is resolved: the caller learns that it was done."""
    ann = harness.client("ann")
    ann.call("Note", NOTE)
    harness.broker.hive = harness.hive.without("bob")
    assert ann.call("Note", NOTE) == {"nonce": 1}


def test_a_repeated_change_commits_nothing(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    call = {"name": "eve", "idempotency_key": "k1"}
    first, commit = ann.call("Grow", call), harness.hive.commit
    assert ann.call("Grow", call) == first
    assert harness.hive.commit == commit


def test_a_repeat_may_wait_for_the_job_of_the_first(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    job = ann.call("Work", {"idempotency_key": "k1"})["job"]
    ann.ask("Work", {"idempotency_key": "k1", "wait": 20.0})
    harness.run()
    assert not ann.replies
    with harness.ledger.transaction():
        harness.ledger.jobs.finish(job, "", harness.clock.now())
    harness.broker.touch({f"job:{job}"})
    harness.run()
    assert ann.result()["job"] == job


def test_a_repeat_does_not_wait_for_a_job_that_has_ended(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    job = ann.call("Work", {"idempotency_key": "k1"})["job"]
    with harness.ledger.transaction():
        harness.ledger.jobs.finish(job, "", harness.clock.now())
    assert ann.call("Work", {"idempotency_key": "k1", "wait": 20.0})["job"] == job


def test_a_key_has_bounds(harness: BrokerHarness) -> None:
    for key in ("", "k" * 129):
        error = harness.client("ann").error("Note", {"agent": "bob", "idempotency_key": key})
        assert isinstance(error, InvalidArgument)
        assert error.field == "idempotency_key"


def test_a_key_is_taken_back_with_the_effect(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    call = {"agent": "bob", "idempotency_key": "k1", "then": "fault"}
    ann.error("Note", call)
    assert harness.ledger.keys.lookup(spec("ann").id, "k1") is None
    with pytest.raises(AssertionError):
        ann.result()
