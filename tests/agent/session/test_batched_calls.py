"""Calls of a session that are sent together: their answers, refusals and repetitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.fake_broker import FakeBroker, fake_broker

from hive_core.agent.reconnect import BatchedCall, Link
from hive_core.agent.session.calls import ToolPlace
from hive_core.agent.session.runtimes.builtin import RuntimeCommand
from hive_core.agent.session.services import SessionServices
from hive_core.errors import Busy, NotAllowed, Unreachable
from hive_core.varlink import Message

WHOAMI = BatchedCall("whoami", {})
USAGE = BatchedCall("get_usage", {}, optional=True)


@pytest.fixture(name="broker")
def _broker(tmp_path: Path) -> Iterator[FakeBroker]:
    with fake_broker(tmp_path / "broker") as broker:
        broker.answers["Whoami"] = lambda _: {"name": "bob"}
        yield broker


@pytest.fixture(name="services")
def _services(broker: FakeBroker, tmp_path: Path) -> SessionServices:
    place = ToolPlace(tmp_path, broker.path)
    return SessionServices("bob", broker.path, tmp_path, place, RuntimeCommand())


def test_answers_come_in_the_order_of_the_calls(
    broker: FakeBroker, services: SessionServices
) -> None:
    broker.answers["GetUsage"] = lambda params: {"of": params.get("agent")}
    calls = (BatchedCall("get_usage", {"agent": "a", "limit": None}), WHOAMI)
    with services.open_link() as link:
        assert services.ask_together(link, calls) == [{"of": "a"}, {"name": "bob"}]
    assert broker.calls == [("GetUsage", {"agent": "a"}), ("Whoami", {})]


def test_the_refusal_of_a_needed_call_is_raised_and_of_another_is_an_empty_answer(
    broker: FakeBroker, services: SessionServices
) -> None:
    def refuse(_: Message) -> Message:
        raise NotAllowed("not yours")

    broker.answers["GetUsage"] = refuse
    with services.open_link() as link:
        assert services.ask_together(link, (USAGE, WHOAMI)) == [{}, {"name": "bob"}]
        with pytest.raises(NotAllowed, match="not yours"):
            services.ask_together(link, (USAGE._replace(optional=False), WHOAMI))
        assert services.ask_together(link, (WHOAMI,)) == [{"name": "bob"}]  # none was left unread


def test_a_call_that_the_daemon_is_too_busy_for_is_made_again(
    broker: FakeBroker, services: SessionServices
) -> None:
    answers: list[Message | Busy] = [Busy("later"), {"left": 1}]

    def answer(_: Message) -> Message:
        row = answers.pop(0)
        if isinstance(row, Busy):
            raise row
        return row

    broker.answers["GetUsage"] = answer
    with services.open_link() as link:
        assert services.ask_together(link, (USAGE, WHOAMI)) == [{"left": 1}, {"name": "bob"}]


def test_calls_whose_connection_broke_are_all_sent_again(
    broker: FakeBroker, services: SessionServices
) -> None:
    def hang_up(_: Message) -> Message:
        broker.answers["GetUsage"] = lambda _: {"left": 1}
        raise ConnectionError

    broker.answers["GetUsage"] = hang_up
    with services.open_link() as link:
        assert services.ask_together(link, (WHOAMI, USAGE)) == [{"name": "bob"}, {"left": 1}]
    assert len(broker.params_of("Whoami")) == 2


def test_a_session_that_ends_takes_a_daemon_that_is_away_for_no_refusal(
    broker: FakeBroker, services: SessionServices
) -> None:
    broker.stop()
    services.stop.set()
    with Link(broker.path, patience=0.0) as link, pytest.raises(Unreachable):
        services.ask_together(link, (USAGE,))


def test_a_call_without_an_answer_does_not_hold_up_the_next(broker: FakeBroker) -> None:
    broker.answers["StreamTurn"] = lambda _: []
    with Link(broker.path) as link:
        link.tell("stream_turn", text="x", turn=None)
        assert link.ask("whoami") == {"name": "bob"}
    assert broker.calls[0] == ("StreamTurn", {"text": "x"})
