"""Attack 61: the loop is shared by party and by the time used, with the operator first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.broker import BrokerClient, BrokerHarness, open_broker
from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.connection import ClientConnection
from hive_core.broker.fair_queue import PART, READING, FairQueue
from hive_core.broker.operation import Operation, Params, Result, operation
from hive_core.model.wire.record import LOGIN
from hive_core.policy.rules import SELF


class DawdleParams(Params):
    seconds: float = Field(description="How long the handler takes.")


class Dawdled(Result):
    name: str = Field(description="The caller.")


class Served:
    """The order in which calls were served, and a clock that goes on while a handler works."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.registry: dict[str, Operation] = {}
        self.advance: Callable[[float], None] = lambda _: None

        @operation(action="read", allow=SELF, into=self.registry)
        def dawdle(call: Call, params: DawdleParams) -> Dawdled:
            """Use this much time of the loop."""
            self.order.append(call.caller)
            self.advance(params.seconds)
            return Dawdled(name=call.caller)

    def open(self, harness: BrokerHarness) -> None:
        self.advance = harness.clock.advance


def ask(clients: list[BrokerClient], seconds: float, times: int = 1) -> None:
    for client in clients:
        for _ in range(times):
            client.ask("Dawdle", {"seconds": seconds})


@pytest.mark.parametrize("hostile", [("ann",), ("ann", "bob")])
def test_attack_61_a_newcomer_waits_for_one_part_of_a_batch_whatever_others_have_asked(
    folder: Path, hostile: tuple[str, ...]
) -> None:
    served = Served()
    with open_broker(folder, served.registry) as harness:
        served.open(harness)
        ask([harness.client(name) for name in hostile for _ in range(60)], READING / 2, times=4)
        harness.turn()
        before, began = len(served.order), harness.clock.monotonic()
        dan = harness.client("dan")
        ask([dan], 0.0)
        harness.turn()
        assert served.order[before] == "dan"
        assert harness.clock.monotonic() - began <= 2 * READING
        dan.result()


def test_attack_61_two_parties_get_the_same_time_whatever_their_calls_cost(folder: Path) -> None:
    served = Served()
    with open_broker(folder, served.registry) as harness:
        served.open(harness)
        costs = {"ann": 0.008, "bob": 0.002}
        for name, seconds in costs.items():
            ask([harness.client(name) for _ in range(60)], seconds, times=60)
        for _ in range(200):
            harness.turn()
        calls = Counter(served.order)
        used = {name: calls[name] * seconds for name, seconds in costs.items()}
        assert used["ann"] == pytest.approx(used["bob"], rel=0.1)


def test_attack_61_the_operator_is_served_first(folder: Path) -> None:
    served = Served()
    with open_broker(folder, served.registry) as harness:
        served.open(harness)
        operator = harness.client("operator")
        for _ in range(5):
            ask([harness.client("ann")], 0.001)
            ask([operator], 0.009)
            before = len(served.order)
            harness.turn()
            assert served.order[before] == "operator"


def test_attack_61_a_party_that_used_little_has_its_answer_before_the_next_is_served(
    folder: Path,
) -> None:
    served = Served()
    with open_broker(folder, served.registry) as harness:
        ann, dan = harness.client("ann"), harness.client("dan")
        seen = list[int]()

        def advance(seconds: float) -> None:
            seen.append(len(dan.replies))
            harness.clock.advance(seconds)

        served.advance = advance
        ask([ann], 0.005)
        harness.turn()
        ask([ann], 0.005)
        ask([dan], 0.0)
        harness.turn()
        assert served.order == ["ann", "dan", "ann"]
        assert seen == [0, 0, 1]


def test_time_that_no_other_party_wanted_is_no_debt(folder: Path) -> None:
    served = Served()
    with open_broker(folder, served.registry) as harness:
        served.open(harness)
        ann, bob = harness.client("ann"), harness.client("bob")
        for _ in range(50):
            ask([ann], 0.01)
            harness.run()
        served.order.clear()
        ask([ann], 0.001, times=4)
        ask([bob], 0.001, times=4)
        harness.turn()
        assert Counter(served.order) == {"ann": 4, "bob": 4}


def test_attack_66_frames_that_take_long_to_parse_hold_up_their_own_party_only(
    folder: Path,
) -> None:
    """Parsing is work of the loop as well, and it ends when its part of the batch is over."""
    served = Served()
    with open_broker(folder, served.registry) as harness:
        served.open(harness)
        reader = harness.broker._queue._reader
        parsed = list[str]()

        def monotonic() -> float:
            parsed.append("")
            harness.clock.advance(0.004)
            return harness.clock.monotonic()

        reader.monotonic = monotonic
        for _ in range(60):
            ask([harness.client("ann")], 0.0, times=64)
        harness.turn()
        assert 0 < len(parsed) < 10
        before = len(served.order)
        ask([harness.client("dan")], 0.0)
        harness.turn()
        assert served.order[before] == "dan"


@pytest.mark.parametrize("agents", [1, 100, 1000])
def test_logins_of_a_busy_host_get_a_quarter_of_the_loop_and_not_what_one_agent_gets(
    folder: Path, agents: int
) -> None:
    with open_broker(folder) as harness:
        queue = FairQueue(harness.broker._queue._reader)
        for party in (LOGIN, *(f"agent {number}" for number in range(agents))):
            queue.add(ClientConnection(party, 1000, lambda _data, _closing: None))
        used = Counter[str]()
        for _ in range(max(1000, 20 * agents)):
            first = queue._parties()[0]
            harness.clock.advance(0.001)
            queue.charge({first: 0.001})
            used[first] += 1
        share = used.pop(LOGIN) / used.total()
        assert share == pytest.approx(1 if agents == 1 else 1 / (PART - 1), rel=0.1)
        assert max(used.values()) <= min(used.values()) + 1
