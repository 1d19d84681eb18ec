"""The command line against a socket whose answers a test chooses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.run import Hive
from fixtures.fake_broker import fake_broker

ROWS = [
    {"name": name, "uuid": f"uuid-{name}", "parent": parent, "role": "agent", "title": "",
     "state": "running", "activity": "idle"}
    for name, parent in (("root", None), ("alice", "root"), ("bob", "alice"))
]  # fmt: skip


@pytest.fixture
def hive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Hive]:
    with fake_broker(tmp_path / "operator.sock") as made:
        made.answers["ListAgents"] = lambda _: {"agents": list(ROWS), "next": None}
        yield Hive(made, capsys)
