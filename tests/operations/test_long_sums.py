"""Attack 61: what is added up over many agents is added up in parts, and comes out whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from each import for_each
from fixtures.world import World, rows, world
from operations.test_metrics import scrape

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result
from hive_core.errors import Conflict
from hive_core.ledger.budgets.usage import UsageAmount
from hive_core.ledger.budgets.usage_rollup import DestroyedAgent
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.operations.budgets.usage_sums import AGENTS as IN_A_PART
from hive_core.operations.budgets.usage_sums import UsageSummation, sum_usage
from hive_core.operations.host.metrics import AGENTS as IN_A_PAGE

MANY = 2 * max(IN_A_PAGE, IN_A_PART) + 10


@pytest.fixture(name="crowd", scope="module")
def _crowd() -> Iterator[World]:
    """`a` with so many workers that each part has some, each of which has used something."""
    settings = Settings(limits=HostLimits(children=1000))
    edges = [f"a/w{number}" for number in range(MANY)]
    with world(settings, "root/a", *edges) as made:
        for number in range(MANY):
            made.call(f"w{number}", "report_usage", tokens_in=number + 1, model="m")
        yield made


@for_each(
    "caller, by",
    [
        (caller, by)
        for caller in ["a", "operator"]
        for by in ["agent", "subtree", "day", "model", "tier", "user"]
    ],
)
def test_attack_61_sums_over_many_agents_are_whole(crowd: World, caller: str, by: str) -> None:
    sums = rows(crowd.call(caller, "get_usage", by=by)["sums"])
    values = {row["key"]: row["amount"] for row in sums if row["kind"] == "tokens_in"}
    total = MANY * (MANY + 1) // 2
    if by == "agent":
        assert values == {f"w{number}": number + 1 for number in range(MANY)}
    elif by == "subtree":
        assert values["a"] == total
        assert values["w7"] == 8
    else:
        assert list(values.values()) == [total]


def test_attack_61_each_part_of_a_sum_is_a_turn_of_its_own_in_the_queue(crowd: World) -> None:
    """Other calls are served between two parts, and each part is charged to the caller."""
    used = crowd.broker._queue._used
    charges = list[str]()
    charge = crowd.broker._queue.charge

    def note_charge(seconds: Mapping[str, float]) -> None:
        charges.extend(seconds)
        charge(seconds)

    crowd.broker._queue.charge = note_charge  # type: ignore[method-assign]
    crowd.call("a", "get_usage")
    crowd.broker._queue.charge = charge  # type: ignore[method-assign]
    assert charges.count(crowd.uuid("a")) > MANY // IN_A_PART
    assert crowd.uuid("a") in used


def test_what_moves_to_another_line_between_two_parts_is_counted_once(crowd: World) -> None:
    """The usage of destroyed agents is rolled up while a sum is in progress."""
    gone = DestroyedAgent("0" * 36, "gone", crowd.uuid("a"), brief=True)
    ledger, totals = crowd.ledger, list[int]()

    def handler(call: Call) -> Record[Result]:
        ledger.budgets.rollups.add(gone, call.now)
        ledger.budgets.usage.add(
            UsageAmount(1, gone.agent, "tokens_in", "reported", "", "", 1_000_000)
        )
        result = sum_usage(call, "", 0.0, "", lambda _, __: ("all",))
        assert isinstance(result, UsageSummation)
        ledger.budgets.rollups.fold(gone)
        while isinstance(result, UsageSummation):
            result = sum_usage(
                replace(call, read_result=result), "", 0.0, "", lambda _, __: ("all",)
            )
        totals.append(result["all", "tokens_in", "reported"])
        raise Conflict("nothing of it stays")

    with pytest.raises(Conflict):
        crowd.broker.perform("move", handler)
    assert set(totals) == {1_000_000 + MANY * (MANY + 1) // 2}  # it may have been run again


def test_attack_61_figures_of_many_agents_come_in_parts_each_once(crowd: World) -> None:
    """A thousand agents with six models each did not fit into one frame: there were no figures."""
    result = scrape(crowd)
    tokens = [(dict(key[1])["agent"], value) for key, value in result.items()
              if key[0] == "hive_tokens_total"]  # fmt: skip
    assert sorted(tokens) == sorted((f"w{number}", number + 1) for number in range(MANY))


def test_a_page_of_figures_that_there_is_not_is_refused(crowd: World) -> None:
    assert crowd.fault("operator", "get_metrics", after="99:0") == "InvalidArgument"
