"""A change road per test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from reconcile.road import Road

from hive_core.model.hive import Hive
from hive_core.model.settings import Settings

Begin = Callable[..., Road]
Story = Callable[[Road], Awaitable[None]]


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """A road for a hive; the test's own coroutine drives it."""

    def road(hive: Hive, settings: Settings | None = None) -> Road:
        return Road(tmp_path, hive, settings)

    return road
