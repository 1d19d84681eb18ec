"""A real meta repo and ledger for each test, on a RAM disk where there is one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from host.meta import Meta

RAM = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=RAM if RAM.is_dir() else None) as found:
        yield Path(found)


@pytest.fixture
def meta(folder: Path) -> Iterator[Meta]:
    found = Meta(folder)
    yield found
    found.close()
