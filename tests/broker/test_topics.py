"""Topics that a call notifies: they come with its effect, and go with its rollback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from fixtures.broker import BrokerHarness, lend_broker, spec
from pydantic import Field

from hive_core.broker import hooks
from hive_core.broker.call import Call, Record, Wait
from hive_core.broker.delegation import call_as
from hive_core.broker.hooks import AgentDestroyed, emit, on
from hive_core.broker.operation import REGISTRY, Mutation, Operation, Result, operation
from hive_core.errors import Busy, LimitReached
from hive_core.model.agents.machine import DesiredState
from hive_core.policy.rules import ANYONE

TOUCHING: dict[str, Operation] = {}


class TouchParams(Mutation):
    topic: str = Field(description="What is touched.")
    then: str = Field("", description="What happens after that.")


class Touched(Result):
    """Nothing."""


@operation(action="work", allow=ANYONE, into=TOUCHING)
def touch(call: Call, params: TouchParams) -> Record[Touched] | Wait[Touched]:
    """Touch a topic, and perhaps fail after that."""
    call.notify(params.topic)
    if params.then == "change and fail":
        call.ledger.runs.want(call.uuid, DesiredState.RUNNING, call.now, fresh=True)
    if params.then.endswith("fail"):
        raise LimitReached("enough of that")
    if params.then == "wait":
        return Wait(frozenset(("later",)), None, Touched())
    if params.then == "in part":
        with suppress(Busy), call.ledger.savepoint():
            call.notify("of a savepoint", "and another")
            raise Busy("not now")
        with call.ledger.savepoint():
            call.notify("afterwards")
    if params.then == "delegate":
        call_as(call, spec("bob").id, "touch", {"topic": "of bob"})
    if params.then == "emit":
        emit(call, AgentDestroyed(call.uuid, call.caller))
    return Record(Touched())


@pytest.fixture
def harness() -> Iterator[BrokerHarness]:
    with lend_broker(TOUCHING) as opened:
        yield opened


def topics_touched(harness: BrokerHarness) -> list[set[str]]:
    """What each batch touched, without what every recorded call does."""
    values = [set(topics) - {"events"} for topics in harness.woken]
    harness.woken.clear()
    return [topics for topics in values if topics]


def test_what_a_call_notifies_is_touched_after_its_commit(harness: BrokerHarness) -> None:
    harness.client("ann").call("Touch", {"topic": "a"})
    assert topics_touched(harness) == [{"a"}]


@pytest.mark.parametrize("then", ["fail", "change and fail"])
@pytest.mark.parametrize("careful", [False, True])
def test_a_call_that_fails_takes_its_topics_back(
    harness: BrokerHarness,
    then: str,
    careful: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    ann = harness.client("ann")
    if careful:  # after a call that failed late, each call has a savepoint
        ann.error("Touch", {"topic": "x", "then": "change and fail"})
    ann.ask("Touch", {"topic": "a"})
    ann.ask("Touch", {"topic": "b", "then": then})
    ann.ask("Touch", {"topic": "c"})
    harness.run()
    assert topics_touched(harness) == [{"a", "c"}]


def test_a_savepoint_takes_back_what_was_notified_in_it(harness: BrokerHarness) -> None:
    harness.client("ann").call("Touch", {"topic": "a", "then": "in part"})
    assert topics_touched(harness) == [{"a", "afterwards"}]


def test_a_call_that_waits_has_notified(harness: BrokerHarness) -> None:
    harness.client("ann").ask("Touch", {"topic": "a", "then": "wait"})
    harness.run()
    assert topics_touched(harness) == [{"a"}]


def test_what_is_done_for_another_is_notified(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REGISTRY, "touch", TOUCHING["touch"])
    harness.client("ann").call("Touch", {"topic": "a", "then": "delegate"})
    assert topics_touched(harness) == [{"a", "of bob"}]


def test_handlers_of_an_event_notify(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(hooks.HANDLERS, AgentDestroyed, [])

    @on(AgentDestroyed)
    def _notifies(call: Call, event: AgentDestroyed) -> None:
        call.notify(f"by name {event.name}")

    harness.client("ann").call("Touch", {"topic": "a", "then": "emit"})
    assert topics_touched(harness) == [{"a", "by name ann"}]


def test_what_the_daemon_does_by_itself_notifies(harness: BrokerHarness) -> None:
    def act(call: Call) -> Record[Touched]:
        call.notify("due")
        return Record(Touched())

    harness.broker.perform("due", act)
    assert topics_touched(harness) == [{"due"}]
