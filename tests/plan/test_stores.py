"""What agents are shown of the daemon's repositories, and what boots from the Nix store."""

from dataclasses import replace

import pytest
from fixtures.plans import World, hive, spec

from hive_core.model.agents.agent import AgentSpec
from hive_core.model.config.settings import Settings
from hive_core.plan import actions as a

SYSTEM = "/nix/store/0123456789abcdfghijklmnpqrsvwxyz-nixos-system-root"
NIX = Settings(default_image="nix", images={"host": None, "nix": None})


def world(**fields: object) -> World:
    made = World(hive({"root": None}, {"root": spec(0, **fields)}))
    made.converge()
    return made


def stores(made: World) -> frozenset[str]:
    return made.host.snapshot().machines[made.uuid("root")].stores


def respec(made: World, **fields: object) -> None:
    before = made.hive.specs["root"]
    after = AgentSpec.model_validate({**before.model_dump(), **fields})
    made.change(replace(made.hive, specs={"root": after}))


def steps(made: World) -> list[str]:
    """What is left to do about stores and the unit, one word a step."""
    words = []
    for step in made.plan().steps:
        shown = isinstance(step.action, a.ShowStore) and f"{step.action.store} {step.action.shown}"
        words.append(shown or type(step.action).__name__)
    return [word for word in words if word != "ShowIdentity"]


def test_h18_an_agent_that_may_see_a_store_is_shown_it_once_it_runs() -> None:
    """H18: what is attached before the start could not be removed later."""
    made = World(hive({"root": None}, {"root": spec(0, capabilities=["meta.read"])}))
    made.host.slow = True
    assert made.converge() > 0
    assert not [action for action in made.host.applied if isinstance(action, a.ShowStore)]
    made.host.settle(made.uuid("root"))
    assert steps(made) == ["meta True"]
    made.converge()
    assert stores(made) == {"meta"}


def test_h18_a_grant_takes_effect_live_and_a_revocation_restarts() -> None:
    made = world()
    respec(made, capabilities=["applied.read", "meta.read"])
    assert steps(made) == ["applied True", "meta True"]
    made.converge()
    respec(made, capabilities=["applied.read"])
    assert steps(made)[:2] == ["RequestRestart", "meta False"]
    made.converge()
    assert stores(made) == {"applied"}
    assert len(made.host.starts) == 2


@pytest.mark.parametrize("fields", [{}, {"boot": True}])
def test_attack_59_an_agent_that_may_still_hold_it_loses_it_with_one_fresh_start(
    fields: dict[str, object],
) -> None:
    """An open file or a working directory outlives the mount."""
    made = world(capabilities=["meta.read", "applied.read"], **fields)
    respec(made, capabilities=["applied.read"])
    assert steps(made)[:2] == ["RequestRestart", "meta False"]
    made.converge()
    assert stores(made) == {"applied"}
    assert len(made.host.starts) == 2


def test_a_store_that_went_by_hand_is_shown_again() -> None:
    made = world(capabilities=["meta.read"])
    made.host.storage.stores.clear()
    assert steps(made) == ["meta True"]


def test_a_store_that_was_attached_by_hand_is_taken_away() -> None:
    made = world()
    made.host.storage.stores[made.uuid("root")] = frozenset({"meta"})
    assert steps(made)[:2] == ["RequestRestart", "meta False"]


def test_what_gives_way_to_a_fresh_start_is_shown_nothing_more() -> None:
    made = world()
    run = made.runs[made.uuid("root")]
    made.runs[made.uuid("root")] = replace(run, nonce=run.nonce + 1)
    respec(made, capabilities=["meta.read"])
    assert "meta True" not in steps(made)
    made.converge()
    assert stores(made) == {"meta"}


def test_a_stop_leaves_nothing_to_take_away() -> None:
    made = world(capabilities=["meta.read"])
    made.host.stop_by_hand(made.uuid("root"))
    assert stores(made) == frozenset()


def test_the_image_nix_starts_when_its_system_is_there_and_needs_no_copy() -> None:
    made = World(hive({"root": None}, {"root": spec(0, image="nix")}), settings=NIX)
    made.converge()
    assert made.host.starts == []
    respec(made, system=SYSTEM)
    made.converge()
    starts = [action for action in made.host.applied if isinstance(action, a.StartUnit)]
    assert [(action.image, action.system) for action in starts] == [("nix", SYSTEM)]
    assert not made.host.storage.roots


def test_a_system_of_another_image_goes_nowhere() -> None:
    made = world(system=SYSTEM)
    starts = [action for action in made.host.applied if isinstance(action, a.StartUnit)]
    assert [action.system for action in starts] == [None]
