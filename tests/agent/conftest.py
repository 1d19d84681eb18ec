"""A world with a queen, whose built-in agents play."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from agent.stage import QUEEN, Stage
from agent.troupe import Troupe
from operations.world import world


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with world() as made:
        made.call("operator", "spawn", name="queen", **QUEEN)
        yield Stage(made, Troupe(made, tmp_path))
