"""What a move brings for others: pure, before it is done."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from fixtures.topologies import forests, hive_of
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_core.model.agents.agent import AgentSpec, SubtreeLimits
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import Settings
from hive_core.plan.placement import Placements
from hive_core.plan.revocation import consequences, losing

# top holds two branches; `x` with `y` below it is moved from the left one to the right one.
PARENTS = {
    "top": None, "left": "top", "inner": "left", "x": "inner", "y": "x", "right": "top",
    "twin": "inner", "pup": "twin", "other": "left",
}  # fmt: skip
LIMIT = SubtreeLimits(memory_max=1 << 30)


def changed_names(hive: Hive, name: str, **update: object) -> Hive:
    spec: AgentSpec = hive.spec(name).model_copy(update=update)
    return replace(hive, specs=MappingProxyType({**hive.specs, name: spec}))


def test_attack_58_losers_are_all_former_ancestors_with_what_stays_below_them() -> None:
    hive = hive_of(PARENTS)
    effects = consequences(hive, hive.with_parent("x", "right"), "x")
    assert effects.lost == ("left", "inner")
    assert set(effects.losing) == {"left", "inner", "twin", "pup", "other"}
    assert (effects.gaining, effects.crossing) == (("right",), ())


def test_a_common_ancestor_loses_nothing_and_the_old_parent_loses_the_subtree() -> None:
    hive = hive_of(PARENTS)
    effects = consequences(hive, hive.with_parent("x", "left"), "x")
    assert effects.lost == ("inner",)
    assert set(effects.losing) == {"inner", "twin", "pup"}


def test_no_agent_loses_a_subtree_that_moves_further_down() -> None:
    hive = hive_of(PARENTS)
    effects = consequences(hive, hive.with_parent("x", "pup"), "x")
    assert (effects.lost, effects.losing) == ((), ())


def test_an_agent_that_is_above_it_again_has_not_lost_it() -> None:
    hive = hive_of(PARENTS)
    assert losing(hive, ["left", "inner"], "x") == ()
    assert set(losing(hive.with_parent("x", "left"), ["left", "inner"], "x")) == {
        "inner",
        "twin",
        "pup",
    }
    assert losing(hive, ["gone", "right"], "x") == ("right",)


@given(forests(), st.data())
@settings(max_examples=80, deadline=None)
def test_a_loser_is_never_above_and_never_moves_along(
    parents: dict[str, str | None], data: st.DataObject
) -> None:
    """Compared with the slow answer: all agents below a former ancestor."""
    hive = hive_of(parents)
    agent = data.draw(st.sampled_from(sorted(parents)))
    below = set(hive.topology.subtree(agent))
    after = hive.with_parent(
        agent, data.draw(st.sampled_from([None, *(n for n in sorted(parents) if n not in below)]))
    )
    old, new = hive.topology.lineage(agent), after.topology.lineage(agent)
    gone = {name for name in old if name not in new}
    slow = {
        name for name in parents if name not in below
        and ({name, *after.topology.lineage(name)} & gone)
    }  # fmt: skip
    assert set(consequences(hive, after, agent).losing) == slow


@given(forests(), st.data())
@settings(max_examples=80, deadline=None)
def test_crossing_agents_are_those_that_get_another_slice(
    parents: dict[str, str | None], data: st.DataObject
) -> None:
    """The same answer as from the places that the change road works with."""
    hive = hive_of(parents)
    for name in parents:
        if data.draw(st.booleans(), f"{name} carries a limit"):
            hive = changed_names(hive, name, subtree=LIMIT)
    agent = data.draw(st.sampled_from(sorted(parents)))
    below = set(hive.topology.subtree(agent))
    targets = [None, *(parent for parent in sorted(parents) if parent not in below)]
    after = hive.with_parent(agent, data.draw(st.sampled_from(targets)))
    old, new = Placements.build(hive, Settings()), Placements.build(after, Settings())
    crossing = {name for name in parents if old.by_name(name).slice != new.by_name(name).slice}
    assert set(consequences(hive, after, agent).crossing) == crossing
