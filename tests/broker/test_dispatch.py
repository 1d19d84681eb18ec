"""One call: who may, on whom, and how every refusal looks on the wire."""

from __future__ import annotations

import json

import pytest
from fixtures.broker import House, spec

from hive_core import errors
from hive_core.errors import InvalidArgument, InvalidParameter, NotAllowed, NotFound


def test_a_call_is_answered_with_its_result(house: House) -> None:
    assert house.phone("ann").call("Look") == {"name": "ann", "agents": 6}


def test_an_absent_target_is_the_caller_itself(house: House) -> None:
    assert house.phone("cat").call("Look")["name"] == "cat"
    assert house.phone("operator").call("Look")["name"] == "operator"


def test_an_alias_is_the_same_method(house: House) -> None:
    assert house.phone("ann").call("Gaze", {"agent": "cat"})["name"] == "cat"


def test_a_visible_agent_that_is_not_the_callers_gives_the_rule_and_the_reason(
    house: House,
) -> None:
    error = house.phone("dan").error("Look", {"agent": "ann"})
    assert isinstance(error, NotAllowed)
    assert error.reason.startswith("cannot look ann: not your")
    assert error.fields["rule"]


def test_attack_41_unknown_and_unseen_agents_look_the_same(house: House) -> None:
    dan = house.phone("dan")
    unseen = dan.error("Look", {"agent": "cat"})
    unknown = dan.error("Look", {"agent": "nix"})
    assert isinstance(unseen, NotFound)
    assert isinstance(unknown, NotFound)
    assert unseen.reason.replace("cat", "nix") == unknown.reason
    assert unseen.fields == unknown.fields == {}


def test_a_name_as_long_as_a_frame_does_not_come_back(house: House) -> None:
    error = house.phone("dan").error("Look", {"agent": "x" * 500_000})
    assert isinstance(error, NotFound)
    assert len(error.reason) < 200
    assert len(house.events("refusal")[0].target) <= 64


@pytest.mark.parametrize(
    ("parameters", "name"),
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
    house: House, parameters: dict[str, object], name: str
) -> None:
    error = house.phone("ann").error("Note", parameters)
    assert isinstance(error, InvalidParameter)
    assert error.parameter == name
    assert error.parameters == {"parameter": name, "reason": error.why}
    assert error.why


def test_a_word_outside_of_an_enum_does_not_fit(house: House) -> None:
    error = house.phone("ann").error("Look", {"near": "moon"})
    assert isinstance(error, InvalidParameter)
    assert error.parameter == "near"


def test_a_value_that_fits_and_makes_no_sense_names_the_field(house: House) -> None:
    error = house.phone("ann").error("Note", {"agent": "bob", "times": 99})
    assert isinstance(error, InvalidArgument)
    assert error.parameters == {
        "field": "times",
        "reason": "should be less than or equal to 9, not 99",
    }


def test_a_method_or_an_interface_that_is_not_there(house: House) -> None:
    ann = house.phone("ann")
    assert isinstance(ann.error("Dance"), errors.MethodNotFound)
    assert isinstance(ann.error("org.varlink.service.Dance"), errors.MethodNotFound)
    error = ann.error("org.other.Dance")
    assert error.parameters == {"interface": "org.other"}
    assert isinstance(ann.error("nodot"), errors.MethodNotFound)


@pytest.mark.parametrize("value", [1, 0, "yes", []])
def test_a_flag_is_a_boolean(house: House, value: object) -> None:
    ann = house.phone("ann")
    message = {"method": "org.hive.Broker.Look", "more": value}
    ann.say(json.dumps(message).encode())
    house.run()
    with pytest.raises(InvalidParameter) as caught:
        ann.result()
    assert caught.value.parameter == "more"


def test_a_number_too_large_for_any_clock_is_no_number(house: House) -> None:
    ann = house.phone("ann")
    ann.say(b'{"method":"org.hive.Broker.Hear","parameters":{"wait":1e999}}')
    house.run()
    with pytest.raises(errors.BadFrame, match="out of range"):
        ann.result()


def test_an_upgrade_is_refused(house: House) -> None:
    ann = house.phone("ann")
    ann.ask("Look", upgrade=True)
    house.run()
    with pytest.raises(errors.MethodNotImplemented):
        ann.result()


def test_attack_43_nothing_in_an_envelope_names_the_caller(house: House) -> None:
    ann = house.phone("ann")
    for extra in ("from", "caller", "as", "uuid"):
        ann.say(b'{"method":"org.hive.Broker.Look","%s":"root"}' % extra.encode())
        house.run()
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
    house: House, frame: bytes, parameter: str
) -> None:
    ann = house.phone("ann")
    ann.say(frame)
    house.run()
    with pytest.raises(InvalidParameter) as caught:
        ann.result()
    assert caught.value.parameter == parameter


def test_absent_and_null_parameters_are_none(house: House) -> None:
    ann = house.phone("ann")
    ann.say(
        b'{"method":"org.hive.Broker.Look"}',
        b'{"method":"org.hive.Broker.Look","parameters":null,"more":null}',
    )
    house.run()
    assert [reply["name"] for reply in ann.results()] == ["ann", "ann"]


def test_a_oneway_call_is_done_and_not_answered(house: House) -> None:
    ann = house.phone("ann")
    ann.ask("Note", {"agent": "bob"}, oneway=True)
    ann.ask("Note", {"agent": "nobody"}, oneway=True)
    ann.ask("Hear", {"wait": 9.0}, oneway=True)
    ann.ask("Look")
    house.run()
    assert [reply["name"] for reply in ann.results()] == ["ann"]
    assert house.ledger.runs.get(spec("bob").id) is not None


def test_bytes_that_are_no_frame_are_answered_after_the_calls_before_and_end_the_line(
    house: House,
) -> None:
    ann = house.phone("ann")
    ann.ask("Look")
    ann.say(b"{")
    ann.ask("Look")
    house.run()
    assert ann.result()["name"] == "ann"
    with pytest.raises(errors.BadFrame):
        ann.result()
    assert ann.closed
    assert not ann.replies


def test_a_fault_of_a_handler_costs_one_call_and_says_nothing_of_its_inside(house: House) -> None:
    ann = house.phone("ann")
    error = ann.error("Note", {"agent": "bob", "then": "fault"})
    assert isinstance(error, errors.Internal)
    assert "bug" not in error.reason
    assert ann.call("Look")["name"] == "ann"
    assert house.ledger.runs.get(spec("bob").id) is None


def test_an_agent_that_is_gone_may_nothing(house: House) -> None:
    cat = house.phone("cat")
    hive = house.hive.without("cat")
    house.broker.hive = hive
    assert isinstance(cat.error("Look"), NotFound)
    assert isinstance(cat.error("Tell", {"agent": "bob", "text": "x"}), NotFound)


def test_the_daemon_is_no_caller_on_the_wire(house: House) -> None:
    """Only the daemon's own code acts as `daemon`; a line of that name has no rights at all."""
    house.broker.hive = house.hive
    line = house.phone("ann")
    line.line.party = "daemon"
    error = line.error("Look", {"agent": "bob"})
    assert isinstance(error, NotFound | NotAllowed)


def test_the_service_describes_itself(house: House) -> None:
    ann = house.phone("ann")
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


def test_a_call_about_a_thing_is_judged_by_the_agent_that_it_belongs_to(house: House) -> None:
    thing = {"thing": "cat's thing"}
    assert house.phone("ann").call("Mend", thing) == {"id": "cat's thing"}
    error = house.phone("cat").error("Mend", thing)
    assert isinstance(error, NotAllowed)
    assert error.reason.startswith("cannot mend of cat: not")
    assert house.events("record")[-1].target == spec("cat").id


def test_attack_41_a_thing_that_may_not_be_seen_is_answered_as_one_that_is_not(
    house: House,
) -> None:
    dan = house.phone("dan")
    unseen = dan.error("Mend", {"thing": "cat's thing"})
    unknown = dan.error("Mend", {"thing": "nix's thing"})
    assert type(unseen) is type(unknown) is NotFound
    assert unseen.reason.replace("cat", "nix") == unknown.reason == "no thing nix's thing"
