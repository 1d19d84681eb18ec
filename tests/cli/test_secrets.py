"""`hive secret`: values come from files and pipes, and go nowhere but into the call."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from cli.run import Hive

ANSWER = {
    "agent": "alice", "key": "token", "readable": True, "provider": "github", "alias": "work",
    "identity": "", "expired": "",
}  # fmt: skip


class Pipe(io.TextIOWrapper):
    """Standard input that is not a terminal."""


def pipe_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", Pipe(io.BytesIO(data)))


def test_a_value_from_a_pipe_loses_its_final_newline(
    hive: Hive, monkeypatch: pytest.MonkeyPatch
) -> None:
    hive.peer.answers["SetSecret"] = lambda _: dict(ANSWER)
    pipe_stdin(monkeypatch, "zwei\nZeilen ü\n".encode())
    done = hive("secret", "set", "alice", "token")
    assert (done.status, done.out, done.err) == (0, "", "")
    (asked,) = hive.peer.params_of("SetSecret")
    assert asked["value"] == "zwei\nZeilen ü"
    assert (asked["agent"], asked["key"]) == ("alice", "token")


def test_a_value_from_a_file_is_stored_unchanged(hive: Hive, tmp_path: Path) -> None:
    hive.peer.answers["SetSecret"] = lambda _: {**ANSWER, "readable": False}
    (tmp_path / "value").write_bytes(b"x\n")
    done = hive("secret", "set", "alice", "token", "--file", str(tmp_path / "value"))
    assert hive.peer.params_of("SetSecret")[0]["value"] == "x\n"
    assert "hive cap grant alice secret:token" in done.err


def test_a_binary_value_is_refused_before_the_call(
    hive: Hive, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe_stdin(monkeypatch, b"\xff\xfe-hush")
    done = hive("secret", "set", "alice", "token")
    assert (done.status, done.out) == (2, "")
    assert "hush" not in done.err
    assert hive.peer.calls == []


def test_a_value_cannot_be_an_argument(hive: Hive) -> None:
    done = hive("secret", "set", "alice", "token", "value")
    assert done.status == 2
    assert hive.peer.calls == []


def test_keys_are_listed_and_removed(hive: Hive) -> None:
    hive.peer.answers["ListSecrets"] = lambda _: {"secrets": [dict(ANSWER)]}
    hive.peer.answers["RemoveSecret"] = lambda _: dict(ANSWER)
    assert hive("secret", "list", "alice").out == (
        "AGENT  KEY    READABLE  PROVIDER  ALIAS  EXPIRED\n"
        "alice  token  yes       github    work   -\n"
    )
    assert hive("secret", "list", "alice", "-o", "name").out == "token\n"
    assert hive("secret", "rm", "alice", "token").status == 0
    (asked,) = hive.peer.params_of("RemoveSecret")
    assert (asked["agent"], asked["key"]) == ("alice", "token")
