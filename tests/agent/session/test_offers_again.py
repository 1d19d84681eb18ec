"""Letters of tasks in every order: each begins a turn of its own, unless its attempt was worked on.

A letter is acknowledged once it is in a log, so one that begins no turn would be lost: the daemon
offers a task once, and waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fixtures.fake_model import Json, ModelAnswer
from fixtures.machines import end_machine, start_machines
from fixtures.session_host import SessionHost, session_host
from fixtures.world import World, rows, world
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from hive_core.agent.reconnect import Link
from hive_core.agent.session.calls import ToolPlace
from hive_core.agent.session.compaction import segment_records
from hive_core.agent.session.conversation import OpenConversation
from hive_core.agent.session.log import ConversationLog
from hive_core.agent.session.records import Record
from hive_core.agent.session.runtimes.builtin import RuntimeCommand
from hive_core.agent.session.services import SessionServices
from hive_core.agent.session.state import ABANDONED, TurnState
from hive_core.agent.session.tasks import SessionTasks
from hive_core.broker.call import Call
from hive_core.broker.call import Record as Outcome
from hive_core.broker.operation import Result
from hive_core.model.work.task import Task, TaskState
from hive_core.operations.tasks.offers import withdraw_offer
from hive_core.operations.tasks.transitions import move_task
from hive_core.varlink import Message

NAME = "task-t"
REPORT: dict[str, object] = {"status": "success", "summary": "ok"}
EVENTS = ("task", "again", "mail", "see", "end", "abandon", "close", "compact", "rewind", "crash")


def task_letter(id_: str, task: str, attempt: int) -> Record:
    return {"kind": "task", "id": id_, "task": task, "attempt": attempt, "text": "Work."}


@dataclass
class Orders:
    """One conversation, and what happens to it. `turns`: the trigger and the status of each."""

    folder: Path
    conversation: OpenConversation = field(init=False)
    letters: dict[str, int] = field(default_factory=dict)  # with their attempts
    turns: list[tuple[str, int, str]] = field(default_factory=list)
    mail: int = 0
    attempt: int = 0

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.conversation = OpenConversation(self.folder, NAME)

    def happen(self, event: str) -> None:
        """Let an event happen, where it can."""
        turn = self.conversation.state.turn
        if event == "crash":
            self.conversation.close()
            self.open()
        elif turn is not None and turn.end is not None:
            if event == "close":
                self.close(turn, str(turn.end["status"]))
        elif event in {"task", "again", "mail"}:
            self.receive(event)
        elif turn is not None:
            self.go_on(event, turn)

    def receive(self, event: str) -> None:
        """A letter comes: about a new attempt, about the same one again, or another."""
        if event == "mail":
            self.mail += 1
            letter: Record = {"kind": "mail", "id": f"m{self.mail}", "text": "Hear."}
        else:
            self.attempt += event == "task" or not self.attempt
            letter = task_letter(f"t{len(self.letters)}", "t", self.attempt)
            self.letters[str(letter["id"])] = self.attempt
        assert self.conversation.add_input(letter)

    def go_on(self, event: str, turn: TurnState) -> None:
        """Take a step of the turn that is open."""
        match event:
            case "see":
                self.conversation.append({
                    "t": "response", "turn": turn.number, "inputs": len(turn.inputs),
                    "sent": ["q"], "message": "a", "calls": [],
                })  # fmt: skip
            case "end" | "abandon":
                status = ABANDONED if event == "abandon" and turn.task else "done"
                self.conversation.append({"t": "end", "turn": turn.number, "status": status})
            case "compact":
                self.conversation.start_segment(
                    lambda state: segment_records(state, turn, "summary")
                )
            case "rewind":
                self.close(turn, "")
            case _:
                pass

    def close(self, turn: TurnState, status: str) -> None:
        """Close a turn, or rewind it where it has no status."""
        self.turns.append((str(turn.trigger["id"]), turn.attempt, status))
        closed: Record = {"t": "closed", "turn": turn.number}
        self.conversation.append(closed if status else {"t": "rewind", "to": 0})

    def rest(self) -> None:
        """Let all turns end."""
        for _ in range(3 * (len(self.letters) + self.mail) + 3):
            self.happen("see")
            self.happen("end")
            self.happen("close")
        assert self.conversation.is_idle
        assert self.conversation.state.waiting == []


@given(st.lists(st.sampled_from(EVENTS), max_size=14))
def test_each_letter_of_a_task_begins_a_turn_or_offers_again_what_was_worked_on(
    events: list[str],
) -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        orders = Orders(Path(folder))
        for event in events:
            orders.happen(event)
        orders.rest()
        orders.conversation.close()
    began = [trigger for trigger, _, _ in orders.turns]
    worked = {attempt for _, attempt, status in orders.turns if status != ABANDONED}
    for letter, attempt in orders.letters.items():
        assert began.count(letter) <= 1
        assert letter in began or attempt in worked


def test_an_input_that_comes_while_a_segment_begins_is_in_it(tmp_path: Path) -> None:
    conversation = OpenConversation(tmp_path, NAME)
    conversation.add_input(task_letter("t1", "t", 1))
    turn = conversation.state.turn
    assert turn is not None
    mail: Record = {"kind": "mail", "id": "m1", "text": "Hear."}
    thread = threading.Thread(target=conversation.add_input, args=(mail,))

    def make(state: object) -> list[Record]:
        assert state is conversation.state
        made = segment_records(conversation.state, turn, "summary")
        thread.start()
        thread.join(0.2)  # it cannot end before the segment is there
        assert thread.is_alive()
        return made

    conversation.start_segment(make)
    thread.join()
    assert [row["id"] for row in conversation.inputs if row["t"] == "input"] == ["t1", "m1"]
    conversation.close()


# The task of a turn, by the broker.


class WorldLink(Link):
    """The calls of the worker, in this process."""

    def __init__(self, made: World) -> None:
        super().__init__("/nowhere")
        self._world = made

    @override
    def ask(self, operation: str, /, **params: object) -> Message:
        return self._world.call("worker", operation, **params)


@pytest.fixture(name="offered")
def _offered(tmp_path: Path) -> Iterator[tuple[World, SessionTasks, str]]:
    """A worker that runs, and a task that it was offered."""
    with world(None, "root/lead:lead", "lead/worker:worker") as made:
        start_machines(made, "worker")
        place = ToolPlace(tmp_path, "/nowhere", None)
        services = SessionServices("worker", "/nowhere", tmp_path, place, RuntimeCommand())
        reply = made.call("lead", "assign_task", agent="worker", description="x", requeue=1)
        yield made, SessionTasks(services, WorldLink(made)), str(reply["task"])


def perform(made: World, task: str, step: Callable[[Call, Task], Task]) -> Task:
    """Let the daemon take a step of a task."""

    def handle(call: Call) -> Outcome[Result]:
        step(call, call.ledger.tasks.require(task))
        return Outcome(Result())

    made.broker.perform("watch", handle)
    made.run()
    return made.ledger.tasks.require(task)


def test_an_attempt_that_was_handed_back_is_begun_again(
    offered: tuple[World, SessionTasks, str],
) -> None:
    """The first call must not be the answer to the second."""
    made, tasks, task = offered
    for _ in range(2):
        assert tasks.take_up(task, 1) == ""
        assert made.ledger.tasks.require(task).state is TaskState.IN_PROGRESS
        row = perform(
            made, task, lambda call, row: move_task(call, row, "hand_back", message="", attempt=0)
        )
        assert (row.offered, row.attempt) == (True, 1)


def test_a_task_that_waits_to_be_offered_again_is_not_worked_on(
    offered: tuple[World, SessionTasks, str],
) -> None:
    """The offer counts as an attempt, so that the number of the attempt is still the same."""
    made, tasks, task = offered
    row = perform(made, task, lambda call, row: withdraw_offer(call, row, "gone", tried=True))
    assert (row.state, row.offered, row.attempt) == (TaskState.QUEUED, False, 1)
    assert "withdrawn" in tasks.take_up(task, 1)
    assert made.ledger.tasks.require(task).state is TaskState.QUEUED


# With a session and a broker.


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[SessionHost]:
    with world(None, "root/lead:lead") as made:
        made.call(
            "operator", "spawn", name="worker", parent="lead", role="worker", runtime="builtin",
            parallel=1,
        )  # fmt: skip
        with session_host(made, tmp_path) as host:
            host.model.answer = report
            yield host


def report(_number: int, body: Json) -> ModelAnswer:
    if rows(body["messages"])[-1]["role"] == "tool":
        return ModelAnswer("reported")
    return ModelAnswer(calls=[("c", "finish_task", REPORT)])


def take_and_end(host: SessionHost, task: str) -> None:
    """The session has logged the letter of a task, and ends before it has begun the task."""
    (letter,) = rows(host.world.call("worker", "recv", only="work")["messages"])
    with ConversationLog(host.state / "session", f"task-{task}") as log:
        record = task_letter(str(letter["id"]), task, 1)
        log.append({"t": "input", "turn": 1, **record})
    end_machine(host.world, "worker", 137, returns=True)


def test_a_task_that_was_withdrawn_is_begun_when_it_is_offered_again(host: SessionHost) -> None:
    """A more urgent one came first; the number of the attempt is the same again."""
    start_machines(host.world, "worker")
    task = host.assign("First.")
    urgent = host.assign("More urgent.", priority=0)
    take_and_end(host, task)
    start_machines(host.world, "worker")
    assert (host.task(task)["offered"], host.task(urgent)["offered"]) == (False, True)
    host.start()
    for id_ in (urgent, task):
        host.until(lambda id_=id_: host.task(id_)["state"] == "done")  # type: ignore[misc]
    assert [host.task(id_)["attempt"] for id_ in (urgent, task)] == [1, 1]
    host.until(lambda: host.kinds(f"task-{task}").count("closed") == 2)
    assert host.world.mail("worker") == []
    statuses = [row["status"] for row in host.of_kind("end", f"task-{task}")]
    assert statuses == [ABANDONED, "done"]


def test_a_task_that_is_offered_again_at_once_is_worked_on_in_one_turn(host: SessionHost) -> None:
    start_machines(host.world, "worker")
    task = host.assign("First.")
    take_and_end(host, task)
    start_machines(host.world, "worker")
    host.start()
    host.until(lambda: host.task(task)["state"] == "done")
    host.until(lambda: "closed" in host.kinds(f"task-{task}"))
    assert host.task(task)["attempt"] == 1
    assert host.world.mail("worker") == []
    assert len(host.of_kind("end", f"task-{task}")) == 1
