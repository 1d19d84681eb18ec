"""A real meta repo and ledger for each test, on a RAM disk where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.broker import BrokerHarness, open_broker
from fixtures.meta_repo import Meta
from fixtures.seeds import empty_ledger, empty_repo, folder_in_ram


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_in_ram() as path:
        yield path


@pytest.fixture
def meta(folder: Path) -> Iterator[Meta]:
    empty_ledger().plant(folder)
    empty_repo().plant(folder)
    repository = Meta(folder)
    yield repository
    repository.close()


@pytest.fixture
def harness(folder: Path) -> Iterator[BrokerHarness]:
    with open_broker(folder) as opened:
        yield opened
