"""Attack 61: the loop is shared by party and by the time used, with the operator first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from fixtures.broker import BrokerClient, BrokerHarness, lend_broker
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.connection import ClientConnection
from hive_core.broker.fair_queue import AHEAD, PART, READING, SERVICES, FairQueue
from hive_core.broker.operation import Operation, Params, Result, operation
from hive_core.model.wire.record import EGRESS, LOGIN, MODEL
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
    hostile: tuple[str, ...],
) -> None:
    served = Served()
    with lend_broker(served.registry) as harness:
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


def test_attack_61_two_parties_get_the_same_time_whatever_their_calls_cost() -> None:
    served = Served()
    with lend_broker(served.registry) as harness:
        served.open(harness)
        costs = {"ann": 0.008, "bob": 0.002}
        for name, seconds in costs.items():
            ask([harness.client(name) for _ in range(60)], seconds, times=60)
        for _ in range(200):
            harness.turn()
        calls = Counter(served.order)
        used = {name: calls[name] * seconds for name, seconds in costs.items()}
        assert used["ann"] == pytest.approx(used["bob"], rel=0.1)


def test_attack_61_the_operator_is_served_first() -> None:
    served = Served()
    with lend_broker(served.registry) as harness:
        served.open(harness)
        operator = harness.client("operator")
        for _ in range(5):
            ask([harness.client("ann")], 0.001)
            ask([operator], 0.009)
            before = len(served.order)
            harness.turn()
            assert served.order[before] == "operator"


def test_attack_61_a_party_that_used_little_has_its_answer_before_the_next_is_served() -> None:
    served = Served()
    with lend_broker(served.registry) as harness:
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


def test_time_that_no_other_party_wanted_is_no_debt() -> None:
    served = Served()
    with lend_broker(served.registry) as harness:
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


def test_attack_66_frames_that_take_long_to_parse_hold_up_their_own_party_only() -> None:
    """Parsing is work of the loop as well, and it ends when its part of the batch is over."""
    served = Served()
    with lend_broker(served.registry) as harness:
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


class QueueOfParties:
    """A queue in which parties always have a call, and a clock that goes on as they are served."""

    def __init__(self, harness: BrokerHarness, agents: int) -> None:
        self.clock = harness.clock
        self.queue = FairQueue(harness.broker._queue._reader)
        self.used = Counter[str]()
        self._connections = dict[str, ClientConnection]()
        self.add(*(f"agent {number}" for number in range(agents)))

    def add(self, *parties: str) -> None:
        for party in parties:
            connection = ClientConnection(party, 1000, lambda _data, _closing: None)
            self._connections[party] = connection
            self.queue.add(connection)

    def leave(self, party: str) -> None:
        self.queue.leave([self._connections.pop(party)])

    def serve(self, milliseconds: int) -> str:
        """Serve the first party for so long, and return it."""
        first = self.queue._parties()[0]
        self.clock.advance(milliseconds / 1000)
        self.queue.charge({first: milliseconds / 1000})
        self.used[first] += milliseconds
        return first

    @property
    def of_services(self) -> int:
        return sum(self.used[party] for party in SERVICES)


@pytest.mark.parametrize(("agents", "services"), [
    (1, (LOGIN,)), (1, (LOGIN, MODEL, EGRESS)),
    (100, (LOGIN,)), (100, (MODEL, EGRESS)), (100, (LOGIN, MODEL, EGRESS)), (400, (LOGIN,)),
])  # fmt: skip
def test_services_of_a_busy_host_get_a_quarter_of_the_loop_together_and_the_same_each(
    agents: int, services: tuple[str, ...]
) -> None:
    """As one party among others they would share what an agent gets."""
    with lend_broker() as harness:
        parties = QueueOfParties(harness, agents)
        parties.add(*services)
        for _ in range(max(4000, 10 * agents)):
            parties.serve(1)
        times = [parties.used.pop(party) for party in services]
        least, most = min(parties.used.values()), max(parties.used.values())
        assert most <= least + 1
        if agents == 1:  # each has its share as a party too
            assert min(times) >= least - 2  # a step of each that was there before it
        else:
            assert sum(times) == pytest.approx(parties.used.total() / (PART - 1), rel=0.1)
        assert min(times) == pytest.approx(max(times), rel=0.1)


STEP = st.tuples(st.sets(st.sampled_from(sorted(SERVICES))), st.integers(1, 20))


@settings(max_examples=20, deadline=None)
@given(st.lists(STEP, min_size=10, max_size=30))
def test_whatever_services_come_and_go_they_have_at_most_a_quarter_before_agents(
    steps: list[tuple[set[str], int]],
) -> None:
    """And each what an agent has, as one party among others."""
    with lend_broker() as harness:
        parties, present = QueueOfParties(harness, 40), set[str]()
        for wanted, cost in steps:
            parties.add(*wanted - present)
            for party in present - wanted:
                parties.leave(party)
            present = wanted
            for _ in range(60):
                parties.serve(cost)
            agents = [used for party, used in parties.used.items() if party not in SERVICES]
            as_parties = len(SERVICES) * max(agents, default=0)
            # What begins a little early is owed afterwards.
            early = (1 + len(SERVICES)) * (1000 * AHEAD + 20)
            assert parties.of_services <= parties.used.total() / PART + as_parties + early


def test_a_service_does_not_wait_because_others_have_used_the_part_of_services() -> None:
    with lend_broker() as harness:
        parties = QueueOfParties(harness, 100)
        parties.add(MODEL, EGRESS)
        for _ in range(4000):
            parties.serve(1)
        while parties.serve(1) not in SERVICES:
            pass
        parties.add(LOGIN)
        assert parties.serve(1) == LOGIN


@pytest.mark.parametrize("agents", [0, 100])
def test_a_service_is_soon_served_again_though_it_was_alone_for_long(agents: int) -> None:
    """What it used while the others wanted nothing does not count later, for it or for them."""
    with lend_broker() as harness:
        parties = QueueOfParties(harness, agents)
        parties.add(MODEL)
        for _ in range(10_000):
            parties.serve(1)
        parties.add(LOGIN, EGRESS, *(f"later agent {number}" for number in range(100)))
        parties.used.clear()
        for _ in range(3000):
            parties.serve(1)
        services = [parties.used[service] for service in SERVICES]
        assert parties.used[MODEL] >= 3000 / PART / len(SERVICES) / 2
        assert sum(services) >= 0.9 * 3000 / PART


@pytest.mark.parametrize("seconds", [10, 60])
def test_time_that_nobody_else_wanted_takes_nothing_from_the_logins_later(seconds: int) -> None:
    """hive-model was alone for long: it is no debt of all services."""
    with lend_broker() as harness:
        parties = QueueOfParties(harness, 0)
        parties.add(MODEL)
        for _ in range(seconds * 100):
            parties.serve(10)
        parties.leave(MODEL)
        parties.add(LOGIN, *(f"agent {number}" for number in range(100)))
        parties.used.clear()
        for _ in range(5000):
            parties.serve(1)
        assert parties.used[LOGIN] / parties.used.total() > 0.7 / PART
