"""Questions, escalations and reminders through real sockets and real containers, with the daemon
killed in between: H11, H21, K16, K28, Q27, Q28, Q29, Q31, T5."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.hivehost import HiveHost
from e2e.kills import tell_with_kills
from e2e.shared_hosts import LEAD, SharedHost

pytestmark = pytest.mark.lab

TREE: dict[str, str | None] = {
    "root": None, "lead": "root", "wrk": "lead", "tom": "wrk", "side": "root",
}  # fmt: skip


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("mail", agents=LEAD)
    made.grow(side={"role": "lead"})
    made.grow(wrk={"parent": "lead", "role": "worker"})
    made.grow(tom={"parent": "wrk", "role": "task"})
    return made


@pytest.fixture(autouse=True)
def tidy(host: HiveHost) -> Iterator[None]:
    yield
    for question in host.call("ListQuestions", which="subtree")["questions"]:
        host.call("CancelQuestion", question=question["id"])
    host.prune(TREE)
    for name in TREE:
        host.mail(name)
    if messages := host.call("ListMessages", limit=100)["messages"]:
        host.call("Ack", ids=[message["id"] for message in messages])


def ask(host: HiveHost, agent: str, *prompts: str, **more: object) -> str:
    items = [{"prompt": prompt} for prompt in prompts]
    return str(host.ask(agent, "Ask", items=items, **more)["question"])


def letters(host: HiveHost, agent: str, kind: str) -> list[dict[str, Any]]:
    """First lines of all mail of a kind; the other mail is gone with it."""
    bodies = (message["body"] for message in host.mail(agent) if message["kind"] == kind)
    return [json.loads(body.partition("\n")[0]) for body in bodies]


def row(host: HiveHost, question: str) -> dict[str, Any]:
    result: dict[str, Any] = host.call("GetQuestion", question=question)["question"]
    return result


def test_what_is_asked_outlives_kills_of_the_daemon(host: HiveHost) -> None:
    """Q27-Q29, Q31, K16, K28, T5: questions, escalations and reminders, each to its end."""
    tell_with_kills(
        host, _questions_are_answered_separately(host), _a_task_waits_for_an_answer(host),
        _a_relayed_question_is_answered(host), _an_escalation_climbs_to_the_operator(host),
        _reminders_reach_stopped_and_sleeping_agents(host),
        _the_default_answer_applies_at_the_deadline(host),
    )  # fmt: skip


def _questions_are_answered_separately(host: HiveHost) -> Iterator[None]:
    """Nothing is held open, in any order, once."""
    first, second = ask(host, "wrk", "Red?"), ask(host, "wrk", "Big?", "Round?")
    yield
    asked = [letter["question"] for letter in waiting(host, "lead")]
    assert [id_ for id_ in asked if id_ in (first, second)] == [first, second]
    assert not host.ask("lead", "Answer", question=second, answers=["yes", "no"]).error
    yield
    assert not host.ask("lead", "Answer", question=first, answers=["green"]).error
    late = host.ask("lead", "Answer", question=first, answers=["blue"])
    assert (late.error, late.parameters["answers"]) == ("Conflict", ["green"])
    got = [(letter["question"], letter["answers"]) for letter in letters(host, "wrk", "answer")]
    assert got == [(second, ["yes", "no"]), (first, ["green"])]


def _a_task_waits_for_an_answer(host: HiveHost) -> Iterator[None]:
    """What needs input pauses, and goes on with the answer."""
    host.grow(pal={"parent": "lead", "role": "worker"})
    task = host.ask("lead", "AssignTask", agent="pal", description="paint")["task"]
    assert [message["kind"] for message in host.mail("pal")] == ["task"]
    question = ask(host, "pal", "Which colour?", task=task)
    assert host.call("GetTask", task=task)["task"]["state"] == "awaiting_more_information"
    yield
    assert host.call("GetTask", task=task)["task"]["state"] == "awaiting_more_information"
    host.ask("lead", "Answer", question=question, answers=["green"])
    assert host.call("GetTask", task=task)["task"]["state"] == "in_progress"
    assert letters(host, "pal", "answer")[0]["task"] == task
    host.ask("pal", "FinishTask", task=task, status="success", summary="done")


def _a_relayed_question_is_answered(host: HiveHost) -> Iterator[None]:
    """The operator's answer reaches who asked by the daemon, though who relayed is destroyed."""
    host.grow(mid={"parent": "lead", "role": "lead"})
    host.grow(low={"parent": "mid", "role": "worker"})
    question = ask(host, "low", "May I?")
    assert host.ask("mid", "RelayQuestion", question=question)["to"] == "lead"
    assert host.ask("lead", "RelayQuestion", question=question, to="operator")["to"] == "operator"
    host.close_connections("mid")
    host.call("Destroy", agent="mid", wait=20)
    yield
    shown = host.hive("question", "show", question)
    assert "(relayed, from lead)" in shown
    host.hive("question", "answer", question, "you may")
    assert host.run("hive", "question", "answer", question, "no", check=False).returncode == 1
    (got,) = letters(host, "low", "answer")
    assert (got["by"], got["answers"]) == ("operator", ["you may"])


def _an_escalation_climbs_to_the_operator(host: HiveHost) -> Iterator[None]:
    """To the parent first, with severity and context; upwards without an answer."""
    sent = host.ask("tom", "Escalate", issue="disk full", severity="critical", context="df: 100%")
    assert sent["to"] == "wrk"
    (letter,) = letters(host, "wrk", "escalation")
    assert (letter["from"], letter["severity"]) == ("tom", "critical")
    yield
    host.until(lambda: row(host, sent["escalation"])["to"] == "operator", "it climbs", 30)
    assert any("> df: 100%" in message["body"] for message in host.mail("root"))
    (waiting,) = (item for item in host.json("todo") if item["kind"] == "escalation")
    assert waiting["id"] == sent["escalation"]
    assert waiting["settle"] == f"hive question answer {sent['escalation']} TEXT"
    assert [row["id"] for row in host.json("escalations")] == [sent["escalation"]]
    host.hive("question", "answer", sent["escalation"], "rm the logs")
    (got,) = letters(host, "tom", "answer")
    assert got["answers"] == ["rm the logs"]
    hops = [event for event in host.own_events()
            if event["kind"] == "escalation" and event["operation"] == "climbed"]  # fmt: skip
    assert [hop["target"] for hop in hops] == ["lead", "root", "operator"]


def _reminders_reach_stopped_and_sleeping_agents(host: HiveHost) -> Iterator[None]:
    """Mail waits for a stopped agent, and wakes a sleeping one that mail may wake."""
    host.grow(nap={"parent": "lead", "wakes": True})
    host.call("Stop", agent="side", wait=20)
    host.call("Sleep", agent="nap", wait=20)
    host.wait("sleeping", "nap")
    for name in ("side", "nap"):
        assert not host.call("Remind", to=name, body="up", **{"in": 1.5}).error
    host.close_connections("side", "nap")
    yield
    host.wait("running", "nap")
    assert row_of(host, "side") == "stopped"
    waiting = [message for message in host.json("inbox", "side") if message["kind"] == "reminder"]
    assert len(waiting) == 1
    host.call("Start", agent="side", wait=20)
    assert len(letters(host, "side", "reminder")) == 1
    assert len(letters(host, "nap", "reminder")) == 1


def _the_default_answer_applies_at_the_deadline(host: HiveHost) -> Iterator[float]:
    """Q28: without a daemon too; it is reported, and the cap is a typed overflow."""
    host.grow(keen={"parent": "lead", "role": "worker"})
    items = [{"prompt": "Go?", "options": ["yes", "no"], "default": "no"}]
    question = host.ask("keen", "Ask", items=items, deadline=3)["question"]
    ask(host, "keen", "2")
    ask(host, "keen", "3")
    full = host.ask("keen", "Ask", items=[{"prompt": "4"}])
    assert (full.error, full.parameters["rule"]) == ("LimitReached", "talk.open")
    listed = host.ask("lead", "ListWorkerQuestions")["questions"]
    assert len([row for row in listed if row["asker"] == "keen"]) == 3
    yield 3
    host.until(lambda: row(host, question)["state"] == "defaulted", "the default")
    (got,) = letters(host, "keen", "answer")
    assert (got["state"], got["answers"]) == ("defaulted", ["no"])
    ended = {letter["question"]: letter["state"] for letter in waiting(host, "lead")
             if "state" in letter}  # fmt: skip
    assert ended == {question: "defaulted"}


def waiting(host: HiveHost, agent: str) -> list[dict[str, Any]]:
    """First lines of what waits in an inbox about questions; it stays there."""
    rows = host.ask(agent, "ListMessages", limit=100)["messages"]
    kinds = ("question", "question_ended")
    return [json.loads(row["body"].partition("\n")[0]) for row in rows if row["kind"] in kinds]


def test_an_ancestor_lists_and_ends_questions_and_reminders_of_descendants(
    host: HiveHost,
) -> None:
    """H11."""
    question = ask(host, "tom", "Why?")
    reminder = host.ask("tom", "Remind", body="look", **{"in": 600})["reminder"]
    assert host.ask("side", "CancelQuestion", question=question).error == "NotFound"
    assert host.ask("side", "CancelReminder", reminder=reminder).error == "NotFound"
    assert not host.ask("lead", "CancelQuestion", question=question, why="off topic").error
    assert not host.ask("lead", "CancelReminder", reminder=reminder).error
    (got,) = letters(host, "tom", "answer")
    assert (got["state"], got["by"]) == ("cancelled", "lead")
    assert host.ask("tom", "ListReminders")["reminders"] == []


def test_a_task_agent_asks_only_its_parent(host: HiveHost) -> None:
    assert host.ask("tom", "Ask", items=[{"prompt": "x"}], to="lead").error == "NotAllowed"
    assert host.ask("tom", "Ask", items=[{"prompt": "x"}], to="operator")["to"] == "wrk"


def row_of(host: HiveHost, agent: str) -> str:
    (agent_row,) = (
        agent_row for agent_row in host.call("ListAgents")["agents"] if agent_row["name"] == agent
    )
    return str(agent_row["state"])


def test_a_restarted_agent_reads_its_open_questions_and_waits(host: HiveHost) -> None:
    """H21: for itself and those below, by the command in the container."""
    task = host.ask("lead", "AssignTask", agent="wrk", description="sweep")["task"]
    question = ask(host, "tom", "Where?")
    host.close_connections("lead")
    host.call("Restart", agent="lead", wait=20)
    host.wait("running", "lead")
    ends = json.loads(host.inside("lead", "hive-agent", "loose-ends"))["ends"]
    known = {(end["agent"], end["kind"], end["id"]) for end in ends}
    assert {
        ("lead", "task_given", task), ("wrk", "task", task),
        ("wrk", "question_to_answer", question), ("tom", "question_asked", question),
    } <= known  # fmt: skip
    assert not {end["agent"] for end in ends} & {"root", "side"}
    assert host.ask("tom", "LooseEnds", agent="wrk").error == "NotAllowed"
    host.ask("lead", "CancelTask", task=task)
    host.ask("wrk", "FinishTask", task=task, status="stopped", summary="")


def test_an_agent_asks_with_hive_agent_and_the_operator_answers(
    host: HiveHost,
) -> None:
    """Q31, wish 16: a program in a container needs no more than `hive-agent`."""
    item = json.dumps({"prompt": "Red?", "options": ["yes", "no"]})
    said = host.inside("wrk", "hive-agent", "ask", item, "And why?")
    question = json.loads(said)["question"]
    command = ["hive", "wait", "--for", f"question.answered={question}", "--timeout", "30"]
    waiting = host.lab.popen(command, stdout=subprocess.PIPE)
    host.inside("lead", "hive-agent", "answer", question, "no", "it is late")
    out, _ = waiting.communicate(timeout=30)
    assert (waiting.returncode, out) == (0, f"{question} answered no it is late\n")
    again = ask(host, "wrk", "x")
    host.fails(124, "wait", "--for", f"question.answered={again}", "--timeout", "0.3")


def test_any_program_answers_questions_on_its_standard_output(host: HiveHost) -> None:
    """A lead that is a shell script: what it prints is the answer, silence passes it on."""
    brain = (
        'if grep -q Red; then echo blue; else hive-agent relay-question "$HIVE_QUESTION" >&2; fi'
    )
    command = ["hive-agent", "serve", "--", "sh", "-c", brain]
    host.grow(brain={"parent": "lead", "role": "lead", "command": command})
    host.grow(kid={"parent": "brain", "role": "worker"})
    red, other = ask(host, "kid", "Red?"), ask(host, "kid", "Which?")
    host.until(lambda: row(host, red)["state"] == "answered", "answered")
    host.until(lambda: row(host, other)["to"] == "lead", "passed on")
    (got,) = letters(host, "kid", "answer")
    assert (got["by"], got["answers"]) == ("brain", ["blue"])


def test_an_event_can_be_waited_for(host: HiveHost) -> None:
    command = ["hive", "wait", "--for", "event.question", "--timeout", "30"]
    waiting = host.lab.popen(command, stdout=subprocess.PIPE)
    asked = []
    while waiting.poll() is None:  # whenever it has begun to wait
        asked.append(ask(host, "side", "x"))
        host.ask("side", "CancelQuestion", question=asked[-1])
    out, _ = waiting.communicate(timeout=30)
    assert waiting.returncode == 0
    assert json.loads(out)["fields"]["question"] in asked
