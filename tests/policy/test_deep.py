"""Decisions at depth: ten thousand levels, which a guarded walk up the parents is compared with."""

from __future__ import annotations

from random import Random

import pytest
from fixtures.topologies import hive_of
from long import times
from policy.naive import Question, decide

from hive_core.model.agents.topology import guarded_ancestors
from hive_core.policy.rules import ANCESTOR, SELF


@pytest.mark.sized
@pytest.mark.parametrize("broken", [None, "cycle", "ghost"])
def test_a_chain_of_ten_thousand_gets_the_answers_of_a_walk(broken: str | None) -> None:
    """Row R13 at depth, also where the chain ends in a cycle or in a missing agent."""
    names = [f"a{number}" for number in range(10_000)]
    top = {"cycle": names[5_000], "ghost": "ghost"}.get(broken or "")
    parents = dict(zip(names, [top, *names], strict=False)) | {"other": None}
    hive = hive_of(parents)
    random = Random(13)  # noqa: S311
    for _ in range(times(100, 5_000)):
        caller, target = random.choices([*names, "other", "nobody"], k=2)
        above = guarded_ancestors(parents, target) or ()
        sound = guarded_ancestors(parents, caller) is not None and caller in parents
        decision = decide(ANCESTOR | SELF, Question(hive, caller, "do", target))
        assert decision.allowed == (sound and (caller in above or caller == target))
        assert (decision.rule == "known caller") == (not sound)
