"""A world with a queen, whose built-in agents play."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.built_in_agents import BuiltInAgents
from fixtures.queen import QUEEN, QueenHarness
from fixtures.world import world


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[QueenHarness]:
    with world() as made:
        made.call("operator", "spawn", name="queen", **QUEEN)
        yield QueenHarness(made, BuiltInAgents(made, tmp_path))
