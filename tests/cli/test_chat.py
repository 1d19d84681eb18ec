"""A conversation: lines go out, answers come in, whoever is first."""

from __future__ import annotations

import io

import pytest
from cli.run import Hive

from hive_core.varlink import Message


def letter(sender: str, body: str, reply_to: str | None) -> Message:
    return {"id": f"of-{reply_to}", "from": sender, "body": body, "reply_to": reply_to}


@pytest.fixture
def typed_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hello\n\nhow are you\n"))


@pytest.mark.usefixtures("typed_lines")
def test_chat_prints_acknowledges_and_waits_for_answers(hive: Hive) -> None:
    ids = iter(("m1", "m2"))
    hive.peer.answers["Send"] = lambda _: {"id": next(ids)}
    hive.peer.answers["Ack"] = lambda _: {"acked": 1}

    def answer(_: Message) -> list[Message]:
        hive.peer.wait_for("Send", 2)
        mail = [letter("alice", "HELLO", "m1"), letter("bob", "mine", None),
                letter("alice", "FINE", "m2")]  # fmt: skip
        return [{"messages": [message], "next": None} for message in mail]

    hive.peer.answers["ListMessages"] = answer
    done = hive("chat", "alice")
    assert (done.status, done.out) == (0, "HELLO\nFINE\n")
    assert [param["ids"] for param in hive.peer.params_of("Ack")] == [["of-m1"], ["of-m2"]]
    first, second = hive.peer.params_of("Send")
    assert (first["to"], first["body"]) == ("alice", "hello")
    assert "thread" not in first
    assert (second["body"], second["thread"]) == ("how are you", "m1")


@pytest.mark.usefixtures("typed_lines")
def test_a_missing_answer_exits_with_124(hive: Hive) -> None:
    hive.peer.answers["Send"] = lambda _: {"id": "m1"}

    hive.peer.answers["ListMessages"] = lambda _: {"messages": [], "next": None}
    assert hive("chat", "alice", "--wait", "0.05").status == 124
