"""One broker for each test, on a RAM disk where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.broker import BrokerHarness, lend_broker
from fixtures.seeds import folder_in_ram


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_in_ram() as path:
        yield path


@pytest.fixture
def harness() -> Iterator[BrokerHarness]:
    with lend_broker() as opened:
        yield opened
