"""A fault of the program in the thread of a turn: the turn fails, and its conversation goes on."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fixtures.fake_model import ModelAnswer
from fixtures.fork_server import shared_fork_server
from fixtures.session_host import NAME, SessionHost
from fixtures.world import Reply
from typing_extensions import override

from hive_core.agent.reconnect import BatchedCall
from hive_core.agent.session.calls import ToolPlace
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.judge import ResultJudge
from hive_core.agent.session.mailbox import Mailbox
from hive_core.agent.session.runtimes.builtin import BuiltinRuntime, RuntimeCommand
from hive_core.agent.session.runtimes.fork_server import ForkServerClient
from hive_core.agent.session.runtimes.pool import RuntimePool
from hive_core.agent.session.services import SessionServices
from hive_core.agent.session.session import AgentSession
from hive_core.varlink import Message

LEASE = 11.0  # seconds, longer than a letter stays away that was not logged
VALUE = "sesame"


class FaultyForks(ForkServerClient):
    """Opens runtimes; `faults` calls of it end in an error that nobody expects."""

    faults = 0

    @override
    def open(self, events: queue.SimpleQueue[tuple[str, object]], wire: str = "") -> BuiltinRuntime:
        if self.faults:
            self.faults -= 1
            raise LookupError(f"the value is {VALUE!r}")
        return ForkServerClient.open(self, events, wire)


@dataclass(slots=True)
class FaultyServices(SessionServices):
    """Services that find a fault when the result of a turn is passed on, so often."""

    faults: int = 0

    @override
    def ask_together(self, link: object, calls: Sequence[BatchedCall]) -> list[Message]:
        if self.faults and any(call.operation == "keep_turn" for call in calls):
            self.faults -= 1
            raise ZeroDivisionError
        return SessionServices.ask_together(self, link, calls)  # type: ignore[arg-type]


class FaultySession(AgentSession):
    """Finds a fault where it looks whether a letter was logged before, so often."""

    faults = 0

    @override
    def has_seen(self, mark: str) -> bool:
        if self.faults:
            self.faults -= 1
            raise RecursionError
        return AgentSession.has_seen(self, mark)


@contextmanager
def session_in_threads(host: SessionHost, faults: int = 0) -> Iterator[FaultyServices]:
    """The session of the worker, in threads of the test."""
    command = RuntimeCommand(str(host.model_socket), None, None)
    forks = FaultyForks(command, 60.0, shared_fork_server().channel)
    socket = host.server.socket_of(NAME)
    services = FaultyServices(
        NAME, socket, host.state / "session", ToolPlace(host.workspace, socket, None), command,
        forks=forks,
    )  # fmt: skip
    session = FaultySession(services)
    session.faults = faults
    Mailbox(services, session).start()  # its threads end with the broker
    try:
        yield services
    finally:
        services.forks = None  # the server is that of all tests
        session.close()


def _replies_later(host: SessionHost) -> list[object]:
    """The replies after the time in which a letter stays away."""
    host.world.advance(LEASE)
    return host.replies()


def escalations(host: SessionHost) -> list[Reply]:
    return [row for row in host.world.mail("lead") if row["kind"] == "escalation"]


def test_a_letter_whose_turn_fails_is_answered_with_the_fault_and_the_next_is_worked_on(
    host: SessionHost, capsys: pytest.CaptureFixture[str]
) -> None:
    host.model.script = [ModelAnswer("here I am")]
    with session_in_threads(host) as services:
        assert isinstance(services.forks, FaultyForks)
        services.forks.faults = 1
        host.send("first")
        (reply,) = host.until(host.replies)
        assert str(reply).startswith("cannot answer: internal error: LookupError in test_faulty")
        host.send("second")
        host.until_count(host.replies, 2)
        assert host.replies()[-1] == "here I am"
    assert [row["status"] for row in host.of_kind("end")] == ["error", "done"]
    log = capsys.readouterr().err
    assert "Traceback (most recent call last)" in log
    assert "LookupError: the value is '...'" in log
    assert VALUE not in log


def test_a_task_whose_turn_fails_is_reported_as_failed(host: SessionHost) -> None:
    with session_in_threads(host) as services:
        assert isinstance(services.forks, FaultyForks)
        services.forks.faults = 1
        task = host.assign("Count.")
        row = host.until(lambda: host.task(task) if host.task(task).get("result") else {})
        assert row["state"] == "done"
        assert "internal error: LookupError" in str(row)
        host.send("and now?")
        assert host.until(host.replies) == ["done"]


def test_a_result_that_cannot_be_passed_on_is_escalated_and_passed_on_with_the_next_letter(
    host: SessionHost,
) -> None:
    """The letter is no part of the turn that has ended: it is answered behind it."""
    host.model.script = [ModelAnswer("first answer"), ModelAnswer("second answer")]
    with session_in_threads(host) as services:
        services.faults = 1
        host.send("first")
        (letter,) = host.until(lambda: escalations(host))
        assert "internal error: ZeroDivisionError" in str(letter["body"])
        assert host.replies() == []
        host.send("second")
        host.until_count(host.replies, 2)
        assert host.replies() == ["first answer", "second answer"]


def test_a_letter_that_cannot_be_handled_comes_again(host: SessionHost) -> None:
    host.model.script = [ModelAnswer("here I am")]
    with session_in_threads(host, faults=1):
        letter = host.send("first")
        host.until(lambda: _replies_later(host))
    assert [row["id"] for row in host.of_kind("input") if row.get("id")] == [letter]


@dataclass(slots=True)
class UnreadTasks(SessionServices):
    """Services that find a fault with the first look at a task."""

    asked: queue.SimpleQueue[object] = field(default_factory=queue.SimpleQueue)

    @override
    def ask(self, link: object, operation: str, /, **params: object) -> Message:
        self.asked.put(params["task"])
        if params["task"] == "first":
            raise LookupError
        return {"task": {"state": "done"}}


def test_a_fault_does_not_end_the_judging_of_results(tmp_path: Path) -> None:
    place, command = ToolPlace(tmp_path, "/nowhere", None), RuntimeCommand()
    services = UnreadTasks(NAME, "/nowhere", tmp_path, place, command)
    judge = ResultJudge(services, RuntimePool(command, 0))
    for task in ("first", "second"):
        judge.note(task)
        assert services.asked.get(timeout=60) == task
    services.stop.set()


def test_a_letter_behind_a_turn_that_could_not_be_closed_begins_the_next_turn(
    tmp_path: Path,
) -> None:
    conversation = OpenConversation(tmp_path, "main")
    conversation.add_input({"kind": "mail", "id": "m1", "text": "first"})
    conversation.append({"t": "end", "turn": 1, "status": "error"})
    conversation.note_parking(is_parked=True)
    assert conversation.add_input({"kind": "mail", "id": "m2", "text": "second"})
    conversation.append({"t": "closed", "turn": 1})
    assert [row["text"] for row in conversation.inputs] == ["second"]
    conversation.close()
