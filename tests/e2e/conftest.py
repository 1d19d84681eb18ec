"""Every end-to-end test runs on a systemd host of its module's own."""

from collections.abc import Iterator

import pytest
from e2e.labhost import Lab


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as host:
        yield host
