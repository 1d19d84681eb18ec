"""A real ledger for each test, on a RAM disk where there is one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_core.ledger.store import Ledger

RAM = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=RAM if RAM.is_dir() else None) as found:
        yield Path(found)


@pytest.fixture
def ledger(folder: Path) -> Iterator[Ledger]:
    found = Ledger.open(folder / "hive.db")
    yield found
    found.close()
