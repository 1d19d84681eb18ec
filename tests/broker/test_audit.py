"""Row H27: every mutation and every refusal is an event; a flood of refusals fills no disk."""

from __future__ import annotations

import pytest
from fixtures.broker import BrokerHarness, lend_broker, spec

from hive_core.broker.audit import rejected_peer_entry
from hive_core.errors import StorageFull
from hive_core.model.config.settings import HostLimits, Settings

ANN, BOB = spec("ann").id, spec("bob").id


def test_h27_a_mutation_has_its_caller_its_target_and_the_reason_it_was_allowed(
    harness: BrokerHarness,
) -> None:
    harness.client("ann").call("Note", {"agent": "bob"})
    (event,) = harness.events()
    assert (event.kind, event.caller, event.operation, event.target) == (
        "record", ANN, "note", BOB,
    )  # fmt: skip
    assert event.allowed is True
    assert event.rule == "ancestor"
    assert event.commit == harness.hive.commit
    assert event.request
    assert event.fields == {"caller_name": "ann", "target_name": "bob", "more": 1}


def test_h27_a_refusal_says_which_rule_said_no(harness: BrokerHarness) -> None:
    harness.client("dan").error("Note", {"agent": "ann"})
    (event,) = harness.events("refusal")
    assert (event.caller, event.operation, event.target) == (spec("dan").id, "note", ANN)
    assert event.allowed is False
    assert event.rule
    assert "not your descendant" in event.reason


def test_a_refusal_about_an_unseen_agent_is_recorded_with_its_identity(
    harness: BrokerHarness,
) -> None:
    harness.client("dan").error("Look", {"agent": "cat"})
    harness.client("dan").error("Look", {"agent": "nobody"})
    assert [item.target for item in harness.events("refusal")] == [spec("cat").id, "nobody"]


def test_a_refusal_by_a_handler_is_recorded_with_its_rule(harness: BrokerHarness) -> None:
    harness.client("ann").error("Note", {"agent": "bob", "then": "deny"})
    (event,) = harness.events()
    assert (event.kind, event.rule, event.reason) == (
        "refusal", "special", "cannot note that: not yours",
    )  # fmt: skip


def test_the_operators_uid_says_on_whose_behalf(harness: BrokerHarness) -> None:
    harness.client("operator").call("Note", {"agent": "bob"})
    (event,) = harness.events()
    assert event.caller == "operator"
    assert event.fields["uid"] == 1000


def test_calls_that_do_not_fit_and_failures_are_no_refusals(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.error("Note", {})
    ann.error("Note", {"agent": "bob", "then": "limit"})
    assert not harness.events()


def test_allowed_reads_are_counted_and_not_stored(harness: BrokerHarness) -> None:
    for _ in range(3):
        harness.client("ann").call("Look")
    assert not harness.events()
    assert harness.ledger.events.reads.counts() == {(ANN, "look"): 3}


def test_a_flood_of_refusals_is_recorded_up_to_a_rate_and_counted() -> None:
    settings = Settings(limits=HostLimits(refusals_kept=60))
    with lend_broker(settings=settings) as harness:
        dan = harness.client("dan")
        for _ in range(500):
            dan.ask("Look", {"agent": "ann"})
        harness.run()
        assert len(dan.replies) == 500
        assert len(harness.events("refusal")) == 60
        harness.client("lone").error("Look", {"agent": "ann"})
        assert len(harness.events("refusal")) == 61
        harness.advance(2.0)
        dan.replies.clear()
        dan.error("Look", {"agent": "ann"})
        fields = [item.fields for item in harness.events("refusal")]
        assert fields[-1]["not_kept"]
        assert sum(int(str(item.get("not_kept", 0))) for item in fields) == 440


def test_how_many_were_not_kept_outlives_a_transaction_that_is_taken_back() -> None:
    with lend_broker(settings=Settings(limits=HostLimits(refusals_kept=1))) as harness:
        harness.broker.reject_peer(ANN, 0)
        harness.run()
        for _ in range(40):
            harness.broker.reject_peer(ANN, 0)

        def write(*, fits: bool) -> None:
            with harness.ledger.transaction():
                harness.broker.audit.write(rejected_peer_entry(ANN, 0, harness.hive, 1.0))
                if not fits:
                    raise StorageFull

        with pytest.raises(StorageFull):
            write(fits=False)
        write(fits=True)
        assert harness.events("refusal")[-1].fields["not_kept"] == 40


def test_the_chain_of_events_holds(harness: BrokerHarness) -> None:
    ann, dan = harness.client("ann"), harness.client("dan")
    for _ in range(3):
        ann.ask("Note", {"agent": "bob"})
        dan.ask("Note", {"agent": "bob"})
        ann.ask("Grow", {"name": "eve"})
    harness.run()
    assert harness.ledger.events.verify() is None
    assert [event.seq for event in harness.events()] == list(range(1, 8))


def test_a_stranger_at_a_socket_is_recorded(harness: BrokerHarness) -> None:
    harness.broker.reject_peer(ANN, 0)
    harness.run()
    (event,) = harness.events("refusal")
    assert (event.caller, event.operation, event.target) == ("uid:0", "connect", ANN)
    assert frozenset({"events"}) in harness.woken


def test_strangers_that_were_not_kept_are_counted_and_cost_the_agent_nothing() -> None:
    with lend_broker(settings=Settings(limits=HostLimits(refusals_kept=60))) as harness:
        for _ in range(100):
            harness.broker.reject_peer(ANN, 0)
        harness.run()
        harness.client("ann").error("Note", {"agent": "root"})
        assert len(harness.events("refusal")) == 61
        values = [entry.fields.get("not_kept", 0) for entry in harness.events("refusal")]
        assert sum(int(str(entry)) for entry in values) == 40


def test_a_call_without_a_target_acts_on_its_caller(harness: BrokerHarness) -> None:
    harness.client("ann").call("Grow", {"name": "eve"})
    (event,) = harness.events("change")
    assert (event.target, event.fields["target_name"]) == (ANN, "ann")
