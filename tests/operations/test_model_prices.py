"""Models whose price hive-model does not know: an alarm for the operator, and `price_known`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.model_calls import AGENTS, MODELS, TIERS, proxy
from fixtures.world import World, rows, world

from hive_core.errors import NotAllowed
from hive_core.model.config.settings import Settings
from hive_core.operations.models.prices import price_alarms


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(Settings(models=TIERS), *AGENTS, models=MODELS) as made:
        yield made


def price_flags(world: World) -> dict[object, object]:
    return {row["alias"]: row["price_known"]
            for row in rows(world.call("operator", "list_models")["models"])}  # fmt: skip


def test_an_unknown_price_is_an_alarm_until_it_is_known(world: World) -> None:
    assert price_flags(world) == {"opus": True, "sonnet": True}
    proxy(world, "note_prices", unknown=["sonnet"])
    assert price_flags(world) == {"opus": True, "sonnet": False}
    (alarm,) = price_alarms(world.ledger)
    assert alarm.startswith("model sonnet has no known price and is charged as 0: set price_in")
    proxy(world, "note_prices", unknown=[])
    assert price_flags(world)["sonnet"] is True
    assert list(price_alarms(world.ledger)) == []


def test_a_thousand_unknown_prices_are_a_few_alarms(world: World) -> None:
    proxy(world, "note_prices", unknown=[f"m{number}" for number in range(1000)])
    alarms = list(price_alarms(world.ledger))
    assert len(alarms) == 21
    assert alarms[-1] == "980 more models have no known price"


@pytest.mark.parametrize("caller", ["a", "root", "operator"])
def test_only_hive_model_says_it(world: World, caller: str) -> None:
    with pytest.raises(NotAllowed):
        world.call(caller, "note_prices", unknown=["sonnet"])
