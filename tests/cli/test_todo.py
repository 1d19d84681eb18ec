"""hive todo, and hive wait for what ends or happens."""

from __future__ import annotations

import json
from collections.abc import Iterator

from cli.run import Hive
from each import for_each

from hive_core.cli.core.units import format_duration
from hive_core.cli.host.todo import SETTLED_BY
from hive_core.cli.main import COMMANDS
from hive_core.operations.host.todo import KINDS
from hive_core.varlink import Message

ROWS: list[object] = [
    {"kind": "question", "id": "q1", "agent": "carl", "text": "Red?", "since": 1.0, "due": None},
    {"kind": "parked", "id": "bob", "agent": "bob", "text": "bob is parked", "since": None,
     "due": None},
    {"kind": "dead_letters", "id": "operator", "agent": "operator", "text": "3", "since": None,
     "due": None},
]  # fmt: skip


def test_each_row_has_the_command_that_settles_it(hive: Hive) -> None:
    hive.peer.answers["Todo"] = lambda _: {"todo": ROWS, "more": 0}
    document = json.loads(hive("todo", "-o", "json").out)
    assert [item["settle"] for item in document] == [
        "hive question answer q1 TEXT...", "hive logs bob; hive start bob",
        "hive inbox --dead; hive inbox clear --dead",
    ]  # fmt: skip
    shown = hive("todo")
    assert (shown.status, shown.err) == (0, "")
    assert "hive question answer q1" in shown.out
    assert hive("todo", "-o", "name").out.split() == ["q1", "bob", "operator"]


def test_an_empty_list_and_a_truncated_list_say_so(hive: Hive) -> None:
    hive.peer.answers["Todo"] = lambda _: {"todo": [], "more": 0}
    assert hive("todo").err == "nothing waits for you\n"
    assert hive("todo", "-o", "json").out == "[]\n"
    hive.peer.answers["Todo"] = lambda _: {"todo": ROWS, "more": 7}
    assert hive("todo").err == "and 7 more\n"


@for_each("kind", KINDS)
def test_every_kind_is_settled_by_an_existing_command(kind: str) -> None:
    for text in SETTLED_BY[kind].split("; "):
        program, name, *_ = text.split()
        assert program == "hive"
        assert name in COMMANDS


@for_each(
    "seconds, text",
    [(0, "0s"), (59, "59s"), (90, "1m30s"), (7200, "2h"), (200_000, "2d7h")],
)
def test_ages_have_a_short_form(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_wait_for_a_task_shows_its_end(hive: Hive) -> None:
    row = {"task": "t1", "state": "done", "status": "success", "summary": "all swept"}
    answers = iter([{"tasks": [row], "done": False}, {"tasks": [row], "done": True}])
    hive.peer.answers["WaitTasks"] = lambda _: next(answers)
    done = hive("wait", "--for", "task.done=t1")
    assert (done.status, done.out) == (0, "t1 success all swept\n")
    assert len(hive.peer.params_of("WaitTasks")) == 2


def test_wait_for_a_question_shows_its_answers(hive: Hive) -> None:
    def question_page(state: str, *answers: str) -> Message:
        return {"question": {"id": "q1", "state": state}, "items": [{"answer": a} for a in answers]}

    pages = iter([question_page("open"), question_page("answered", "green", "big")])
    hive.peer.answers["GetQuestion"] = lambda _: next(pages)
    done = hive("wait", "--for", "question.answered=q1", "--timeout", "60")
    assert (done.status, done.out) == (0, "q1 answered green big\n")


def test_an_unanswered_question_exits_with_124(hive: Hive) -> None:
    hive.peer.answers["GetQuestion"] = lambda _: {"question": {"state": "open"}, "items": []}
    done = hive("wait", "--for", "question.answered=q1", "--timeout", "0.05")
    assert done.status == 124
    assert "question.answered=q1" in done.err


def test_wait_for_the_state_of_an_agent(hive: Hive) -> None:
    rows = [{"name": "bob", "state": "stopped"}]
    hive.peer.answers["WaitAgents"] = lambda _: {"agents": rows, "done": True}
    done = hive("wait", "--for", "agent.state=bob:stopped,failed")
    assert (done.status, done.out) == (0, "bob stopped\n")
    asked = hive.peer.params_of("WaitAgents")[0]
    assert (asked["agents"], asked["states"]) == (["bob"], ["stopped", "failed"])
    assert hive("wait", "--for", "agent.state=bob").status == 2
    assert hive("wait", "--for", "agent.state=bob:happy").status == 2


def event(seq: int, kind: str) -> Message:
    return {"seq": seq, "kind": kind}


def test_wait_for_an_event_takes_the_next_of_its_kind(hive: Hive) -> None:
    pages: Iterator[list[Message]] = iter([
        [{"events": [event(8, "record"), event(9, "question")], "next": "9"}],
        [{"events": [event(10, "record")], "next": "10"}],
        [{"events": [event(11, "question"), event(12, "question")], "next": "12"}],
    ])  # fmt: skip
    hive.peer.answers["ListEvents"] = lambda params: (
        {"events": [event(7, "question")], "next": None} if "last" in params else next(pages)
    )
    done = hive("wait", "--for", "event.escalation", "--timeout", "0")
    assert done.status == 124
    done = hive("wait", "--for", "event.question", "--timeout", "30")
    assert json.loads(done.out) == event(9, "question")
    done = hive("wait", "--for", "event.question", "--timeout", "30")
    assert json.loads(done.out) == event(11, "question")
    calls = hive.peer.params_of("ListEvents")
    assert [call.get("after") for call in calls if "after" in call] == ["7", "7", "10"]


def test_a_missing_event_exits_with_124(hive: Hive) -> None:
    hive.peer.answers["ListEvents"] = lambda params: (
        {"events": [], "next": None} if "last" in params else []
    )
    done = hive("wait", "--for", "event.question", "--timeout", "0.2")
    assert done.status == 124


@for_each("wanted", ["task.done", "nothing=1", "happy", "question.answered"])
def test_an_unsupported_wait_is_wrong_usage(hive: Hive, wanted: str) -> None:
    done = hive("wait", "bob", "--for", wanted)
    assert done.status == 2
    assert "event.KIND" in done.err
