"""A turn that cannot go on: it is escalated, parked, handed back or ended at its limit.

Rows Q24 and Q30, as far as the loop of a session shows them.
"""

from __future__ import annotations

import json
import threading

import pytest
from fixtures.fake_model import ModelAnswer
from fixtures.session_host import SessionHost
from fixtures.world import fields, rows

from hive_core.agent.session.inspection import run_inspection
from hive_core.agent.session.log import ConversationLog
from hive_core.errors import Busy


def test_a_text_with_an_open_task_is_answered_once_and_then_escalated(host: SessionHost) -> None:
    host.model.script = [
        ModelAnswer("I am thinking."), ModelAnswer("Still thinking."),
        ModelAnswer(calls=[("a", "finish_task", {"status": "success", "summary": "ok"})]),
        ModelAnswer("reported"),
    ]  # fmt: skip
    task = host.assign("Think.")
    host.start()
    (letter,) = host.until(lambda: [row for row in host.world.mail("lead")
                                    if row["kind"] == "escalation"])  # fmt: skip
    assert "2 texts without a call" in str(letter["body"])
    assert "Your task is still open" in host.model.bodies[1].decode()
    assert host.task(task)["state"] != "done"
    question = json.loads(str(letter["body"]).partition("\n")[0])["question"]
    host.world.call("lead", "answer", question=question, answers=["finish it now"])
    host.until(lambda: host.task(task)["state"] == "done")
    assert "finish it now" in host.model.bodies[2].decode()


def test_equal_calls_with_equal_results_are_escalated(host: SessionHost) -> None:
    host.model.answer = lambda number, _: ModelAnswer(calls=[(f"c{number}", "list", {})])
    task = host.assign("Look.")
    host.start()
    (letter,) = host.until(lambda: [row for row in host.world.mail("lead")
                                    if row["kind"] == "escalation"])  # fmt: skip
    assert "same call of list 3 times" in str(letter["body"])
    assert len(host.of_kind("result", f"task-{task}")) == 3
    assert len(host.model.bodies) == 3


def test_who_watches_a_turn_sees_that_the_model_gives_no_answer(host: SessionHost) -> None:
    refused = ModelAnswer(status=400, body={"error": {"message": "no such model"}})
    host.model.script = [refused, ModelAnswer("here I am")]
    host.start()
    watching = host.world.ask("lead", "watch_turn", agent="worker", more=True)
    host.send("work")
    assert host.until(host.replies) == ["here I am"]
    text = "".join(str(part["text"]) for page in watching.pages for part in rows(page["parts"]))
    assert "[the model gave no answer: " in text
    assert "no such model" in text


def test_a_used_up_budget_parks_the_turn_until_the_notice(host: SessionHost) -> None:
    body: dict[str, object] = {"error": {"message": "the budget of lead is used up"}}
    host.model.script = [ModelAnswer(status=402, body=body), ModelAnswer("paid")]
    host.start()
    host.send("work")
    (letter,) = host.until(lambda: [row for row in host.world.mail("lead")
                                    if row["kind"] == "escalation"])  # fmt: skip
    assert "the budget of lead is used up" in str(letter["body"])
    assert host.replies() == []
    host.send("are you there?")
    host.until(lambda: len(host.of_kind("input")) == 3)
    assert len(host.model.bodies) == 1
    host.notify("budget", "the budget of lead has room again")
    assert host.until(host.replies) == ["paid"]


def test_a_task_whose_budget_is_used_up_ends_with_the_report_of_its_last_call(
    host: SessionHost,
) -> None:
    body: dict[str, object] = {"error": {"message": "the budget of the task is used up"}}
    host.model.script = [
        ModelAnswer("looking", calls=[("a", "list", {})]), ModelAnswer(status=402, body=body),
        ModelAnswer("half of it is done"),
    ]  # fmt: skip
    task = host.assign("Count.")
    host.start()
    host.until(lambda: host.task(task)["state"] == "done")
    name = f"task-{task}"
    host.until(lambda: "closed" in host.kinds(name))
    result = host.task(task)["result"]
    assert isinstance(result, dict)
    assert (result["status"], result["summary"]) == ("partial", "half of it is done")
    assert [row["x-hive-task"] for row in host.model.headers] == [task] * 3
    assert ["x-hive-hand-back" in row for row in host.model.headers] == [False, False, True]
    last = host.model.requests()[2]
    assert last["tool_choice"] == "none"
    assert f"The budget of this task ({task}) is used up" in json.dumps(last)
    (end,) = host.of_kind("end", name)
    assert (end["status"], end["error"]) == ("limit", "the budget of the task is used up")
    assert host.replies() == []


def test_a_task_parks_where_no_call_beyond_the_budget_passes(host: SessionHost) -> None:
    body: dict[str, object] = {"error": {"message": "the budget of lead is used up"}}
    refused = ModelAnswer(status=402, body=body)
    report = {"status": "success", "summary": "ok"}
    host.model.script = [
        refused, refused, ModelAnswer(calls=[("a", "finish_task", report)]),
    ]  # fmt: skip
    task = host.assign("Count.")
    host.start()
    host.until(lambda: [row for row in host.world.mail("lead") if row["kind"] == "escalation"])
    assert len(host.model.bodies) == 2
    assert host.task(task)["state"] != "done"
    host.notify("budget", "the budget of lead has room again")
    host.until(lambda: host.task(task)["state"] == "done")
    assert "x-hive-hand-back" not in host.model.headers[2]


@pytest.mark.parametrize("calls", [[], [{"id": "b", "name": "list", "arguments": {}}]])
def test_a_last_call_whose_answer_is_on_disk_is_not_asked_for_again(
    host: SessionHost, calls: list[object]
) -> None:
    """The answer was logged, and the session was killed before the end of the turn."""
    held = threading.Event()
    host.model.script = [ModelAnswer(status=402), ModelAnswer("never read", held=held)]
    task = host.assign("Count.")
    host.start()
    name = f"task-{task}"
    host.until(lambda: len(host.model.bodies) == 2)
    host.kill()
    held.set()
    log = ConversationLog(host.state / "session", name)
    log.append({
        "t": "response", "turn": 1, "sent": [], "inputs": 2, "message": "{}", "calls": calls,
        "text": "half of it", "tokens": 10, "last": True,
    })  # fmt: skip
    log.close()
    host.start()
    host.until(lambda: "closed" in host.kinds(name))
    assert len(host.model.bodies) == 2
    (end,) = host.of_kind("end", name)
    assert (end["status"], end["text"]) == ("limit", "half of it")
    result = host.task(task)["result"]
    assert isinstance(result, dict)
    assert (result["status"], result["summary"]) == ("partial", "half of it")


def test_three_failures_of_the_provider_are_escalated_and_a_rate_is_waited_for(
    host: SessionHost,
) -> None:
    host.model.script = [
        ModelAnswer(status=429, headers={"retry-after": "1"}), *[ModelAnswer(status=503)] * 3,
        ModelAnswer("back"),
    ]  # fmt: skip
    host.start()
    host.send("work")
    host.until(lambda: [row for row in host.world.mail("lead") if row["kind"] == "escalation"])
    assert len(host.model.bodies) == 4
    host.send("try again")
    assert host.until(host.replies) == ["back"]


def test_a_turn_at_its_limit_reports_what_it_has(host: SessionHost) -> None:
    host.model.answer = lambda number, _: ModelAnswer(
        f"step {number}", calls=[(f"c{number}", "list_agents", {})]
    )
    task = host.assign("Go on for ever.")
    host.start()
    host.until(lambda: host.task(task)["state"] == "done")
    result = host.task(task)["result"]
    assert isinstance(result, dict)
    assert (result["status"], result["summary"]) == ("partial", "step 15")
    assert len(host.model.bodies) == 16
    assert "has used its rounds" in host.model.bodies[15].decode()


def test_a_notice_of_the_budget_before_the_turn_is_parked_is_not_lost(host: SessionHost) -> None:
    held = threading.Event()
    host.model.script = [ModelAnswer(status=402, held=held), ModelAnswer("paid")]
    host.start()
    host.send("work")
    host.until(lambda: len(host.model.bodies) == 1)
    host.notify("budget", "the budget of lead has room again")
    host.until(lambda: not [row for row in host.world.mail("worker") if row["kind"] == "budget"])
    held.set()
    assert host.until(host.replies) == ["paid"]


def test_a_letter_before_the_turn_is_parked_is_not_left_for_the_next_one(
    host: SessionHost,
) -> None:
    held = threading.Event()
    host.model.script = [
        *[ModelAnswer(status=503)] * 2, ModelAnswer(status=503, held=held), ModelAnswer("back"),
    ]  # fmt: skip
    host.start()
    host.send("work")
    host.until(lambda: len(host.model.bodies) == 3)
    host.send("try again")
    host.until(lambda: len(host.of_kind("input")) == 3)
    held.set()
    assert host.until(host.replies) == ["back"]


def test_a_turn_that_waits_after_failures_is_rewound_and_the_next_letter_goes_on(
    host: SessionHost,
) -> None:
    host.model.answer = lambda _number, body: (
        ModelAnswer("aye") if "letter-one" in json.dumps(body) else ModelAnswer(status=503)
    )
    host.start()
    host.send("letter-one")
    host.until(lambda: host.replies() == ["aye"])
    host.model.answer = lambda _number, _body: ModelAnswer(status=503)
    host.send("letter-two")
    host.until(lambda: any(row["kind"] == "escalation" for row in host.world.mail("lead")))
    host.until(lambda: has_rewound(host))
    host.model.answer = lambda _number, _body: ModelAnswer("three it is")
    host.send("three")
    host.until(lambda: "three it is" in host.replies())
    body = host.model.bodies[-1].decode()
    assert "letter-one" in body
    assert "letter-two" not in body
    reports = [fields(row)["blocked"] for row in host.events("report_activity")]
    assert reports == [True, False]
    host.kill()


def has_rewound(host: SessionHost) -> bool:
    """Rewind the conversation, once its turn waits."""
    try:
        run_inspection(host.state / "session", ["rewind", "--turn", "1"])
    except Busy:
        return False
    return True
