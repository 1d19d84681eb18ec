"""Which models are listed to whom."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.world import World, rows, world

from hive_core.errors import NotAllowed, NotFound
from hive_core.model.config.limits import ModelSettings
from hive_core.model.config.models import parse_models
from hive_core.model.config.settings import Settings

MODELS = parse_models("""
[providers.one]
wire = "messages"
base_url = "https://one.example/v1"
[models.opus]
provider = "one"
name = "big"
context = 200_000
max_output = 32_000
fallback = ["sonnet"]
price_in = 10.0
price_out = 50.0
[models.sonnet]
provider = "one"
name = "middle"
[models.extra]
provider = "one"
name = "extra"
""")
TIERS = ModelSettings(strategic="opus", tactical="sonnet", operational="sonnet")


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(Settings(models=TIERS), "root/a", "root/b", models=MODELS) as made:
        yield made


def aliases(world: World, caller: str, **params: object) -> list[object]:
    return [row["alias"] for row in rows(world.call(caller, "list_models", **params)["models"])]


def test_the_operator_sees_all_models_with_their_figures(world: World) -> None:
    result = rows(world.call("operator", "list_models")["models"])
    assert [row["alias"] for row in result] == ["opus", "sonnet", "extra"]
    assert result[0] == {
        "alias": "opus", "provider": "one", "kind": "http", "wire": "messages", "name": "big",
        "context": 200_000, "max_output": 32_000, "fallback": ["sonnet"], "tiers": ["strategic"],
        "price_in": 10.0, "price_out": 50.0, "price_known": True,
    }  # fmt: skip
    assert result[1]["price_in"] is None


def test_an_agent_sees_what_it_may_call(world: World) -> None:
    assert aliases(world, "a") == aliases(world, "operator", agent="a") == ["sonnet"]
    world.call("operator", "grant_capability", agent="a", capability="model:extra")
    assert aliases(world, "a") == ["sonnet", "extra"]
    assert aliases(world, "b") == ["sonnet"]
    with pytest.raises((NotAllowed, NotFound)):
        aliases(world, "b", agent="a")
    with pytest.raises(NotFound):
        aliases(world, "operator", agent="nobody")


def test_hive_model_asks_for_one_agent(world: World) -> None:
    reply = world.ask_as("model", "list_models", {"agent": "a"}).result()
    assert [row["alias"] for row in rows(reply["models"])] == ["sonnet"]
    for agent in ("nobody", None):
        with pytest.raises(NotFound):
            world.ask_as("model", "list_models", {"agent": agent}).result()


def test_pages_follow_each_other(world: World) -> None:
    first = world.call("operator", "list_models", limit=2)
    assert first["next"] == "sonnet"
    assert aliases(world, "operator", after=first["next"]) == ["extra"]
