"""A real ledger for each test, on a RAM disk where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.seeds import empty_ledger, folder_in_ram

from hive_core.ledger.core.ledger import Ledger


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_in_ram() as result:
        yield result


@pytest.fixture
def ledger(folder: Path) -> Iterator[Ledger]:
    empty_ledger().plant(folder)
    opened = Ledger.open(folder / "hive.db", primed=0)
    yield opened
    opened.close()
