"""A world with a queen, whose built-in agents play."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.built_in_agents import BuiltInAgents
from fixtures.queen import QUEEN, AgentStage
from fixtures.world import world


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[AgentStage]:
    with world() as made:
        made.call("operator", "spawn", name="queen", **QUEEN)
        yield AgentStage(made, BuiltInAgents(made, tmp_path))
