"""`hive-agent exchange`: K19 from a program's side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.fake_broker import FakeBroker

from hive_core.agent.letter import ReceivedLetter
from hive_core.agent.main import run
from hive_core.errors import TimedOut
from hive_core.varlink import Message

REPLY: Message = {"id": "2", "from": "bob", "body": "4\x1b[31m", "thread": "1", "reply_to": "1"}


@pytest.fixture(name="peer")
def _peer(tmp_path: Path) -> Iterator[FakeBroker]:
    peer = FakeBroker(tmp_path / "broker.sock")
    peer.answers["Send"] = lambda _: {"id": "1", "thread": "1", "priority": 2}
    peer.start()
    yield peer
    peer.stop()


def test_the_answer_is_printed_after_as_many_calls_as_it_takes(
    peer: FakeBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    replies: list[Message | None] = [None, None, REPLY]
    peer.answers["WaitReply"] = lambda _: {"reply": replies.pop(0)}
    assert run(["exchange", "bob", "2 + 2?", "--wait", "120", "-o", "text"], peer.path) == 0
    assert capsys.readouterr().out == "4⟨U+001B⟩[31m\n"
    (sent,) = peer.params_of("Send")
    assert (sent["to"], sent["body"], sent["reply_within"]) == ("bob", "2 + 2?", 120.0)
    assert all(0 < float(str(asked["wait"])) <= 50 for asked in peer.params_of("WaitReply"))


def test_for_programs_it_is_the_whole_message(
    peer: FakeBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    peer.answers["WaitReply"] = lambda _: {"reply": REPLY}
    assert run(["exchange", "bob", "x", "-o", "json"], peer.path) == 0
    assert json.loads(capsys.readouterr().out) == REPLY


def test_no_answer_in_time_is_said_and_has_its_status(peer: FakeBroker) -> None:
    peer.answers["WaitReply"] = lambda _: {"reply": None}
    with pytest.raises(TimedOut, match="no answer to 1 from bob; a late one comes as mail"):
        run(["exchange", "bob", "x", "--wait", "0"], peer.path)
    assert TimedOut("x").exit_code == 124


@pytest.mark.parametrize(
    ("envelope", "answered"),
    [
        ({"relation": "sibling", "kind": "message"}, True),
        ({"relation": "sibling", "kind": "copy"}, False),
        ({"relation": "parent", "kind": "topic"}, False),
        ({"relation": "parent", "kind": "message", "reply_to": "1"}, False),
        ({"relation": "daemon"}, False), ({"relation": "self"}, False),
    ],
)  # fmt: skip
def test_a_serving_agent_answers_what_was_said_to_it(
    envelope: Message,
    answered: bool,  # noqa: FBT001
) -> None:
    """Attack 44: nothing that goes round by itself."""
    assert ReceivedLetter.of({"id": "1", "from": "bob", **envelope}).answerable is answered
