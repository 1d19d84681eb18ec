"""Runtime and model of an agent: where they are set, by whom, and where they are shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from each import for_each
from fixtures.world import World, world

from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.model.config.limits import ModelSettings
from hive_core.model.config.models import parse_models
from hive_core.model.config.settings import Settings

MODELS = parse_models("""
[providers.one]
base_url = "https://one.example/v1"
[models.opus]
provider = "one"
name = "big"
[models.sonnet]
provider = "one"
name = "middle"
""")
TIERS = ModelSettings(strategic="opus", tactical="sonnet", operational="sonnet")


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(Settings(models=TIERS), "root/a", "a/a1", models=MODELS) as made:
        yield made


def test_an_agent_reads_which_models_it_may_use(world: World) -> None:
    """Row K2."""
    world.call("operator", "grant_capability", agent="a", capability="model:opus")
    seen = world.call("a", "whoami")
    assert (seen["model"], seen["models"], seen["runtime"]) == ("sonnet", ["sonnet", "opus"], "")
    assert world.call("operator", "whoami")["models"] == ["opus", "sonnet"]
    shown = world.call("operator", "get_agent", agent="a")
    assert (shown["model"], shown["models"]) == ("sonnet", ["sonnet", "opus"])


def test_a_creator_gives_a_model_that_it_may_use_and_no_other(world: World) -> None:
    world.call("a", "spawn", name="plain", model="sonnet")
    with pytest.raises(NotAllowed, match="you may give sonnet"):
        world.call("a", "spawn", name="dear", model="opus")
    with pytest.raises(NotAllowed, match="model:opus"):
        world.call("a", "spawn", name="dear", add_capabilities=["model:opus"])
    world.call("operator", "grant_capability", agent="a", capability="model:opus")
    world.call("a", "spawn", name="dear", model="opus")
    world.call("a", "spawn", name="free", add_capabilities=["model:opus"])
    assert world.call("dear", "whoami")["models"] == ["opus"]
    assert world.call("free", "whoami")["models"] == ["sonnet", "opus"]


@for_each(
    "caller, params, field, reason",
    [
        (caller, *case)
        for caller in ["a", "operator"]
        for case in [
            ({"model": "gpt"}, "model", "models.toml of this host has opus, sonnet"),
            (
                {"runtime": "codex"},
                "runtime",
                "the runtime codex needs a model of the wire responses",
            ),
            ({"runtime": "scripted"}, "runtime", "needs a model whose provider is scripted"),
        ]
    ],
)
def test_what_this_host_cannot_run_is_refused_at_spawn(
    world: World, caller: str, params: dict[str, str], field: str, reason: str
) -> None:
    with pytest.raises(InvalidArgument, match=reason) as refusal:
        world.call(caller, "spawn", name="new", **params)
    assert refusal.value.field == field


def test_a_definition_is_refused_when_it_is_set(world: World) -> None:
    with pytest.raises(InvalidArgument, match="no model 'gpt'") as refusal:
        world.call("operator", "set_definition", name="d", agent={"model": "gpt"})
    assert refusal.value.field == "agent.model"
    with pytest.raises(
        InvalidArgument, match="the runtime claude needs a model of the wire messages"
    ):
        world.call("operator", "set_definition", name="d", agent={"runtime": "claude"})
    world.call("operator", "set_definition", name="d",
               agent={"runtime": "builtin", "model": "sonnet"})  # fmt: skip
    world.call("a", "spawn", name="new", definition="d")
    spec = world.hive.spec("new")
    assert (spec.runtime, spec.model, spec.command) == ("builtin", "sonnet", ())
    assert world.call("operator", "get_agent", agent="new")["command"] == ["hive-agent", "session"]


def test_a_capability_of_a_model_that_the_host_lacks_is_not_granted(world: World) -> None:
    with pytest.raises(InvalidArgument, match="no model 'gpt'") as refusal:
        world.call("operator", "grant_capability", agent="a", capability="model:gpt")
    assert refusal.value.field == "capability"


def test_the_operator_changes_runtime_and_model(world: World) -> None:
    change = world.call("operator", "set_agent", agent="a", runtime="builtin", model="opus")
    assert change["changed"] == ["runtime", "model"]
    assert change["restart_needed"]
    assert world.call("a", "whoami")["model"] == "opus"
    assert world.call("a", "whoami")["runtime"] == "builtin"
    with pytest.raises(InvalidArgument, match="no model 'gpt'"):
        world.call("operator", "set_agent", agent="a", model="gpt")
    change = world.call("operator", "set_agent", agent="a", runtime="none", model="")
    assert change["changed"] == ["runtime", "model"]
    spec = world.hive.spec("a")
    assert (spec.runtime, spec.model) == (None, None)


def test_an_agent_without_its_model_is_shown_and_keeps_its_name(world: World) -> None:
    """models.toml lost the model since."""
    world.call("operator", "set_agent", agent="a", model="opus")
    world.models = parse_models(
        '[providers.one]\nbase_url = "https://x.example"\n[models.sonnet]\n'
        'provider = "one"\nname = "m"'
    )
    world.restart()
    seen = world.call("a", "whoami")
    assert (seen["model"], seen["models"]) == ("opus", [])
    world.call("operator", "set_agent", agent="a", title="still changed")
