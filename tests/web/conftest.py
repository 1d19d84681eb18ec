"""A hive with a few agents behind hive-web."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fixtures.chromium import Browser, add_authenticator, new_tab
from fixtures.dashboard import (
    FakeBrowser,
    RunningDashboard,
    free_socket,
    origin_of,
    running_dashboard,
)
from fixtures.hostile_text import HOSTILE
from fixtures.login_server import login_server
from fixtures.script_coverage import CLOCK, ScriptCoverage
from long import times
from web.shared_browser import SharedBrowser, shared_browser

from hive_core.model.config.settings import Settings
from hive_core.model.config.web import WebSettings
from hive_core.web import static_files

EDGES = ("root/lead", "lead/w-9", "lead/w-10", "root/carl:worker")
_SHARED = SharedBrowser()


@pytest.fixture(scope="module")
def web() -> Iterator[RunningDashboard]:
    listening = free_socket()
    settings = Settings(web=WebSettings(origins=(origin_of(listening),)))
    with (
        TemporaryDirectory() as folder,
        login_server(Path(folder), *EDGES, settings=settings) as hived,
        running_dashboard(hived, listening) as made,
    ):
        yield made


@pytest.fixture(scope="session")
def chromium_of_process() -> Iterator[SharedBrowser]:
    yield _SHARED
    _SHARED.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None]:
    """End Chromium behind the last test that uses it."""
    yield
    if nextitem is not None and not shared_browser(nextitem.nodeid):
        _SHARED.close()


@pytest.fixture(scope="module")
def blank_tab(chromium_of_process: SharedBrowser) -> Iterator[Browser]:
    with new_tab(chromium_of_process.start()) as made:
        yield made


@pytest.fixture(scope="module")
def chrome(web: RunningDashboard, blank_tab: Browser) -> Browser:
    """A tab that has logged in by the link, with a virtual authenticator, and many rows."""
    for number in range(times(len(HOSTILE), 1000)):
        web.hived.call("operator", "spawn", name=f"row-{number}", parent="carl", role="worker")
    add_authenticator(blank_tab)
    blank_tab.open(f"{web.origin}/login#{web.hived.link()}")
    blank_tab.until_path("/passkey")
    return blank_tab


@pytest.fixture(scope="module")
def coverage(chrome: Browser) -> ScriptCoverage:
    chrome.run_first(CLOCK)
    return ScriptCoverage(chrome, static_files.FOLDER)


@pytest.fixture(scope="module")
def finished() -> set[str]:
    """The tests of this file that this process has run."""
    return set()


@pytest.fixture
def watched(
    chrome: Browser, coverage: ScriptCoverage, finished: set[str], request: pytest.FixtureRequest
) -> Iterator[None]:
    """Each test adds to the coverage, and leaves no complaint in the console."""
    yield
    coverage.collect()
    finished.add(request.node.name)
    assert chrome.complaints() == []


@pytest.fixture
def browser(web: RunningDashboard) -> FakeBrowser:
    ticking = _Ticking(web.app.web.logins.clock())
    web.app.web.logins.clock = web.app.web.reads.clock = ticking
    web.hived.pass_time(60.0)  # for the limit on logins
    return FakeBrowser(web)


class _Ticking:
    """A clock that goes on by a minute each time, so that nothing is late or kept."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        self.now += 60.0
        return self.now
