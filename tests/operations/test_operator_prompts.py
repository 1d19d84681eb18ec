"""get_prompts: every agent of a host may read the operator's prompts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.world import World, world


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with world(None, "root/tim:task") as it:
        yield it


@pytest.mark.parametrize("who", ["root", "tim", "operator"])
def test_the_files_are_the_same_for_all(hive: World, who: str) -> None:
    assert hive.call(who, "get_prompts") == {"files": {"roles/worker.md": "HOST"}}
