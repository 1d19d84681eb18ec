"""Sockets that no daemon listens on."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_core.host.sockets.listener import remove_socket


def test_a_left_over_socket_is_removed_and_none_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "hooks.sock"
    path.touch()
    remove_socket(path)
    remove_socket(path)
    assert not path.exists()


def test_one_that_cannot_be_removed_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "hooks.sock").mkdir()
    remove_socket(tmp_path / "hooks.sock")
    assert "Cannot remove" in caplog.text
