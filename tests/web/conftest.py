"""A hive with a few agents behind hive-web."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fixtures.dashboard import FakeBrowser, RunningDashboard, running_dashboard
from fixtures.login_door import LoginDoor, login_door


@pytest.fixture(scope="module")
def door() -> Iterator[LoginDoor]:
    edges = ("root/lead", "lead/w-9", "lead/w-10", "root/carl:worker")
    with TemporaryDirectory() as folder, login_door(Path(folder), *edges) as made:
        yield made


@pytest.fixture(scope="module")
def web(door: LoginDoor) -> Iterator[RunningDashboard]:
    with running_dashboard(door) as made:
        yield made


@pytest.fixture
def browser(web: RunningDashboard) -> FakeBrowser:
    ticking = _Ticking(web.app.web.logins.clock())
    web.app.web.logins.clock = web.app.web.reads.clock = ticking
    return FakeBrowser(web)


class _Ticking:
    """A clock that goes on by a minute each time, so that nothing is late or kept."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        self.now += 60.0
        return self.now
