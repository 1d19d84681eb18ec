"""One call: the decision, its target, and how each refusal looks on the wire."""

from __future__ import annotations

import json

import pytest
from each import for_each
from fixtures.broker import BrokerHarness, spec

from hive_core import errors
from hive_core.errors import InvalidArgument, InvalidParameter, NotAllowed, NotFound


def test_a_call_is_answered_with_its_result(harness: BrokerHarness) -> None:
    assert harness.client("ann").call("Look") == {"name": "ann", "agents": 6}


def test_an_absent_target_is_the_caller_itself(harness: BrokerHarness) -> None:
    assert harness.client("cat").call("Look")["name"] == "cat"
    assert harness.client("operator").call("Look")["name"] == "operator"


def test_an_alias_is_the_same_method(harness: BrokerHarness) -> None:
    assert harness.client("ann").call("Gaze", {"agent": "cat"})["name"] == "cat"


def test_a_visible_agent_that_is_not_the_callers_gives_the_rule_and_the_reason(
    harness: BrokerHarness,
) -> None:
    error = harness.client("dan").error("Look", {"agent": "ann"})
    assert isinstance(error, NotAllowed)
    assert error.reason.startswith("cannot look ann: not your")
    assert error.fields["rule"]


def test_attack_41_unknown_and_unseen_agents_look_the_same(harness: BrokerHarness) -> None:
    dan = harness.client("dan")
    unseen = dan.error("Look", {"agent": "cat"})
    unknown = dan.error("Look", {"agent": "nix"})
    assert isinstance(unseen, NotFound)
    assert isinstance(unknown, NotFound)
    assert unseen.reason.replace("cat", "nix") == unknown.reason
    assert unseen.fields == unknown.fields == {}


def test_a_name_as_long_as_a_frame_does_not_come_back(harness: BrokerHarness) -> None:
    error = harness.client("dan").error("Look", {"agent": "x" * 500_000})
    assert isinstance(error, NotFound)
    assert len(error.reason) < 200
    assert len(harness.events("refusal")[0].target) <= 64


@for_each(
    "parameters, name",
    [
        ({}, "agent"),
        ({"agent": 7}, "agent"),
        ({"agent": "bob", "extra": 1}, "extra"),
        ({"agent": "bob", "times": "1"}, "times"),
        ({"agent": "bob", "times": 1.5}, "times"),
        ({"agent": "bob", "times": True}, "times"),
        ({"agent": "bob", "times": 99, "odd": 1}, "odd"),
    ],
)
def test_what_does_not_fit_the_schema_names_the_parameter(
    harness: BrokerHarness, parameters: dict[str, object], name: str
) -> None:
    error = harness.client("ann").error("Note", parameters)
    assert isinstance(error, InvalidParameter)
    assert error.parameter == name
    assert error.parameters == {"parameter": name, "reason": error.why}
    assert error.why


def test_a_word_outside_of_an_enum_does_not_fit(harness: BrokerHarness) -> None:
    error = harness.client("ann").error("Look", {"near": "moon"})
    assert isinstance(error, InvalidParameter)
    assert error.parameter == "near"


def test_a_value_that_fits_and_makes_no_sense_names_the_field(harness: BrokerHarness) -> None:
    error = harness.client("ann").error("Note", {"agent": "bob", "times": 99})
    assert isinstance(error, InvalidArgument)
    assert error.parameters == {
        "field": "times",
        "reason": "should be less than or equal to 9, not 99",
    }


def test_a_method_or_an_interface_that_is_not_there(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    assert isinstance(ann.error("Dance"), errors.MethodNotFound)
    assert isinstance(ann.error("org.varlink.service.Dance"), errors.MethodNotFound)
    error = ann.error("org.other.Dance")
    assert error.parameters == {"interface": "org.other"}
    assert isinstance(ann.error("nodot"), errors.MethodNotFound)


@pytest.mark.parametrize("value", [1, 0, "yes", []])
def test_a_flag_is_a_boolean(harness: BrokerHarness, value: object) -> None:
    ann = harness.client("ann")
    message = {"method": "org.hive.Broker.Look", "more": value}
    ann.say(json.dumps(message).encode())
    harness.run()
    with pytest.raises(InvalidParameter) as caught:
        ann.result()
    assert caught.value.parameter == "more"


def test_a_number_too_large_for_any_clock_is_no_number(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.say(b'{"method":"org.hive.Broker.Hear","parameters":{"wait":1e999}}')
    harness.run()
    with pytest.raises(errors.BadFrame, match="out of range"):
        ann.result()


def test_an_upgrade_is_refused(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.ask("Look", upgrade=True)
    harness.run()
    with pytest.raises(errors.MethodNotImplemented):
        ann.result()


def test_attack_43_nothing_in_an_envelope_names_the_caller(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    for extra in ("from", "caller", "as", "uuid"):
        ann.say(b'{"method":"org.hive.Broker.Look","%s":"root"}' % extra.encode())
        harness.run()
        with pytest.raises(InvalidParameter) as caught:
            ann.result()
        assert caught.value.parameter == extra
        assert isinstance(ann.error("Look", {extra: "root"}), InvalidParameter)


@pytest.mark.parametrize(
    ("frame", "parameter"),
    [
        (b"{}", "method"),
        (b'{"method":7}', "method"),
        (b'{"method":"org.hive.Broker.Look","parameters":[]}', "parameters"),
        (b'{"method":"org.hive.Broker.Look","more":1.5}', "more"),
        (b'{"method":"org.hive.Broker.Look","oneway":"yes"}', "oneway"),
    ],
)
def test_an_envelope_that_does_not_fit_names_its_part(
    harness: BrokerHarness, frame: bytes, parameter: str
) -> None:
    ann = harness.client("ann")
    ann.say(frame)
    harness.run()
    with pytest.raises(InvalidParameter) as caught:
        ann.result()
    assert caught.value.parameter == parameter


def test_absent_and_null_parameters_are_none(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.say(
        b'{"method":"org.hive.Broker.Look"}',
        b'{"method":"org.hive.Broker.Look","parameters":null,"more":null}',
    )
    harness.run()
    assert [reply["name"] for reply in ann.results()] == ["ann", "ann"]


def test_a_oneway_call_is_done_and_not_answered(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    ann.ask("Note", {"agent": "bob"}, oneway=True)
    ann.ask("Note", {"agent": "nobody"}, oneway=True)
    ann.ask("Hear", {"wait": 9.0}, oneway=True)
    ann.ask("Look")
    harness.run()
    assert [reply["name"] for reply in ann.results()] == ["ann"]
    assert harness.ledger.runs.get(spec("bob").id) is not None


def test_bytes_that_are_no_frame_are_answered_after_the_calls_before_and_end_the_line(
    harness: BrokerHarness,
) -> None:
    ann = harness.client("ann")
    ann.ask("Look")
    ann.say(b"{")
    ann.ask("Look")
    harness.run()
    assert ann.result()["name"] == "ann"
    with pytest.raises(errors.BadFrame):
        ann.result()
    assert ann.closed
    assert not ann.replies


def test_a_fault_of_a_handler_costs_one_call_and_says_nothing_of_its_inside(
    harness: BrokerHarness,
) -> None:
    ann = harness.client("ann")
    error = ann.error("Note", {"agent": "bob", "then": "fault"})
    assert isinstance(error, errors.Internal)
    assert "bug" not in error.reason
    assert ann.call("Look")["name"] == "ann"
    assert harness.ledger.runs.get(spec("bob").id) is None


def test_an_agent_that_is_gone_may_nothing(harness: BrokerHarness) -> None:
    cat = harness.client("cat")
    hive = harness.hive.without("cat")
    harness.broker.hive = hive
    assert isinstance(cat.error("Look"), NotFound)
    assert isinstance(cat.error("Tell", {"agent": "bob", "text": "x"}), NotFound)


def test_the_daemon_is_no_caller_on_the_wire(harness: BrokerHarness) -> None:
    """Only the daemon's own code acts as `daemon`; a line of that name has no rights at all."""
    harness.broker.hive = harness.hive
    line = harness.client("ann")
    line.line.party = "daemon"
    error = line.error("Look", {"agent": "bob"})
    assert isinstance(error, NotFound | NotAllowed)


def test_the_service_describes_itself(harness: BrokerHarness) -> None:
    ann = harness.client("ann")
    info = ann.call("org.varlink.service.GetInfo")
    assert info["interfaces"] == ["org.hive.Broker", "org.varlink.service"]
    for name in info["interfaces"]:
        asked = ann.call("org.varlink.service.GetInterfaceDescription", {"interface": name})
        assert f"interface {name}" in asked["description"]
    wrong = ann.error("org.varlink.service.GetInterfaceDescription", {"interface": "a.b"})
    assert wrong.parameters == {"interface": "a.b"}
    for odd in ({}, {"interface": 1}, {"interface": "a.b", "x": 1}):
        error = ann.error("org.varlink.service.GetInterfaceDescription", odd)
        assert isinstance(error, InvalidParameter)


def test_a_call_about_a_thing_is_judged_by_the_agent_that_it_belongs_to(
    harness: BrokerHarness,
) -> None:
    thing = {"thing": "cat's thing"}
    assert harness.client("ann").call("Mend", thing) == {"id": "cat's thing"}
    error = harness.client("cat").error("Mend", thing)
    assert isinstance(error, NotAllowed)
    assert error.reason.startswith("cannot mend of cat: not")
    assert harness.events("record")[-1].target == spec("cat").id


def test_attack_41_a_thing_that_may_not_be_seen_is_answered_as_one_that_is_not(
    harness: BrokerHarness,
) -> None:
    dan = harness.client("dan")
    unseen = dan.error("Mend", {"thing": "cat's thing"})
    unknown = dan.error("Mend", {"thing": "nix's thing"})
    assert type(unseen) is type(unknown) is NotFound
    assert unseen.reason.replace("cat", "nix") == unknown.reason == "no thing nix's thing"
