"""Attacks on a whole hive: the real broker, ledger and git."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.world import World, world


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    """`root` with two branches: a > a1 > a11, a > a2, and b > b1."""
    with world(None, "root/a", "a/a1", "a1/a11", "a/a2", "root/b", "b/b1") as made:
        yield made
