"""A hive made from a valid one by the steps of `Hive` is valid without a check."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_core.errors import HiveError, InvalidArgument
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "move", "drop", "title", "at"]), NAMES, NAMES | st.none()),
    max_size=12,
)


def step(hive: Hive, verb: str, name: str, other: str | None) -> Hive:
    spec = AgentSpec(uuid=UUID(int=ord(name) << 96))
    titled = spec.model_copy(update={"title": other or ""})
    steps: dict[str, Callable[[], Hive]] = {
        "add": lambda: hive.with_agent(name, other, spec),
        "move": lambda: hive.with_parent(name, other),
        "drop": lambda: hive.without(name),
        "title": lambda: hive.with_spec(name, titled),
        "at": lambda: hive.at_commit(f"commit {name}"),
    }
    return steps[verb]()


@given(STEPS)
def test_steps_from_a_valid_hive_lead_to_valid_hives(
    steps: list[tuple[str, str, str | None]],
) -> None:
    hive = Hive().validate()
    for entry in steps:
        with suppress(HiveError):
            hive = step(hive, *entry)
        assert hive.validate() is hive
        assert replace(hive).validate() == hive
        assert dict(hive.names) == {spec.id: name for name, spec in hive.specs.items()}


def test_what_came_about_otherwise_is_looked_at() -> None:
    hive = Hive().validate().with_agent("a", None, AgentSpec(uuid=UUID(int=1 << 96)))
    with pytest.raises(InvalidArgument):
        replace(hive, specs={}).validate()
    with pytest.raises(InvalidArgument):
        Hive("", hive.topology).with_agent("b", "a", AgentSpec(uuid=UUID(int=2 << 96))).validate()
