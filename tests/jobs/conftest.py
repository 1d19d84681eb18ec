"""A bench for each test, and one process that their jobs are forked from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.jobs import Bench, Jobs


@pytest.fixture(scope="package")
def jobs() -> Iterator[Jobs]:
    made = Jobs()
    yield made
    made.close()


@pytest.fixture
def bench(tmp_path: Path, jobs: Jobs) -> Bench:
    return Bench(tmp_path, jobs)
