"""The message loop against the real broker: what arrives, how often, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent.broker_server import broker_server
from fixtures.world import World, rows, world
from typing_extensions import override

from hive_core.agent.reconnect import Link
from hive_core.agent.secret_environment import parse_secrets, with_secrets
from hive_core.agent.serve import MessageLoop, ServedCommand
from hive_core.varlink import Message

SHOUT = ("tr", "a-z", "A-Z")


class Wire(Link):
    """A link without a socket: the world answers in the same thread."""

    def __init__(self, made: World, name: str) -> None:
        super().__init__("")
        self._world = made
        self._uuid = made.uuid(name)
        self.before: Callable[[str], None] = lambda _: None

    @override
    def call(self, method: str, params: Message, *, repeat: bool = False) -> Message:
        operation = method.rpartition(".")[2].lower()
        self.before(operation)
        # Nobody else could send while this thread waits.
        present = {**params, "wait": 0} if operation == "recv" else params
        return self._world.ask_as(self._uuid, operation, present).result()


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with world(None, "root/lead", "lead/worker") as made:
        yield made


def step(wire: Wire, *command: str, slept: list[float] | None = None) -> bool:
    return MessageLoop(
        wire, ServedCommand(command), (slept if slept is not None else []).append
    ).step()


def test_a_message_is_answered_once_and_is_gone(hive: World) -> None:
    sent = hive.call("lead", "send", to="worker", body="hello")["id"]
    wire = Wire(hive, "worker")
    assert step(wire, *SHOUT)
    (reply,) = hive.mail("lead")
    assert (reply["body"], reply["relation"], reply["reply_to"]) == ("HELLO", "child", sent)
    assert hive.mail("worker") == []
    assert not step(wire, *SHOUT)


def test_messages_are_worked_off_in_their_order(hive: World) -> None:
    for body in ("one", "two", "three"):
        hive.call("lead", "send", to="worker", body=body)
    wire = Wire(hive, "worker")
    while step(wire, "cat"):
        pass
    assert [row["body"] for row in hive.mail("lead")] == ["one", "two", "three"]


class Crash(BaseException):
    """The loop is gone, as after SIGKILL: nothing more of it is sent."""


def test_a_crash_between_reply_and_acknowledgement_answers_only_once(
    hive: World, tmp_path: Path
) -> None:
    def crash_on_ack(operation: str) -> None:
        if operation == "ack":
            raise Crash

    hive.call("lead", "send", to="worker", body="hello")
    dying = Wire(hive, "worker")
    dying.before = crash_on_ack
    # The second run prints something else, as a model would.
    command = ("sh", "-c", f"echo x >>{tmp_path}/runs; cat {tmp_path}/runs")
    with pytest.raises(Crash):
        step(dying, *command)
    again = Wire(hive, "worker")
    assert not step(again, *command)
    hive.advance(61)
    assert step(again, *command)
    assert (tmp_path / "runs").read_text() == "x\nx\n"
    assert [row["body"] for row in hive.mail("lead")] == ["x"]
    assert hive.mail("worker") == []


def test_after_three_tries_the_message_is_a_dead_letter_and_the_sender_knows_why(
    hive: World,
) -> None:
    sent = hive.call("lead", "send", to="worker", body="hello")["id"]
    slept: list[float] = []
    step(Wire(hive, "worker"), "sh", "-c", "exit 7", slept=slept)
    assert len(slept) == 2
    letters = hive.call("operator", "list_messages", agent="worker", dead=True)["messages"]
    (dead,) = rows(letters)
    assert dead["id"] == sent
    (note,) = hive.mail("lead")
    assert note["relation"] == "daemon"
    assert "the command ended with 7" in str(note["body"])


def test_two_serving_agents_do_not_talk_for_ever(hive: World) -> None:
    hive.call("lead", "send", to="worker", body="hello")
    lead, worker = Wire(hive, "lead"), Wire(hive, "worker")
    turns = 0
    while step(worker, *SHOUT) or step(lead, *SHOUT):
        turns += 1
        assert turns < 5
    assert hive.mail("lead") == hive.mail("worker") == []


def test_what_an_agent_tells_itself_is_run_and_not_answered(hive: World) -> None:
    hive.call("worker", "wake", body="tick")
    wire = Wire(hive, "worker")
    assert step(wire, *SHOUT)
    assert not step(wire, *SHOUT)


def test_a_secret_is_a_variable_of_the_command_and_in_no_argument(
    hive: World, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "api-key").write_text("s3cret-one\n")
    environment = {"PATH": "/usr/bin:/bin", "CREDENTIALS_DIRECTORY": str(tmp_path)}
    served = ServedCommand(
        ("sh", "-c", 'tr "\\0" " " </proc/$$/cmdline; echo "$API_KEY $OTHER"'),
        environment=environment, secrets=parse_secrets(["api-key", "OTHER=api-key"]),
    )  # fmt: skip
    replies = []
    for value in ("s3cret-one", "s3cret-two"):  # a new value needs no restart
        (tmp_path / "api-key").write_text(f"{value}\n")
        hive.call("lead", "send", to="worker", body="x")
        assert MessageLoop(Wire(hive, "worker"), served, lambda _: None).step()
        replies.append(str(hive.mail("lead")[-1]["body"]).splitlines()[-1])
    assert replies[0].endswith("s3cret-one s3cret-one")
    assert replies[1].endswith("s3cret-two s3cret-two")
    assert "s3cret" not in "".join(reply.rpartition('"')[0] for reply in replies)
    output = capfd.readouterr()
    assert "s3cret" not in output.out + output.err


def test_a_secret_that_is_not_there_is_named_to_the_sender(hive: World, tmp_path: Path) -> None:
    served = ServedCommand(
        ("true",), environment={"CREDENTIALS_DIRECTORY": str(tmp_path)}, secrets={"KEY": "key"}
    )
    hive.call("lead", "send", to="worker", body="x")
    MessageLoop(Wire(hive, "worker"), served, lambda _: None).step()
    (note,) = hive.mail("lead")
    assert "cannot read the secret key" in str(note["body"])
    (tmp_path / "key").write_text("a\0b")
    with pytest.raises(OSError, match="NUL"):
        with_secrets({"CREDENTIALS_DIRECTORY": str(tmp_path)}, {"KEY": "key"})


@pytest.mark.parametrize(
    ("options", "why"),
    [(["../key"], "not the key"), (["HIVE_FROM=key"], "not a variable"), (["1A=key"], "variable"),
     (["key", "KEY=other"], "two secrets"), (["KEY="], "not the key")],
)  # fmt: skip
def test_a_secret_that_cannot_be_a_variable_is_refused_at_the_start(
    options: list[str], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        parse_secrets(options)


def test_an_answer_to_a_question_is_done_while_the_loop_waits_for_other_mail(
    hive: World, tmp_path: Path
) -> None:
    """The two have a connection each: an acknowledgement waits behind no `recv`."""
    with broker_server(hive, tmp_path) as server:
        server.start("worker", ["hive-agent", "serve", "--", "cat"])
        server.serve_until(lambda: server.waiting == 2)
        asked = hive.call("worker", "ask", items=[{"prompt": "Which port?"}])["question"]
        hive.call("lead", "answer", question=asked, answers=["8080"])
        server.serve_until(lambda: not hive.mail("worker"))
        assert server.waiting
