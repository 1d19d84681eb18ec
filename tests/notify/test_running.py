"""The run of hive-notify and hive-otel: until a signal, or until their work fails."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.service_manager import service_manager

from hive_core.errors import Unreachable
from hive_core.services.running import run_until_signal


@pytest.fixture(name="manager")
def _manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with service_manager(tmp_path, monkeypatch) as receiver:
        yield receiver


def test_a_signal_ends_the_work_and_the_service_manager_is_told(manager: socket.socket) -> None:
    states = list[str]()

    async def work() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            states.append("ended")

    asyncio.run(run_until_signal(work(), "2 routes"))
    assert states == ["ended"]
    assert manager.recv(100) == b"READY=1\nSTATUS=2 routes"
    assert manager.recv(100) == b"STOPPING=1"


def test_work_that_fails_ends_the_service_with_its_error(manager: socket.socket) -> None:
    async def work() -> None:
        raise Unreachable("no hived")

    with pytest.raises(Unreachable, match="no hived"):
        asyncio.run(run_until_signal(work()))
    assert [manager.recv(100), manager.recv(100)] == [b"READY=1", b"STOPPING=1"]
