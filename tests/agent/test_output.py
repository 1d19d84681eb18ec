"""What `hive-agent` prints for people."""

from __future__ import annotations

import os

import pytest

from hive_core.agent import output

LETTER = {
    "id": "65f0c0ffee123", "from": "lead", "from_uuid": "0" * 36, "relation": "parent", "to": "bob",
    "body": "mend the roof", "kind": "message", "thread": "65f0c0ffee123", "reply_to": None,
    "priority": 2, "sent_at": 1_700_000_000.0, "attempt": 1, "source": None, "wait_id": None,
    "hops": 0,
}  # fmt: skip


def print_messages(capsys: pytest.CaptureFixture[str]) -> list[str]:
    output.result({"messages": [LETTER]}, "text")
    return capsys.readouterr().out.splitlines()


def test_messages_on_a_terminal_have_a_readable_few_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((100, 24)))
    monkeypatch.setattr("sys.stdout.fileno", lambda: 1, raising=False)
    heading, row = print_messages(capsys)
    assert heading.split() == ["ID", "SENT_AT", "FROM", "RELATION", "KIND", "BODY"]
    assert row.endswith("mend the roof")
    assert len(row) <= 100


def test_a_file_gets_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(print_messages(capsys)[0].split()) == len(LETTER)
