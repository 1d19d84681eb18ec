"""A conversation: lines go out, answers come in, whoever is first."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import pytest
from cli.run import Hive
from typing_extensions import override

from hive_core.cli.core.session import Session
from hive_core.cli.work.chat import Conversation
from hive_core.errors import Unreachable
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


def untaken(attempt: int) -> Message:
    return {"messages": [{"id": "m1", "from": "operator", "attempt": attempt}], "next": None}


@dataclass
class Chat:
    """A conversation whose second thread has looked once at the inbox of the agent."""

    hive: Hive
    err: Callable[[], str]

    def text_for(self, attempt: int, state: str = "running") -> str:
        def inbox(asked: Message) -> Message:
            assert asked["agent"] == "alice"
            return untaken(attempt)

        def agents(_: Message) -> Message:
            return {"agents": [{"name": "alice", "state": state}], "next": None}

        self.hive.peer.answers |= {
            "Send": lambda _: {"id": "m1"},
            "ListMessages": inbox,
            "ListAgents": agents,
        }
        talk = Conversation(self.hive.peer.path, "alice", patience=0.01)
        with closing(Session(self.hive.peer.path)) as session:
            talk.send(session, "hello")
        watching = threading.Thread(target=talk.watch_untaken)
        watching.start()
        self.hive.peer.wait_for("ListMessages")
        with talk.changed:
            talk.lost = Unreachable("over")
            talk.changed.notify_all()
        watching.join()
        return self.err()


@pytest.fixture
def conversation(hive: Hive, capsys: pytest.CaptureFixture[str]) -> Chat:
    return Chat(hive, lambda: capsys.readouterr().err)


def test_a_message_to_an_agent_that_never_asks_for_mail_is_said_to_wait(conversation: Chat) -> None:
    assert conversation.text_for(attempt=0) == (
        "your message waits: alice has not asked for its mail; `hive agent show alice` shows what"
        " it runs\n"
    )


def test_nothing_is_said_of_a_message_that_the_agent_works_on(conversation: Chat) -> None:
    assert conversation.text_for(attempt=1) == ""


def test_nothing_is_said_twice_of_an_agent_that_does_not_run_yet(conversation: Chat) -> None:
    assert conversation.text_for(attempt=0, state="sleeping") == ""


class Meanwhile(threading.Condition):
    """While the command waits, the agent answers the first message and a second one is sent."""

    talk: Conversation

    @override
    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None, "the second message is not looked at"
        self.talk.answered.add("m1")
        self.talk.open.add("m2")
        return True


def test_a_message_that_is_sent_while_another_one_is_answered_is_said_to_wait(
    hive: Hive, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = Meanwhile()
    talk = Conversation(hive.peer.path, "alice", patience=0.01, open={"m1"}, changed=changed)
    changed.talk = talk

    def inbox(_: Message) -> Message:
        talk.lost = Unreachable("over")
        return {"messages": [{"id": "m2", "from": "operator", "attempt": 0}], "next": None}

    hive.peer.answers |= {
        "ListMessages": inbox,
        "ListAgents": lambda _: {"agents": [{"name": "alice", "state": "running"}], "next": None},
    }
    talk.watch_untaken()
    assert "your message waits: alice" in capsys.readouterr().err
