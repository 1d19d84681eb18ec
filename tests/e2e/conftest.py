"""Every end-to-end test runs on a systemd host: of its module, or of several modules."""

from collections.abc import Generator, Iterator

import pytest
from e2e.labhost import Lab
from e2e.privdhost import SharedPrivdHost
from e2e.shared_hosts import SharedHost, shared_name

_SHARED = SharedHost()
_PRIVD = SharedPrivdHost()


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as host:
        yield host


@pytest.fixture(scope="session")
def shared_host() -> Iterator[SharedHost]:
    yield _SHARED
    _SHARED.close()


@pytest.fixture(scope="session")
def shared_privd() -> Iterator[SharedPrivdHost]:
    yield _PRIVD
    _PRIVD.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None]:
    """End a shared host behind the last test that uses it."""
    yield
    name = "" if nextitem is None else shared_name(nextitem.nodeid)
    if nextitem is not None and name != _SHARED.name:
        _SHARED.close()
    if nextitem is not None and name != "privd":
        _PRIVD.close()
