"""One broker for each test, on a RAM disk where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.broker import BrokerHarness, open_broker
from fixtures.seeds import folder_in_ram


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_in_ram() as path:
        yield path


@pytest.fixture
def harness(folder: Path) -> Iterator[BrokerHarness]:
    with open_broker(folder) as opened:
        yield opened
