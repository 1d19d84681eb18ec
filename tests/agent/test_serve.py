"""The message loop of `hive-agent serve`, against a socket."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.fake_broker import FakeBroker, fake_broker
from typing_extensions import override

from hive_core.agent.letter import ReceivedLetter
from hive_core.agent.reconnect import Link
from hive_core.agent.serve import AgentStopped, MessageLoop, ServedCommand
from hive_core.errors import Conflict, HiveError, InboxFull, NotFound
from hive_core.varlink import Message

SHOUT = (sys.executable, "-c", "print(input().upper())")
LETTER: Message = {
    "id": "m1", "from": "lead", "from_uuid": "u", "relation": "parent", "to": "worker",
    "body": "hello", "kind": "", "thread": "t1", "reply_to": None, "priority": 2,
    "sent_at": 1.0, "attempt": 1,
}  # fmt: skip


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FakeBroker]:
    with fake_broker(tmp_path / "broker.sock") as made:
        made.answers = {
            "Recv": lambda _: {"messages": [LETTER]},
            "Ack": lambda _: {"count": 1},
            "Nack": lambda _: {},
            "Send": lambda _: {"id": "m2"},
        }
        yield made


def step(broker: FakeBroker, *command: str, slept: list[float] | None = None) -> bool:
    """One turn of a loop that does not really wait between tries."""
    return turn(broker, ServedCommand(command), slept)


def turn(broker: FakeBroker, work: ServedCommand, slept: list[float] | None = None) -> bool:
    with Link(broker.path) as link:
        return MessageLoop(link, work, (slept if slept is not None else []).append).step()


def test_what_the_command_prints_is_the_reply_and_exit_0_acknowledges(broker: FakeBroker) -> None:
    assert step(broker, *SHOUT)
    (reply,) = broker.params_of("Send")
    assert reply == {
        "to": "lead", "body": "HELLO", "reply_to": "m1", "thread": "t1",
        "idempotency_key": "reply:m1",
    }  # fmt: skip
    assert [name for name, _ in broker.calls] == ["Recv", "Send", "Ack"]
    assert broker.params_of("Ack") == [{"ids": ["m1"]}]


def test_one_message_is_taken_at_a_time_so_that_the_others_can_go_elsewhere(
    broker: FakeBroker,
) -> None:
    step(broker, "true")
    assert broker.params_of("Recv") == [{"wait": 50, "max": 1, "lease": 60, "only": "other"}]


def test_no_output_is_no_reply(broker: FakeBroker) -> None:
    step(broker, "true")
    assert not broker.params_of("Send")
    assert broker.params_of("Ack") == [{"ids": ["m1"]}]


def test_the_command_learns_about_the_message_from_its_environment(broker: FakeBroker) -> None:
    names = ("HIVE_MESSAGE_ID", "HIVE_FROM", "HIVE_RELATION", "HIVE_THREAD")
    shown = " ".join(f"${name}" for name in names)
    step(broker, "/bin/sh", "-c", f"echo {shown}")
    assert broker.params_of("Send")[0]["body"] == "m1 lead parent t1"


def test_the_command_learns_what_caused_a_wake(broker: FakeBroker) -> None:
    own = {"from": "bob", "relation": "self", "kind": "wake", "source": "forge"}
    broker.answers["Recv"] = lambda _: {"messages": [{**LETTER, **own}]}
    step(broker, "/bin/sh", "-c", '[ "$HIVE_RELATION $HIVE_SOURCE" = "self forge" ]')
    assert broker.params_of("Ack") == [{"ids": ["m1"]}]


def test_a_failing_command_is_tried_three_times_with_growing_pauses_then_buried(
    broker: FakeBroker,
) -> None:
    slept: list[float] = []
    step(broker, "/bin/sh", "-c", "exit 7", slept=slept)
    assert slept == [1.0, 4.0]
    assert broker.params_of("Nack") == [
        {"ids": ["m1"], "why": "the command ended with 7", "dead": True}
    ]
    assert not broker.params_of("Ack")


def test_a_command_that_succeeds_at_last_is_acknowledged(
    broker: FakeBroker, tmp_path: Path
) -> None:
    script = f"test -e {tmp_path}/again || {{ touch {tmp_path}/again; exit 1; }}; echo done"
    step(broker, "/bin/sh", "-c", script)
    assert broker.params_of("Send")[0]["body"] == "done"
    assert broker.params_of("Ack")


def test_a_command_that_does_not_exist_is_told_to_the_sender(broker: FakeBroker) -> None:
    step(broker, "/nowhere/at-all")
    (buried,) = broker.params_of("Nack")
    assert "No such file" in str(buried["why"])


def test_a_command_that_takes_too_long_is_ended(broker: FakeBroker) -> None:
    turn(broker, ServedCommand(("sleep", "60"), timeout=0.05))
    assert broker.params_of("Nack")[0]["why"] == "the command took longer than 0.05 s"


@pytest.mark.parametrize("change", [
    {"relation": "self", "from": "worker"},
    {"relation": "daemon", "from": "daemon"},
    {"reply_to": "m0"},
])  # fmt: skip
def test_no_answer_goes_to_a_peer_that_would_not_read_it_or_would_answer_back(
    broker: FakeBroker, change: Message
) -> None:
    broker.answers["Recv"] = lambda _: {"messages": [{**LETTER, **change}]}
    step(broker, *SHOUT)
    assert not broker.params_of("Send")
    assert broker.params_of("Ack")


@pytest.mark.parametrize("error", [NotFound("no agent lead"), Conflict("another reply")])
def test_a_reply_that_cannot_be_sent_does_not_bring_the_message_back(
    broker: FakeBroker, error: HiveError
) -> None:
    def refuse(_: Message) -> Message:
        raise error

    broker.answers["Send"] = refuse
    step(broker, *SHOUT)
    assert broker.params_of("Ack")


def test_the_loop_goes_on_while_a_reply_waits_for_room(broker: FakeBroker) -> None:
    """The thread beside the loop sends it; nothing is waited for in between."""

    def full_once(_: Message) -> Message:
        if len(broker.params_of("Send")) == 1:
            raise InboxFull("lead has to read first")
        return {"id": "m2"}

    broker.answers["Send"] = full_once
    slept = list[float]()
    with Link(broker.path) as link:
        loop = MessageLoop(link, ServedCommand(SHOUT), slept.append)
        loop.step()
        assert (slept, broker.params_of("Ack")) == ([], [])
        broker.answers["Recv"] = lambda _: {"messages": [{**LETTER, "id": "m9"}]}
        loop.step()
        assert broker.params_of("Ack") == [{"ids": ["m9"]}]
        loop.outbox.deliver(link.ask)
    keys = [row["idempotency_key"] for row in broker.params_of("Send")]
    assert keys == ["reply:m1", "reply:m9", "reply:m1"]
    assert broker.params_of("Ack") == [{"ids": ["m9"]}, {"ids": ["m1"]}]


def test_a_sender_that_never_reads_delays_no_other_and_gets_its_answer_when_it_reads(
    broker: FakeBroker, tmp_path: Path
) -> None:
    def full(_: Message) -> Message:
        raise InboxFull("lead has to read first")

    calls, slept = tmp_path / "told", list[float]()
    work = ServedCommand(("sh", "-c", f"echo once >> {calls}; cat"))
    broker.answers["Send"] = full
    with Link(broker.path) as link:
        loop = MessageLoop(link, work, slept.append)
        loop.step()
        assert sum(slept) < work.lease
        assert not broker.params_of("Ack")
        assert not broker.params_of("Nack"), "it comes again when its lease ends"
        broker.answers["Send"] = lambda _: {"id": "m2"}
        loop.step()
    assert calls.read_text() == "once\n", "the command is not run again for an answer that it gave"
    assert broker.params_of("Send")[-1]["body"] == "hello"
    assert broker.params_of("Ack") == [{"ids": ["m1"]}]


def test_a_daemon_that_went_away_is_waited_for_and_the_reply_is_sent_under_the_same_key(
    broker: FakeBroker,
) -> None:
    def hang_up(_: Message) -> Message:
        broker.answers["Send"] = lambda _: {"id": "m2"}
        raise KeyError("Send")

    broker.answers["Send"] = hang_up
    step(broker, *SHOUT)
    keys = {row["idempotency_key"] for row in broker.params_of("Send")}
    assert keys == {"reply:m1"}
    assert broker.params_of("Ack")


def test_a_stopped_agent_gives_its_message_back_at_once(broker: FakeBroker) -> None:
    class Interrupted(ServedCommand):
        @override
        def run(self, letter: ReceivedLetter) -> bytes:
            raise AgentStopped(letter.id)

    with pytest.raises(AgentStopped):
        turn(broker, Interrupted(("true",)))
    assert broker.params_of("Nack") == [{"ids": ["m1"], "why": "the agent stopped"}]


def test_a_refused_recv_is_told_and_tried_again_later(
    broker: FakeBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: Message) -> Message:
        raise NotFound("no such agent")

    broker.answers["Recv"] = refuse
    slept: list[float] = []
    assert not step(broker, "true", slept=slept)
    assert slept
    assert "cannot receive: no such agent" in capsys.readouterr().err


def test_each_message_leaves_a_line_in_the_log(
    broker: FakeBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    step(broker, *SHOUT)
    step(broker, "true")
    assert capsys.readouterr().err.splitlines() == [
        "hive-agent: message m1 of lead: answered",
        "hive-agent: message m1 of lead: done",
    ]


def test_a_long_reply_is_cut_to_what_a_message_may_hold(broker: FakeBroker) -> None:
    step(broker, "/bin/sh", "-c", "head -c 200000 /dev/zero | tr '\\0' 'é'")
    body = str(broker.params_of("Send")[0]["body"])
    assert len(body.encode()) <= 64 * 1024
    assert body.endswith("[cut]")


def write_and_recall(broker: FakeBroker, script: str) -> None:
    """A start, and one turn of its loop."""
    slept: list[float] = []
    with Link(broker.path) as link:
        loop = MessageLoop(link, ServedCommand(("/bin/sh", "-c", script)), slept.append)
        loop.read_snapshot()
        loop.step()


def test_what_was_kept_for_this_start_is_a_file_for_the_command(
    broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K12: a snapshot is handed back at the next start."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broker.answers["GetSnapshot"] = lambda _: {"data": "step 3 \u2603", "kept_at": 1.0}
    write_and_recall(broker, 'cat "$HIVE_SNAPSHOT"')
    assert broker.params_of("Send")[0]["body"] == "step 3 \u2603"


@pytest.mark.parametrize("snapshot", [{"data": "", "kept_at": None}, NotFound("no such method")])
def test_without_anything_kept_there_is_no_file(
    broker: FakeBroker, snapshot: Message | HiveError
) -> None:
    """Also with a daemon that is older than this program."""

    def answer(_: Message) -> Message:
        if isinstance(snapshot, HiveError):
            raise snapshot
        return snapshot

    broker.answers["GetSnapshot"] = answer
    write_and_recall(broker, 'echo "${HIVE_SNAPSHOT-none}"')
    assert broker.params_of("Send")[0]["body"] == "none"


def refuse(error: HiveError) -> Message:
    raise error


def question(items: int, **more: object) -> Message:
    head = json.dumps({"question": "q1", "items": items})
    body = f"{head}\nlead asks:\n> Red?"
    return {**LETTER, "relation": "daemon", "from": "daemon", "kind": "question", "body": body,
            **more}  # fmt: skip


@pytest.mark.parametrize(
    ("items", "printed", "sent"),
    [(1, "rather\nblue", ["rather\nblue"]), (2, "yes\nno", ["yes", "no"])],
)
def test_what_the_command_prints_is_the_answer_to_a_question(
    broker: FakeBroker, items: int, printed: str, sent: list[str]
) -> None:
    broker.answers["Recv"] = lambda _: {"messages": [question(items)]}
    broker.answers["Answer"] = lambda _: {"question": "q1", "state": "answered", "asker": "lead"}
    assert step(broker, "printf", printed)
    assert broker.params_of("Answer") == [
        {"question": "q1", "answers": sent, "idempotency_key": "answer:m1"}
    ]
    assert broker.params_of("Send") == []
    assert broker.params_of("Ack") == [{"ids": ["m1"]}]


def test_a_question_on_which_the_command_says_nothing_stays_open(broker: FakeBroker) -> None:
    broker.answers["Recv"] = lambda _: {"messages": [question(1)]}
    assert step(broker, "sh", "-c", 'test "$HIVE_QUESTION" = q1')
    assert broker.params_of("Answer") == []
    assert broker.params_of("Ack") == [{"ids": ["m1"]}]


def test_an_answer_that_comes_too_late_is_noted_and_no_more(
    broker: FakeBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.answers["Recv"] = lambda _: {"messages": [question(1)]}
    broker.answers["Answer"] = lambda _: refuse(Conflict("it was answered by bob"))
    assert step(broker, *SHOUT)
    assert "cannot answer question q1" in capsys.readouterr().err
    assert broker.params_of("Ack") == [{"ids": ["m1"]}]


@pytest.mark.parametrize(
    "more", [{"relation": "child"}, {"body": "no JSON"}, {"body": "[]"}, {"kind": "message"}]
)
def test_only_the_daemon_brings_a_question(broker: FakeBroker, more: Message) -> None:
    broker.answers["Recv"] = lambda _: {"messages": [question(1, **more)]}
    assert step(broker, *SHOUT)
    assert broker.params_of("Answer") == []


NOTICES = ("config", "moved", "tasks", "child_exit", "made-up-later")


@pytest.mark.parametrize("kind", NOTICES)
def test_notices_of_the_daemon_are_logged_and_not_given_to_the_command(
    broker: FakeBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    result = {**LETTER, "from": "daemon", "relation": "daemon", "kind": kind, "body": "so it is\nx"}
    broker.answers["Recv"] = lambda _: {"messages": [result]}
    step(broker, "touch", str(tmp_path / "ran"))
    assert not (tmp_path / "ran").exists()
    assert broker.params_of("Ack") == [{"ids": ["m1"]}]
    assert f"{kind} of daemon: so it is\n" in capfd.readouterr().err


@pytest.mark.parametrize("kinds", [{"message", "notice"}, {"config"}])
def test_an_agent_that_wants_notices_gets_them(
    broker: FakeBroker, tmp_path: Path, kinds: set[str]
) -> None:
    result = {**LETTER, "from": "daemon", "relation": "daemon", "kind": "config"}
    broker.answers["Recv"] = lambda _: {"messages": [result]}
    turn(broker, ServedCommand(("touch", str(tmp_path / "ran")), kinds=frozenset(kinds)))
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("kind", ["question", "reminder", "trigger", "wait_over", "answer"])
def test_what_the_daemon_brings_for_an_agent_is_a_message(
    broker: FakeBroker, tmp_path: Path, kind: str
) -> None:
    result = {**LETTER, "from": "daemon", "relation": "daemon", "kind": kind}
    broker.answers["Recv"] = lambda _: {"messages": [result]}
    step(broker, "touch", str(tmp_path / "ran"))
    assert (tmp_path / "ran").exists()
