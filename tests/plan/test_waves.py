"""Attack 51: many agents come in waves, and none is forgotten or comes twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hive_core.plan.rollout_waves import waves

AGENTS = st.lists(st.text(min_size=1), unique=True)


@given(AGENTS, st.integers(1, 5), st.floats(0.01, 1))
def test_attack_51_every_agent_comes_in_one_wave(
    agents: list[str], first: int, share: float
) -> None:
    cut = waves(agents, first, share)
    assert [agent for wave in cut for agent in wave] == agents
    assert all(cut)
    assert len(cut) <= 3
    assert not agents or len(cut[0]) <= first


def test_one_then_a_tenth_then_the_rest() -> None:
    assert [len(wave) for wave in waves([str(n) for n in range(50)], 1, 0.1)] == [1, 5, 44]
    assert waves(["a"], 1, 0.1) == (("a",),)
    assert waves([], 1, 0.1) == ()
