"""Which models an agent may use, and which it may give to others."""

from __future__ import annotations

from uuid import UUID

import pytest
from each import for_each

from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.model.agents.agent import OFFERED_MOST, SESSION, AgentSpec, Runtime, Tier
from hive_core.model.agents.model_catalog import ModelCatalog, check_spec
from hive_core.model.config.limits import ModelSettings
from hive_core.model.config.models import parse_models

MODELS = """
default = "sonnet"
[providers.one]
base_url = "https://one.example/v1"
[providers.two]
kind = "scripted"
path = "/etc/hive/rules.toml"
[models.opus]
provider = "one"
name = "big"
[models.sonnet]
provider = "one"
name = "middle"
[models.rules]
provider = "two"
name = "rules"
"""
CATALOG = ModelCatalog(parse_models(MODELS), ModelSettings(strategic="opus"))


def agent(**fields: object) -> AgentSpec:
    return AgentSpec.model_validate({"uuid": UUID(int=1), **fields})


@for_each(
    "spec, own, allowed",
    [
        (agent(), "sonnet", ("sonnet",)),
        (agent(tier="strategic"), "opus", ("opus",)),
        (agent(model="rules", tier="strategic"), "rules", ("rules",)),
        (agent(capabilities=("model:rules", "model:opus", "spawn")), "sonnet",
         ("sonnet", "rules", "opus")),
        (agent(capabilities=("model:sonnet",)), "sonnet", ("sonnet",)),
        (agent(model="removed", capabilities=("model:gone", "model:opus")), "removed", ("opus",)),
    ],
)  # fmt: skip
def test_an_agent_uses_its_own_model_and_those_of_its_capabilities(
    spec: AgentSpec, own: str, allowed: tuple[str, ...]
) -> None:
    assert CATALOG.own_model(spec) == own
    assert CATALOG.allowed_models(spec) == allowed


def test_without_models_toml_every_tier_has_the_embedded_model() -> None:
    catalog = ModelCatalog()
    assert [catalog.tier_model(tier) for tier in Tier] == ["hive-small"] * 3
    assert catalog.faults() == []


def test_without_a_default_an_agent_may_have_no_model() -> None:
    catalog = ModelCatalog(parse_models(MODELS.replace('default = "sonnet"', "")))
    assert catalog.own_model(agent()) == ""
    assert catalog.allowed_models(agent()) == ()
    reason = (
        r"the runtime codex needs a model, and the agent has none: name one that"
        r" /etc/hive/models.toml has \(opus, sonnet, rules\)"
    )
    with pytest.raises(InvalidArgument, match=reason):
        check_spec(catalog, agent(runtime="codex"))


def test_the_models_that_fit_a_runtime_are_named() -> None:
    text = MODELS.replace(
        "[models.rules]",
        """[providers.three]
base_url = "http://127.0.0.1:1/v1"
wire = "responses"
[models.gpt]
provider = "three"
name = "gpt"
[models.rules]""",
    )
    catalog = ModelCatalog(parse_models(text))
    check_spec(catalog, agent(runtime="codex", model="gpt"))
    with pytest.raises(
        InvalidArgument, match=r"name one of /etc/hive/models.toml that fits \(gpt\)"
    ):
        check_spec(catalog, agent(runtime="codex"))


def test_an_agent_gives_its_own_models_and_those_of_the_tiers_up_to_its_own() -> None:
    assert CATALOG.grantable_models(agent(tier="strategic")) == ("opus", "sonnet")
    assert CATALOG.grantable_models(agent(model="rules")) == ("rules", "sonnet")
    CATALOG.check_given(agent(tier="strategic"), "opus")
    with pytest.raises(NotAllowed, match="cannot spawn with the model opus: you may give sonnet"):
        CATALOG.check_given(agent(), "opus")


@for_each(
    "fields, field, reason",
    [
        (
            {"model": "gpt"},
            "model",
            "no model 'gpt'; /etc/hive/models.toml of this host"
            " has opus, sonnet, rules; see docs/how-to/models.md",
        ),
        ({"capabilities": ("model:gpt",)}, "capabilities", "no model 'gpt'"),
        (
            {"runtime": "claude"},
            "runtime",
            "needs a model of the wire messages; sonnet has chat:"
            " no model of /etc/hive/models.toml has it, so declare one there; see"
            " docs/how-to/claude-code.md",
        ),
        (
            {"runtime": "codex"},
            "runtime",
            "needs a model of the wire responses; sonnet has chat:"
            " no model of /etc/hive/models.toml has it, so declare one there; see"
            " docs/how-to/codex.md",
        ),
        ({"runtime": "scripted"}, "runtime", "sonnet is http"),
    ],
)
def test_what_the_host_does_not_have_is_refused_where_it_is_set(
    fields: dict[str, object], field: str, reason: str
) -> None:
    with pytest.raises(InvalidArgument, match=reason) as refusal:
        check_spec(CATALOG, agent(**fields))
    assert refusal.value.field == field


def test_what_an_agent_had_before_stays() -> None:
    before = agent(model="removed", capabilities=("model:gone",))
    check_spec(CATALOG, before.model_copy(update={"title": "Scout"}), before)

    with pytest.raises(InvalidArgument, match="removed"):
        check_spec(CATALOG, before.model_copy(update={"runtime": Runtime.BUILTIN}), before)


def test_scripted_and_builtin_run_the_models_they_are_for() -> None:
    check_spec(CATALOG, agent(runtime="builtin"))
    check_spec(CATALOG, agent(runtime="builtin", model="rules"))
    check_spec(CATALOG, agent(runtime="scripted", model="rules"))


def test_a_tier_without_its_model_is_reported() -> None:
    catalog = ModelCatalog(CATALOG.file, ModelSettings(tactical="gone"))
    assert catalog.faults() == [
        "models.tactical of hive.toml is gone, which models.toml does not have"
    ]


def test_a_runtime_without_a_command_runs_the_session_on_one_task_at_a_time() -> None:
    assert agent().program == ()
    assert agent(runtime="builtin").program == SESSION
    assert agent(runtime="builtin", command=("sh",)).program == ("sh",)
    assert (agent().at_once, agent(runtime="builtin").at_once) == (OFFERED_MOST, 1)
    assert agent(runtime="builtin", parallel=3).at_once == 3
