"""One house for each test, on a RAM disk where there is one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.house import House, open_house

RAM = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=RAM if RAM.is_dir() else None) as found:
        yield Path(found)


@pytest.fixture
def house(folder: Path) -> Iterator[House]:
    with open_house(folder) as found:
        yield found
