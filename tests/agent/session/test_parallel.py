"""Several turns of one session at once (`parallel`): each task has its conversation and mail."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.fake_model import Json, ModelAnswer
from fixtures.session_host import SessionHost, session_host
from fixtures.world import rows, world

REPORT: dict[str, object] = {"status": "success", "summary": "ok"}


class TwoTasks:
    """What the model does with task `left` and with task `right`."""

    def __init__(self, host: SessionHost) -> None:
        self.host = host
        self.names: dict[str, str] = {}  # of tasks
        self.open = {"left": threading.Event(), "right": threading.Event()}
        self.seen: Counter[str] = Counter()
        self.commands = {name: f"echo {name} >> runs.txt" for name in self.open}

    def assign(self, name: str) -> str:
        task = self.host.assign(f"Do the {name} one.")
        self.names[task] = name
        return task

    def name_of(self, number: int) -> str:
        """The task that a request is for; empty: none."""
        return self.names.get(self.host.model.headers[number].get("x-hive-task", ""), "")

    def answer(self, number: int, body: Json) -> ModelAnswer:
        """A command, then the report, which waits until the test opens it."""
        name = self.name_of(number)
        self.seen[name] += 1
        if not name:
            return ModelAnswer("chatting")
        if not any(row["role"] == "tool" for row in rows(body["messages"])):
            return ModelAnswer(calls=[(f"{name}1", "bash", {"command": self.commands[name]})])
        return ModelAnswer(calls=[(f"{name}2", "finish_task", REPORT)], held=self.open[name])

    def let_go(self) -> None:
        for event in self.open.values():
            event.set()


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[SessionHost]:
    with world(None, "root/lead:lead") as made:
        made.call("operator", "spawn", name="worker", parent="lead", role="worker", parallel=2)
        with session_host(made, tmp_path) as host:
            yield host


@pytest.fixture(name="model")
def _model(host: SessionHost) -> Iterator[TwoTasks]:
    model = TwoTasks(host)
    host.model.answer = model.answer
    yield model
    model.let_go()


def begin_both(host: SessionHost, model: TwoTasks) -> tuple[str, str]:
    """The ids of two tasks whose commands have run, and whose reports are under way."""
    left, right = model.assign("left"), model.assign("right")
    host.start()
    host.until(lambda: len(host.model.bodies) == 4)
    return left, right


def inputs(host: SessionHost, name: str) -> str:
    """The texts that a conversation was given."""
    return "\n".join(str(row["text"]) for row in host.of_kind("input", name))


def runs(host: SessionHost) -> Counter[str]:
    file = host.workspace / "runs.txt"
    return Counter(file.read_text().split() if file.exists() else [])


def is_closed(host: SessionHost, *tasks: str) -> bool:
    return all("closed" in host.kinds(f"task-{task}") for task in tasks)


def test_two_tasks_run_at_once_and_a_third_waits_for_room(
    host: SessionHost, model: TwoTasks
) -> None:
    left, right = begin_both(host, model)
    assert len(host.runtimes()) == 2
    assert {host.task(task)["state"] for task in (left, right)} == {"in_progress"}
    third = model.assign("right")
    host.until(lambda: not host.world.mail("worker"))
    assert host.task(third)["state"] == "queued"
    model.open["right"].set()
    host.until(lambda: host.task(third)["state"] == "done")
    assert [host.task(task)["state"] for task in (left, right)] == ["in_progress", "done"]
    model.open["left"].set()
    host.until(lambda: host.task(left)["state"] == "done")
    host.until(lambda: is_closed(host, left, right, third))
    assert runs(host) == {"left": 1, "right": 2}
    assert host.kinds() == []


def test_mail_beside_two_tasks_goes_to_main_and_waits_for_room(
    host: SessionHost, model: TwoTasks
) -> None:
    """Nothing says which of the two it is about, and a third turn has no room."""
    left, right = begin_both(host, model)
    host.send("how is it?")
    host.until(lambda: host.of_kind("input"))
    assert host.replies() == []
    model.open["left"].set()
    assert host.until(host.replies) == ["chatting"]
    assert host.task(right)["state"] == "in_progress"
    model.let_go()
    host.until(lambda: is_closed(host, left, right))
    assert "how is it?" not in inputs(host, f"task-{left}") + inputs(host, f"task-{right}")


def test_an_injected_message_goes_to_the_turn_of_its_task(
    host: SessionHost, model: TwoTasks
) -> None:
    left, right = begin_both(host, model)
    call = host.world.call
    assert call("lead", "inject_message", task=right, body="Only the green ones.")["task"] == right
    # The same words as a message of any other agent name no task.
    call("lead", "send", to="worker", kind="inject", body="task: none of both")
    host.until(lambda: "green ones" in inputs(host, f"task-{right}"))
    host.until(lambda: "none of both" in inputs(host, "main"))
    model.let_go()
    host.until(lambda: is_closed(host, left, right))
    everywhere = inputs(host, f"task-{left}") + inputs(host, "main")
    assert "green ones" not in everywhere


def test_a_kill_with_two_open_turns_loses_neither(host: SessionHost, model: TwoTasks) -> None:
    model.commands["right"] += "; sleep 600"
    left, right = model.assign("left"), model.assign("right")
    host.start()
    host.until(lambda: runs(host) == {"left": 1, "right": 1} and model.seen["left"] == 2)
    host.kill()
    model.let_go()
    host.start()
    host.until(lambda: is_closed(host, left, right))
    assert [host.task(task)["state"] for task in (left, right)] == ["done", "done"]
    assert [host.task(task)["attempt"] for task in (left, right)] == [1, 1]
    assert runs(host) == {"left": 1, "right": 1}
    (result, _) = host.of_kind("result", f"task-{right}")
    assert "effect is unknown" in str(result["content"])
    ends = [row for row in host.events("finish_task") if row["allowed"] is not False]
    assert len(ends) == 2


def test_the_stop_of_one_task_leaves_the_other_running(host: SessionHost, model: TwoTasks) -> None:
    model.commands["right"] += "; sleep 600"
    left, right = model.assign("left"), model.assign("right")
    host.start()
    host.until(lambda: runs(host) == {"left": 1, "right": 1} and model.seen["left"] == 2)
    host.world.call("lead", "cancel_task", task=right, reason="not needed")
    host.until(lambda: host.task(right)["state"] == "cancelled")
    host.until(lambda: is_closed(host, right))
    assert not is_closed(host, left)
    model.let_go()
    host.until(lambda: host.task(left)["state"] == "done")
    assert model.seen == {"left": 2, "right": 1}


def test_a_task_that_waits_is_cancelled_while_there_is_no_room(
    host: SessionHost, model: TwoTasks
) -> None:
    """Another task and a letter have all of it, and go on: their machine is not started anew."""
    busy = model.open["right"]
    answers = {
        "left": ModelAnswer("thinking"), "": ModelAnswer("chatting", held=busy),
        "right": ModelAnswer(calls=[("r", "finish_task", REPORT)], held=busy),
    }  # fmt: skip
    host.model.answer = lambda number, _: answers[model.name_of(number)]
    host.start()
    host.send("how is it?")
    host.until(lambda: len(host.model.bodies) == 1)
    left = model.assign("left")
    host.until(lambda: host.of_kind("park", f"task-{left}"))
    right, third = model.assign("right"), model.assign("right")
    host.until(lambda: len(host.model.bodies) == 4)
    assert not host.task(third)["offered"]
    host.world.call("lead", "cancel_task", task=left, reason="not needed")
    host.until(lambda: host.task(left)["state"] == "cancelled" and is_closed(host, left))
    assert host.events("forced") == []
    assert host.task(third)["offered"]
    assert host.replies() == []
    model.let_go()
    host.until(lambda: is_closed(host, right, third))
    assert [host.task(task)["state"] for task in (right, third)] == ["done", "done"]
    assert host.until(host.replies) == ["chatting"]


def test_a_paused_task_goes_on_beside_a_running_one(host: SessionHost, model: TwoTasks) -> None:
    """The answer that it waits for goes into its conversation, whatever runs beside it."""

    def ask_first(number: int, body: Json) -> ModelAnswer:
        if model.name_of(number) != "right" or "Use blue" in json.dumps(body["messages"]):
            return model.answer(number, body)
        if any(row["role"] == "tool" for row in rows(body["messages"])):
            return ModelAnswer("I wait.")
        return ModelAnswer(calls=[("q", "ask", {"items": ["Which colour?"], "task": right})])

    host.model.answer = ask_first
    right = model.assign("right")
    name = f"task-{right}"
    host.start()
    host.until(lambda: is_closed(host, right))
    left = model.assign("left")
    host.until(lambda: model.seen["left"] == 2)
    (letter,) = [row for row in host.world.mail("lead") if row["kind"] == "question"]
    question = json.loads(str(letter["body"]).partition("\n")[0])["question"]
    host.world.call("lead", "answer", question=question, answers=["Use blue"])
    host.until(lambda: "Use blue" in inputs(host, name))
    model.open["right"].set()
    host.until(lambda: host.task(right)["state"] == "done")
    assert host.task(left)["state"] == "in_progress"
    assert "Use blue" not in json.dumps(host.records(f"task-{left}"))
    model.let_go()
    host.until(lambda: host.task(left)["state"] == "done")
    assert host.kinds() == []
