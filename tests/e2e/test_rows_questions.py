"""Questions, escalations and reminders through real sockets and real containers, with the daemon
killed in between: H11, H21, K16, K28, Q27, Q28, Q29, Q31, T5."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.hivehost import HiveHost
from e2e.shared_hosts import SharedHost

pytestmark = pytest.mark.lab

TREE: dict[str, str | None] = {
    "root": None, "lead": "root", "wrk": "lead", "tom": "wrk", "side": "root",
}  # fmt: skip


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("mail")
    made.grow(lead={"role": "lead"}, side={"role": "lead"})
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


def test_questions_survive_the_daemon_and_are_answered_separately(host: HiveHost) -> None:
    """Q31, Q27: nothing is held open, in any order, once."""
    first, second = ask(host, "wrk", "Red?"), ask(host, "wrk", "Big?", "Round?")
    host.kill()
    assert [letter["question"] for letter in letters(host, "lead", "question")] == [first, second]
    assert not host.ask("lead", "Answer", question=second, answers=["yes", "no"]).error
    host.kill()
    assert not host.ask("lead", "Answer", question=first, answers=["green"]).error
    late = host.ask("lead", "Answer", question=first, answers=["blue"])
    assert (late.error, late.parameters["answers"]) == ("Conflict", ["green"])
    got = [(letter["question"], letter["answers"]) for letter in letters(host, "wrk", "answer")]
    assert got == [(second, ["yes", "no"]), (first, ["green"])]


def test_a_task_waits_for_an_answer_across_a_daemon_crash(host: HiveHost) -> None:
    """T5, K16: needs-input pauses and resumes with the answer."""
    task = host.ask("lead", "AssignTask", agent="wrk", description="paint")["task"]
    assert [message["kind"] for message in host.mail("wrk")] == ["task"]
    question = ask(host, "wrk", "Which colour?", task=task)
    assert host.call("GetTask", task=task)["task"]["state"] == "awaiting_more_information"
    host.kill()
    assert host.call("GetTask", task=task)["task"]["state"] == "awaiting_more_information"
    host.ask("lead", "Answer", question=question, answers=["green"])
    assert host.call("GetTask", task=task)["task"]["state"] == "in_progress"
    assert letters(host, "wrk", "answer")[0]["task"] == task
    host.ask("wrk", "FinishTask", task=task, status="success", summary="done")


def test_a_relayed_question_is_answered_although_the_relaying_agent_is_destroyed(
    host: HiveHost,
) -> None:
    """Q29: the operator's answer reaches who asked by the daemon, whoever forgets."""
    host.grow(mid={"parent": "lead", "role": "lead"})
    host.grow(low={"parent": "mid", "role": "worker"})
    question = ask(host, "low", "May I?")
    assert host.ask("mid", "RelayQuestion", question=question)["to"] == "lead"
    assert host.ask("lead", "RelayQuestion", question=question, to="operator")["to"] == "operator"
    host.close_connections("mid")
    host.call("Destroy", agent="mid", wait=20)
    host.kill()
    shown = host.hive("question", "show", question)
    assert "(relayed, from lead)" in shown
    host.hive("question", "answer", question, "you may")
    assert host.run("hive", "question", "answer", question, "no", check=False).returncode == 1
    (got,) = letters(host, "low", "answer")
    assert (got["by"], got["answers"]) == ("operator", ["you may"])


def test_an_escalation_reaches_the_operator_despite_kills(host: HiveHost) -> None:
    """K28: to the parent first, with severity and context; upwards without an answer."""
    sent = host.ask("tom", "Escalate", issue="disk full", severity="critical", context="df: 100%")
    assert sent["to"] == "wrk"
    (letter,) = letters(host, "wrk", "escalation")
    assert (letter["from"], letter["severity"]) == ("tom", "critical")
    host.kill()
    host.until(lambda: row(host, sent["escalation"])["to"] == "operator", "it climbs", 30)
    assert any("> df: 100%" in message["body"] for message in host.mail("root"))
    (waiting,) = (item for item in host.json("todo") if item["kind"] == "escalation")
    assert waiting["id"] == sent["escalation"]
    assert waiting["settle"] == f"hive question answer {sent['escalation']} TEXT"
    assert [row["id"] for row in host.json("escalations")] == [sent["escalation"]]
    host.hive("question", "answer", sent["escalation"], "rm the logs")
    (got,) = letters(host, "tom", "answer")
    assert got["answers"] == ["rm the logs"]
    hops = [event for event in host.events(last=200)
            if event["kind"] == "escalation" and event["operation"] == "climbed"]  # fmt: skip
    assert [hop["target"] for hop in hops] == ["lead", "root", "operator"]


def test_the_default_answer_applies_at_the_deadline_also_without_a_daemon(host: HiveHost) -> None:
    """Q28: expiry applies the default and reports it, the cap is a typed overflow."""
    items = [{"prompt": "Go?", "options": ["yes", "no"], "default": "no"}]
    question = host.ask("wrk", "Ask", items=items, deadline=4)["question"]
    ask(host, "wrk", "2")
    ask(host, "wrk", "3")
    full = host.ask("wrk", "Ask", items=[{"prompt": "4"}])
    assert (full.error, full.parameters["rule"]) == ("LimitReached", "talk.open")
    listed = host.ask("lead", "ListWorkerQuestions")["questions"]
    assert len(listed) == 3
    host.run("systemctl", "stop", "hived.service")
    host.run("sleep", "4")
    host.run("systemctl", "start", "hived.service")
    host.close_connections()
    host.until(lambda: row(host, question)["state"] == "defaulted", "the default")
    (got,) = letters(host, "wrk", "answer")
    assert (got["state"], got["answers"]) == ("defaulted", ["no"])
    (letter,) = letters(host, "lead", "question_ended")
    assert letter["state"] == "defaulted"


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


def test_reminders_reach_stopped_and_sleeping_agents_after_a_daemon_crash(host: HiveHost) -> None:
    """Mail waits for a stopped agent, and wakes a sleeping one that mail may wake."""
    host.grow(nap={"parent": "lead", "wakes": True})
    host.call("Stop", agent="side", wait=20)
    host.call("Sleep", agent="nap", wait=20)
    host.wait("sleeping", "nap")
    for name in ("side", "nap"):
        assert not host.call("Remind", to=name, body="up", **{"in": 1.5}).error
    host.close_connections("side", "nap")
    host.kill()
    host.wait("running", "nap")
    assert row_of(host, "side") == "stopped"
    waiting = [message for message in host.json("inbox", "side") if message["kind"] == "reminder"]
    assert len(waiting) == 1
    host.call("Start", agent="side", wait=20)
    assert len(letters(host, "side", "reminder")) == 1
    assert len(letters(host, "nap", "reminder")) == 1


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
