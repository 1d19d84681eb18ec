"""A task whose agent waits for others: its turn ends, and mail about it goes on with it (T4)."""

from __future__ import annotations

import json
import signal

from fixtures.fake_model import ModelAnswer
from fixtures.session_host import SessionHost
from fixtures.world import fields, rows

REPORT = ModelAnswer(calls=[("z", "finish_task", {"status": "success", "summary": "ok"})])
PART: dict[str, object] = {
    "agent_role": "helper", "agent_type": "worker", "task_description": "one part",
    "name": "helper",
}  # fmt: skip


def has_pauses(host: SessionHost, name: str, count: int = 1) -> bool:
    return host.kinds(name).count("closed") == count


def test_the_end_of_a_part_goes_on_with_the_turn_of_its_whole(host: SessionHost) -> None:
    """Neither nudged nor escalated; the session is restarted and chats meanwhile."""
    host.model.script = [
        ModelAnswer(calls=[("a", "spawn_agent_and_assign_task", PART)]),
        ModelAnswer("I wait for helper."), ModelAnswer("all is well"), REPORT,
    ]  # fmt: skip
    task = host.assign("Have it done.")
    name = f"task-{task}"
    host.start()
    host.until(lambda: has_pauses(host, name))
    assert host.of_kind("end", name)[0]["pauses"] is True
    assert host.task(task)["state"] == "in_progress"
    assert host.kill(signal.SIGTERM) == 0
    host.start()
    host.send("how is it?")
    assert host.until(host.replies) == ["all is well"]
    assert len(host.of_kind("response")) == 1  # in main, beside the task
    (part,) = rows(host.world.call("operator", "list_tasks", agent="helper", only=True)["tasks"])
    done = {"task": part["id"], "status": "success", "summary": "a part of it"}
    host.world.call("helper", "finish_task", **done)
    host.until(lambda: host.task(task)["state"] == "done")
    host.until(lambda: has_pauses(host, name, 2))
    assert "a part of it" in host.model.bodies[3].decode()
    assert "Your task is still open" not in host.model.bodies[3].decode()
    assert [row["kind"] for row in host.world.mail("lead") if row["kind"] == "escalation"] == []


def test_an_answer_goes_on_with_the_task_that_asked(host: SessionHost) -> None:
    """Its tools run for the task, and a text without a report is not its end."""
    asked: dict[str, object] = {"items": ["Which colour?"]}
    host.model.script = [
        ModelAnswer(calls=[("a", "ask", asked)]), ModelAnswer("I wait."),
        ModelAnswer(calls=[("b", "bash", {"command": "echo red"})]),
        ModelAnswer("It is red."), REPORT,
    ]  # fmt: skip
    task = host.assign("Paint.")
    asked["task"] = task
    name = f"task-{task}"
    host.start()
    host.until(lambda: has_pauses(host, name))
    (letter,) = [row for row in host.world.mail("lead") if row["kind"] == "question"]
    question = json.loads(str(letter["body"]).partition("\n")[0])["question"]
    host.world.call("lead", "answer", question=question, answers=["red"])
    host.until(lambda: host.task(task)["state"] == "done")
    host.until(lambda: has_pauses(host, name, 2))
    assert "Your task is still open" in host.model.bodies[4].decode()
    (grant,) = host.events("use_tool")
    assert fields(grant)["task"] == task
    assert host.kinds() == []


def test_a_task_that_is_parked_after_failures_goes_on_with_any_letter(host: SessionHost) -> None:
    """The letter joins its turn: the question of the escalation need not be answered."""
    host.model.script = [*[ModelAnswer(status=503)] * 3, REPORT]
    task = host.assign("Do it.")
    host.start()
    host.until(lambda: host.events("escalate"))
    host.until(lambda: host.task(task)["state"] == "awaiting_more_information")
    host.send("try again")
    host.until(lambda: host.task(task)["state"] == "done")
    assert "try again" in host.model.bodies[3].decode()
    assert host.kinds() == []


def test_an_escalation_that_ends_with_its_task_begins_no_turn(host: SessionHost) -> None:
    """The turn no longer waits, so the model reads the next letter next."""
    host.model.script = [ModelAnswer("I cannot."), ModelAnswer("Really."), ModelAnswer("well")]
    task = host.assign("Do it.")
    host.start()
    host.until(lambda: host.events("escalate"))
    host.world.call("lead", "cancel_task", task=task)
    host.until(lambda: host.task(task)["state"] == "cancelled")
    host.until(lambda: host.of_kind("end", f"task-{task}"))
    host.send("how is it?")
    assert host.until(host.replies) == ["well"]
    assert len(host.model.bodies) == 3
    assert "was cancelled by daemon" not in host.model.bodies[2].decode()


def test_mail_that_comes_after_a_task_that_waited_was_cancelled_is_answered(
    host: SessionHost,
) -> None:
    """It began a turn of the task, which was abandoned: the model never read it."""
    asked: dict[str, object] = {"items": ["Which colour?"]}
    host.model.script = [
        ModelAnswer(calls=[("a", "ask", asked)]), ModelAnswer("I wait."), ModelAnswer("well"),
    ]  # fmt: skip
    task = host.assign("Paint.", context="keep")
    asked["task"] = task
    host.start()
    host.until(lambda: has_pauses(host, "main"))
    host.world.call("lead", "cancel_task", task=task)
    host.until(lambda: host.task(task)["state"] == "cancelled")
    host.send("how is it?")
    assert host.until(host.replies) == ["well"]
    assert "how is it?" in host.model.bodies[2].decode()
    host.until(lambda: has_pauses(host, "main", 3))
    host.until(lambda: host.world.mail("worker") == [])
    assert host.replies() == ["well"]


def test_a_new_credential_reaches_the_turn_that_runs_and_begins_none(host: SessionHost) -> None:
    """Rows Q10, Q35: it is a dated reminder, and the prompt stays as it is."""
    host.world.call("operator", "grant_capability", agent="worker", capability="secret:token")
    secret = {"agent": "worker", "key": "token", "value": "x-hush-4711-x", "provider": "github"}
    host.model.script = [
        ModelAnswer(calls=[("a", "bash", {"command": "until test -e go; do sleep 0.05; done"})]),
        ModelAnswer("renewed"), ModelAnswer("later"),
    ]  # fmt: skip
    host.world.call("operator", "set_agent", agent="worker", runtime="builtin")
    host.start()
    host.send("Push it.")
    host.until(lambda: host.of_kind("call"))
    host.world.call("operator", "set_secret", **secret, alias="work")
    host.until(lambda: [row for row in host.of_kind("input") if row["kind"] == "credentials"])
    (host.workspace / "go").touch()
    assert host.until(host.replies) == ["renewed"]
    first, second = (body.decode() for body in host.model.bodies)
    assert "credentials: token (not set)" in first
    assert r"credentials: token \"work\" github" in second.replace(r"\\", "\\")
    assert "hush" not in first + second
    host.world.call("operator", "set_secret", **secret, alias="play")
    host.send("And now?")
    host.until_count(host.replies, 2)
    assert len(host.model.bodies) == 3
    assert "play" in host.model.bodies[2].decode()
