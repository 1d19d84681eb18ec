"""Every end-to-end test runs on a systemd host: of its module, or of several modules."""

from collections.abc import Generator, Iterator

import pytest
from e2e.labhost import Lab
from e2e.shared_hosts import SharedHost, shared_name

_SHARED = SharedHost()


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as host:
        yield host


@pytest.fixture(scope="session")
def shared_host() -> Iterator[SharedHost]:
    yield _SHARED
    _SHARED.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None]:
    """End a shared host behind the last test that uses it."""
    yield
    if nextitem is not None and shared_name(nextitem.nodeid) != _SHARED.name:
        _SHARED.close()
