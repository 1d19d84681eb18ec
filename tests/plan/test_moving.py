"""What a move brings for others: pure, before it is done."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model.trees import forests, hive_of

from hive_core.model.agent import AgentSpec, Revoke, SubtreeLimits
from hive_core.model.hive import Hive
from hive_core.model.settings import Settings
from hive_core.plan.moving import consequences
from hive_core.plan.place import Places

# top holds two branches; `x` with `y` below it is moved from the left one to the right one.
PARENTS = {
    "top": None, "left": "top", "inner": "left", "x": "inner", "y": "x", "right": "top",
}  # fmt: skip
LIMIT = SubtreeLimits(memory_max=1 << 30)


def changed(hive: Hive, name: str, **update: object) -> Hive:
    spec: AgentSpec = hive.spec(name).model_copy(update=update)
    return replace(hive, specs=MappingProxyType({**hive.specs, name: spec}))


def test_those_who_lose_and_those_who_gain_are_told_apart() -> None:
    hive = hive_of(PARENTS)
    found = consequences(hive, hive.moved("x", "right"), "x")
    assert (found.scanned, found.restarted) == (("inner", "left"), ())
    assert (found.gaining, found.crossing) == (("right",), ())


@pytest.mark.parametrize("update", [{"boot": True}, {"revoke": Revoke.RESTART}])
def test_a_loser_that_can_mount_is_restarted(update: dict[str, object]) -> None:
    hive = changed(hive_of(PARENTS), "left", **update)
    found = consequences(hive, hive.moved("x", "right"), "x")
    assert (found.scanned, found.restarted) == (("inner",), ("left",))


def test_a_common_ancestor_loses_nothing_even_in_boot_mode() -> None:
    hive = changed(hive_of(PARENTS), "top", boot=True)
    assert consequences(hive, hive.moved("x", "right"), "x").restarted == ()


@given(forests(), st.data())
@settings(max_examples=80, deadline=None)
def test_who_crosses_is_who_gets_another_slice(
    parents: dict[str, str | None], data: st.DataObject
) -> None:
    """The same answer as from the places that the change road works with."""
    hive = hive_of(parents)
    for name in parents:
        if data.draw(st.booleans(), f"{name} carries a limit"):
            hive = changed(hive, name, subtree=LIMIT)
    agent = data.draw(st.sampled_from(sorted(parents)))
    below = set(hive.topology.subtree(agent))
    targets = [None, *(each for each in sorted(parents) if each not in below)]
    after = hive.moved(agent, data.draw(st.sampled_from(targets)))
    old, new = Places.build(hive, Settings()), Places.build(after, Settings())
    crossing = {name for name in parents if old.named(name).slice != new.named(name).slice}
    assert set(consequences(hive, after, agent).crossing) == crossing
