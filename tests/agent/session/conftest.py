"""What most tests of sessions run on; a file with another tree has a fixture of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.session_host import SessionHost, session_host
from fixtures.world import world


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[SessionHost]:
    """A session of `worker`, whose parent is `lead`."""
    with (
        world(None, "root/lead:lead", "lead/worker:worker") as made,
        session_host(made, tmp_path) as host,
    ):
        yield host
