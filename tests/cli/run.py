"""Runs `hive` in this process against a fake broker and returns status and output."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from fixtures.fake_broker import FakeBroker

from hive_core.cli.main import run


@dataclass
class Outcome:
    status: int
    out: str
    err: str


class Hive:
    """The command line, aimed at a socket."""

    def __init__(self, peer: FakeBroker, capsys: pytest.CaptureFixture[str]) -> None:
        self.peer = peer
        self._capsys = capsys

    def __call__(self, *words: str) -> Outcome:
        status = run(["--socket", self.peer.path, *words])
        said = self._capsys.readouterr()
        return Outcome(status, said.out, said.err)
