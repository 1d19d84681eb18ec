"""A daemon that does not answer: the command says that it waits, and where to look."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from cli.run import Hive

from hive_core.cli.core import progress
from hive_core.cli.core.session import Session
from hive_core.cli.main import explanation
from hive_core.errors import TimedOut
from hive_core.varlink import SILENCE


def test_a_silent_daemon_gives_a_hint_at_the_diagnostic_command(hive: Hive) -> None:
    session = Session(hive.peer.path)
    said = explanation(TimedOut(SILENCE), session)
    assert said == "no answer in time; is hived running? (`hive doctor`)"
    assert explanation(TimedOut("not within 3 s: alice stopped"), session).endswith("alice stopped")


def test_a_nested_wait_prints_no_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    said = ""

    def until(text: str) -> None:
        nonlocal said
        pause = threading.Event()
        while text not in said:
            said += capsys.readouterr().err
            pause.wait(0.01)

    with progress.working("the outer one", after=0.0), progress.working("the inner", after=0.0):
        until("the outer one")
    with progress.working("another one", after=0.0):
        until("another one")
    assert "the inner" not in said


def test_doctor_points_to_the_journal_without_a_daemon(hive: Hive, tmp_path: Path) -> None:
    hive.peer.path = str(tmp_path / "nobody.sock")
    done = hive("doctor", "-o", "jsonl")
    (line,) = [row for row in done.out.splitlines() if '"check": "hived"' in row]
    assert done.status == 1
    assert "nobody.sock" in line
    assert "journalctl -u hived" in line
