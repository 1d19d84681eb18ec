"""A world with a queen, whose built-in agents play."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from agent.stage import QUEEN, AgentStage
from agent.troupe import BuiltInAgents
from operations.world import world


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[AgentStage]:
    with world() as made:
        made.call("operator", "spawn", name="queen", **QUEEN)
        yield AgentStage(made, BuiltInAgents(made, tmp_path))
