"""What a proposal would make of an agent: spec, marks and effect, and the way back."""

from __future__ import annotations

from typing import Any

import pytest
from each import for_each
from fixtures.topologies import spec as spec_of
from hypothesis import given
from hypothesis import strategies as st

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import AgentSpec, Limits
from hive_core.model.agents.capability import PLAIN, missing_capabilities, no_effect_reason
from hive_core.model.config.agent_config import AgentConfig, ConfigRequest
from hive_core.model.config.approval import Effect
from hive_core.plan.effect import (
    ConfiguredAgent,
    effect,
    fields,
    grant,
    requested_changes,
    roll_back,
    undo,
)

ORDER = list(Effect)
WORDS = st.sampled_from(["net", "key-1", "other"])
CAPABILITIES = st.one_of(
    st.sampled_from(PLAIN),
    WORDS.map("secret:{}".format),
    WORDS.map("network:{}".format),
    WORDS.map("meta.update:{}".format),
)
LISTS = st.lists(CAPABILITIES, max_size=4, unique=True)
# What has an effect; the others may be held, of a time when that was not refused.
ASKED = st.lists(
    CAPABILITIES.filter(lambda name: not no_effect_reason(name)), max_size=4, unique=True
)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "memory_max": st.integers(1 << 25, 1 << 40),
        "tasks_max": st.integers(8, 1 << 20),
        "disk": st.integers(1 << 20, 1 << 40),
    },
)
PARTS: dict[str, st.SearchStrategy[Any]] = {
    "capabilities": ASKED,
    "network": st.just("none"),
    "mounts": st.lists(st.sampled_from(["meta", "applied"]), unique=True),
    "secrets": st.lists(WORDS, max_size=3, unique=True),
    "limits": LIMITS.filter(bool),
    "command": st.lists(st.text("ab c", min_size=1), max_size=3),
    "boot": st.booleans(),
    "harness": st.booleans(),
    "runtime": st.sampled_from(["builtin", "scripted"]),
    "model": st.sampled_from(["opus", "sonnet"]),
}
WISHES = st.fixed_dictionaries({}, optional=PARTS).map(ConfigRequest.model_validate)
PATHS = st.lists(st.sampled_from(["agent.toml", "agent.nix", "AGENTS.md", "skills/x/a.md"]))
RELOADS = st.sampled_from(["live", "restart"])


@st.composite
def specs(draw: st.DrawFn) -> AgentSpec:
    made = spec_of(
        1,
        capabilities=sorted(draw(LISTS)),
        limits=draw(LIMITS),
        boot=draw(st.booleans()),
        harness=draw(st.booleans()),
        image=draw(st.sampled_from(["host", "nix"])),
    )
    return made.model_copy(update={"command": tuple(draw(PARTS["command"]))})


def config(reload: str = "restart") -> AgentConfig:
    return AgentConfig.model_validate({"harness": {"reload": reload}})


def grant_to(spec: AgentSpec, **request: object) -> AgentSpec:
    return grant(spec, ConfigRequest.model_validate(request))


@given(specs())
def test_a_request_for_nothing_changes_nothing(spec: AgentSpec) -> None:
    assert grant(spec, ConfigRequest()) == spec
    assert requested_changes(spec, ConfigRequest()) == ()


@given(specs(), WISHES)
def test_what_is_granted_twice_is_granted_once(spec: AgentSpec, wishes: ConfigRequest) -> None:
    after = grant(spec, wishes)
    assert grant(after, wishes) == after
    assert not any(mark.gives for mark in requested_changes(after, wishes))


@given(specs(), WISHES)
def test_nothing_but_the_fields_of_a_deploy_changes(spec: AgentSpec, wishes: ConfigRequest) -> None:
    after = grant(spec, wishes)
    changed = {name for name, value in spec if getattr(after, name) != value}
    assert changed <= fields(spec).keys()
    assert changed.isdisjoint({"uuid", "allow", "role", "tier", "image", "max_children", "config"})
    AgentSpec.model_validate(after.model_dump())


@given(specs(), st.sampled_from(sorted(PARTS)), st.data())
def test_attack_23_whatever_stands_in_request_is_marked(
    spec: AgentSpec, part: str, data: st.DataObject
) -> None:
    wishes = ConfigRequest.model_validate({part: data.draw(PARTS[part])})
    assert requested_changes(spec, wishes)


@given(specs(), WISHES)
def test_attack_23_every_new_privilege_is_marked_as_one(
    spec: AgentSpec, wishes: ConfigRequest
) -> None:
    after, changes = grant(spec, wishes), requested_changes(spec, wishes)
    red = {(mark.kind, mark.name) for mark in changes if mark.gives}
    gained = missing_capabilities(spec.capabilities, after.capabilities)
    assert len([mark for mark in red if mark[0] in KINDS]) >= len(gained)
    for name, value in after.limits:
        old = getattr(spec.limits, name)
        if value is not None and (old is None or value > old):
            assert ("limit", name) in red
    for name in ("command", "boot", "harness", "runtime", "model"):
        assert ((name, name) in red) == (getattr(spec, name) != getattr(after, name))
    assert all(
        mark.gives or mark.kind != "command" or mark.before == mark.after for mark in changes
    )


KINDS = ("capability", "network", "mount", "secret", "model")


@for_each(
    "request_, kind, name",
    [
        ({"capabilities": ["spawn"]}, "capability", "spawn"),
        ({"mounts": ["meta"]}, "mount", "meta"),
        ({"capabilities": ["applied.read"]}, "mount", "applied"),
        ({"secrets": ["api"]}, "secret", "api"),
        ({"limits": {"memory_max": 1 << 30}}, "limit", "memory_max"),
        ({"command": ["sh"]}, "command", "command"),
        ({"boot": True}, "boot", "boot"),
        ({"harness": True}, "harness", "harness"),
        ({"runtime": "builtin"}, "runtime", "runtime"),
        ({"model": "opus"}, "model", "model"),
        ({"capabilities": ["model:opus"]}, "model", "opus"),
    ],
)
def test_each_kind_of_privilege_has_its_own_word(
    request_: dict[str, object], kind: str, name: str
) -> None:
    spec = spec_of(1, capabilities=())
    (mark,) = requested_changes(spec, ConfigRequest.model_validate(request_))
    assert (mark.kind, mark.name, mark.gives) == (kind, name, True)


@pytest.mark.parametrize(
    ("request_", "kind", "name"),
    [
        ({"network": "veth"}, "network", "veth"),
        ({"capabilities": ["network:foo"]}, "network", "foo"),
    ],
)
def test_a_right_that_has_no_effect_is_refused_and_shown_as_no_right(
    request_: dict[str, object], kind: str, name: str
) -> None:
    """A right without effect is not approved; an agent that holds it keeps it."""
    spec, wishes = spec_of(1, capabilities=()), ConfigRequest.model_validate(request_)
    with pytest.raises(InvalidArgument, match="has no effect"):
        grant(spec, wishes)
    (mark,) = requested_changes(spec, wishes)
    assert (mark.kind, mark.name, mark.gives) == (kind, name, False)
    assert mark.after == "refused: it has no effect"
    right = name if kind == "capability" else f"{kind}:{name}"
    held = spec.model_copy(update={"capabilities": (right,)})
    assert grant(held, wishes) == held


def test_a_network_that_is_given_up_takes_a_restart() -> None:
    spec = spec_of(1, capabilities=("network:veth",))
    after = grant_to(spec, network="none")
    assert (
        effect(ConfiguredAgent(spec, config()), ConfiguredAgent(after, config()), ())
        is Effect.RESTART
    )


def test_what_it_holds_already_and_what_it_would_lose_is_no_new_privilege() -> None:
    spec = spec_of(1, capabilities=("kill", "spawn"), limits={"memory_max": 1 << 30})
    wishes = ConfigRequest.model_validate(
        {"capabilities": ["spawn"], "limits": {"memory_max": 1 << 29}}
    )
    rows = {(m.name, m.before, m.after, m.gives) for m in requested_changes(spec, wishes)}
    assert rows == {
        ("spawn", "held", "held", False),
        ("kill", "held", "taken", False),
        ("memory_max", str(1 << 30), str(1 << 29), False),
    }


def test_only_the_closed_lists_can_be_asked_for() -> None:
    for odd in ("root", "spawn:all", "network:", "mount:/etc"):
        with pytest.raises(ValueError, match="capabilit"):
            ConfigRequest.model_validate({"capabilities": [odd]})
    forged = ConfigRequest().model_copy(update={"capabilities": ("root",)})
    with pytest.raises(InvalidArgument):
        grant(spec_of(1), forged)


@given(specs(), WISHES, PATHS, RELOADS, RELOADS)
def test_more_change_never_does_less(
    spec: AgentSpec, wishes: ConfigRequest, paths: list[str], first: str, second: str
) -> None:
    before = ConfiguredAgent(spec, config(first))
    plain, granted = (
        ConfiguredAgent(spec, config(second)),
        ConfiguredAgent(grant(spec, wishes), config(second)),
    )
    for some in (paths[:1], paths):
        least = ORDER.index(effect(before, plain, some))
        assert ORDER.index(effect(before, granted, some)) >= least
    rank = [ORDER.index(effect(before, granted, paths[:n])) for n in range(len(paths) + 1)]
    assert rank == sorted(rank)


@given(specs(), RELOADS, RELOADS)
def test_nothing_changed_does_nothing(spec: AgentSpec, first: str, second: str) -> None:
    assert (
        effect(ConfiguredAgent(spec, config(first)), ConfiguredAgent(spec, config(second)), ())
        is Effect.NOTHING
    )


@for_each(
    "image, before, after, changed, expected",
    [
        ("host", "restart", "restart", ["AGENTS.md"], Effect.RESTART),
        ("host", "live", "live", ["AGENTS.md"], Effect.LIVE),
        ("host", "restart", "live", ["agent.toml"], Effect.RESTART),
        ("host", "live", "restart", ["agent.toml"], Effect.RESTART),
        ("host", "live", "live", ["agent.nix"], Effect.LIVE),
        ("nix", "restart", "restart", ["agent.nix"], Effect.SWITCH),
        ("nix", "live", "live", ["agent.nix", "AGENTS.md"], Effect.SWITCH),
        ("nix", "restart", "restart", ["agent.nix", "AGENTS.md"], Effect.RESTART),
        ("nix", "live", "live", ["AGENTS.md"], Effect.LIVE),
    ],
)
def test_files_are_taken_up_as_the_configuration_says(
    image: str, before: str, after: str, changed: list[str], expected: Effect
) -> None:
    spec = spec_of(1, image=image)
    assert (
        effect(ConfiguredAgent(spec, config(before)), ConfiguredAgent(spec, config(after)), changed)
        is expected
    )


@for_each(
    "request_, expected",
    [
        ({"harness": True}, Effect.NOTHING),
        ({"secrets": ["api"]}, Effect.LIVE),
        ({"mounts": ["meta"]}, Effect.LIVE),
        ({"limits": {"disk": 1 << 30}}, Effect.LIVE),
        ({"limits": {"memory_max": 1 << 30}}, Effect.RESTART),
        ({"command": ["sh"]}, Effect.RESTART),
        ({"boot": True}, Effect.RESTART),
        ({"model": "opus"}, Effect.RESTART),
        ({"runtime": "builtin"}, Effect.RESTART),
        ({"capabilities": ["model:opus"]}, Effect.LIVE),
    ],
)
def test_what_a_machine_has_from_its_start_on_takes_a_restart(
    request_: dict[str, object], expected: Effect
) -> None:
    spec = spec_of(1)
    assert (
        effect(
            ConfiguredAgent(spec, config()),
            ConfiguredAgent(grant_to(spec, **request_), config()),
            (),
        )
        is expected
    )


def test_another_system_is_switched_to() -> None:
    """H26: in place, and by a restart only when the host's side changes too."""
    old = spec_of(1, image="nix", system=f"/nix/store/{'a' * 32}-nixos")
    new = old.model_copy(update={"system": f"/nix/store/{'b' * 32}-nixos"})
    assert (
        effect(ConfiguredAgent(old, config()), ConfiguredAgent(new, config()), ()) is Effect.SWITCH
    )
    more = grant_to(new, limits={"tasks_max": 100})
    assert (
        effect(ConfiguredAgent(old, config()), ConfiguredAgent(more, config()), ())
        is Effect.RESTART
    )


@given(specs(), WISHES)
def test_the_way_back_undoes_a_deploy(spec: AgentSpec, wishes: ConfigRequest) -> None:
    old = spec.model_copy(update={"config": "1a" * 20})
    new = grant(old, wishes).model_copy(update={"config": "2b" * 20})
    returned = undo(new, fields(old), fields(new))
    assert set(returned.capabilities) == set(old.capabilities)
    same = returned.model_copy(update={"capabilities": old.capabilities})
    assert same == old


@given(specs(), WISHES, CAPABILITIES, CAPABILITIES)
def test_the_way_back_keeps_what_the_operator_did_meanwhile(
    spec: AgentSpec, wishes: ConfigRequest, granted: str, revoked: str
) -> None:
    """A failure does not give back a right that the operator took during the window."""
    new = grant(spec, wishes)
    now = new.model_copy(
        update={"capabilities": tuple({*new.capabilities, granted} - {revoked}), "title": "new"}
    )
    restored = undo(now, fields(spec), fields(new))
    assert restored.title == "new"
    if revoked in new.capabilities:
        assert revoked not in restored.capabilities
    if granted not in new.capabilities and granted != revoked:
        assert granted in restored.capabilities


@given(specs(), WISHES)
def test_going_back_to_a_generation_gives_no_capability(
    spec: AgentSpec, wishes: ConfigRequest
) -> None:
    now = grant(spec, wishes)
    restored = roll_back(now, fields(spec), fields(now))
    assert not missing_capabilities(now.capabilities, restored.capabilities)
    assert set(restored.capabilities) == set(spec.capabilities) & set(now.capabilities)
    assert (restored.limits, restored.command) == (spec.limits, spec.command)


def test_a_limit_that_was_changed_since_stays() -> None:
    old = spec_of(1, limits={"memory_max": 1 << 28, "tasks_max": 100})
    new = grant_to(old, limits={"memory_max": 1 << 29, "tasks_max": 200})
    now = new.model_copy(update={"limits": Limits(memory_max=1 << 30, tasks_max=200)})
    restored = undo(now, fields(old), fields(new))
    assert (restored.limits.memory_max, restored.limits.tasks_max) == (1 << 30, 100)
