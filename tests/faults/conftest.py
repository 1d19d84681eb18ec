"""One process for all tests that live through the verbs; it forks for each life."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.lives import Lives


@pytest.fixture(scope="package")
def lives() -> Iterator[Lives]:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hive-lives-") as folder:
        made = Lives(Path(folder))
        yield made
        made.close()
