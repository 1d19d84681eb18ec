"""The action of an operation: roles hang on it, whatever the operation is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from each import for_each
from fixtures.broker import BrokerClient, BrokerHarness, lend_broker
from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Mutation, Operation, Result, operation
from hive_core.errors import NotAllowed
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.operations import load
from hive_core.policy.rules import ANCESTOR, OPERATOR

REFUSED = "your role may not stop agents"


class HaltParams(Mutation):
    agent: str = Field(description="Whom to halt.")


class Halted(Result):
    agent: str = Field(description="Who was halted.")


def halt(_call: Call, params: HaltParams) -> Record[Halted]:
    """Halt an agent."""
    return Record(Halted(agent=params.agent))


@pytest.fixture(name="harness")
def _house() -> Iterator[BrokerHarness]:
    """An architect and a lead, each with an agent below, and an operation that is new."""
    registry: dict[str, Operation] = {**load()}
    operation(action="stop", allow=ANCESTOR | OPERATOR, target="agent", into=registry)(halt)
    with lend_broker(registry) as harness:
        for name, parent, role in (
            ("ada", "ann", "architect"), ("led", "ann", "lead"),
            ("under_ada", "ada", "worker"), ("under_led", "led", "worker"),
        ):  # fmt: skip
            values = {"name": name.replace("_", "-"), "parent": parent, "role": role, "boot": False}
            harness.client(THE_OPERATOR).call("Spawn", values)
        yield harness


def client(harness: BrokerHarness, name: str) -> BrokerClient:
    return BrokerClient(harness, harness.hive.spec(name).id)


def test_a_new_operation_is_bounded_by_the_role_of_its_caller(harness: BrokerHarness) -> None:
    error = client(harness, "ada").error("Halt", {"agent": "under-ada"})
    assert isinstance(error, NotAllowed)
    assert REFUSED in str(error)
    (event,) = harness.ledger.events.page(harness.ledger.events.last - 1, 10)
    ada = harness.hive.spec("ada").id
    assert (event.caller, event.operation, event.allowed) == (ada, "halt", False)


@pytest.mark.parametrize("method", ["Halt", "Stop", "Kill", "Sleep"])
def test_it_is_refused_as_those_that_were_there_before(harness: BrokerHarness, method: str) -> None:
    assert REFUSED in str(client(harness, "ada").error(method, {"agent": "under-ada"}))


def test_a_role_that_may_stop_and_the_operator_do_it(harness: BrokerHarness) -> None:
    assert client(harness, "led").call("Halt", {"agent": "under-led"}) == {"agent": "under-led"}
    assert harness.client(THE_OPERATOR).call("Halt", {"agent": "under-ada"}) == {
        "agent": "under-ada"
    }


Declare = Callable[..., Callable[[object], object]]


@for_each("words", [{}, {"action": "halt"}, {"action": ""}, {"action": None}])
def test_an_operation_without_an_action_of_the_set_does_not_import(words: dict[str, Any]) -> None:
    registry: dict[str, Operation] = {}
    with pytest.raises(TypeError, match="action"):
        cast("Declare", operation)(allow=OPERATOR, into=registry, **words)(halt)
    assert registry == {}
