"""The session as a process, with the real broker: mail, tasks, tools, and what interrupts them.

Rows Q10 and Q45, as far as the loop of a session shows them.
"""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
import threading
from pathlib import Path

import pytest
from fixtures.fake_model import ModelAnswer
from fixtures.session_host import SessionHost, session_host
from fixtures.world import fields, rows, world


def test_mail_becomes_a_turn_and_its_text_the_reply(host: SessionHost) -> None:
    host.model.script = [ModelAnswer("hello lead")]
    host.start()
    host.send("who <message> are you?")
    assert host.until(host.replies) == ["hello lead"]
    host.until(lambda: "closed" in host.kinds())
    assert host.kinds() == [
        "open", "input", "input", "system", "response", "end", "closed",
    ]  # fmt: skip
    body = host.model.bodies[0].decode()
    assert 'message from=\\"lead\\" relation=\\"parent\\"' in body
    assert "who &lt;message> are you?" in body
    assert host.world.mail("worker") == []
    (event,) = host.events("note_event")
    assert event["kind"] == "own.turn"
    noted = fields(event)["own"]
    assert isinstance(noted, dict)
    assert (noted["conversation"], noted["status"], noted["tokens_in"]) == ("main", "done", 10)


def test_a_conversation_goes_on_with_the_same_prefix_after_a_restart(host: SessionHost) -> None:
    host.model.script = [ModelAnswer("one"), ModelAnswer("two"), ModelAnswer("three")]
    host.start()
    for number, words in enumerate(("first", "second")):
        host.send(words)
        host.until_count(host.replies, number + 1)
    host.until(lambda: host.kinds().count("closed") == 2)
    assert host.kill(signal.SIGTERM) == 0
    host.start()
    host.send("third")
    host.until(lambda: len(host.replies()) == 3)
    messages = [body["messages"] for body in host.model.requests()]
    for earlier, later in itertools.pairwise(messages):
        assert isinstance(earlier, list)
        assert isinstance(later, list)
        assert later[: len(earlier)] == earlier
    assert host.kinds().count("system") == 1


def test_a_task_is_begun_worked_on_in_the_workspace_and_reported_once(host: SessionHost) -> None:
    report = {"status": "success", "summary": "42 lines"}
    host.model.script = [
        ModelAnswer(calls=[("a", "edit", {"path": "notes.txt", "new": "hello\n"})]),
        ModelAnswer(calls=[
            ("b", "bash", {"command": "wc -l notes.txt | tr -d ' '"}),
            ("c", "read", {"path": "notes.txt"}), ("d", "bash", {"command": "false"}),
            ("e", "fly", {}), ("f", "send", "no json"),
        ]),
        ModelAnswer(calls=[("g", "finish_task", report)]),
    ]  # fmt: skip
    task = host.assign("Count the lines.")
    host.start()
    host.until(lambda: host.task(task)["state"] == "done")
    name = f"task-{task}"
    host.until(lambda: "closed" in host.kinds(name))
    result = host.task(task)["result"]
    assert isinstance(result, dict)
    assert (result["status"], result["summary"]) == ("success", "42 lines")
    contents = {row["call"]: row["content"] for row in host.of_kind("result", name)}
    assert contents["b"] == "1notes.txt"
    assert contents["c"] == "hello"
    assert "[exit status 1]" in str(contents["d"])
    assert "tool 'fly' does not exist; the tools are read" in str(contents["e"])
    assert contents["f"] == "the arguments are not a JSON object"
    # The main conversation stays out of it, and the grants were given and returned.
    assert host.kinds() == []
    assert len(host.events("use_tool")) == len(host.events("end_tool")) == 4
    (end,) = host.of_kind("end", name)
    usage = end["usage"]
    assert isinstance(usage, dict)
    assert usage["requests"] == 3  # the report ends the turn


def test_mail_joins_the_running_turn_and_an_urgent_letter_interrupts_it(host: SessionHost) -> None:
    held = threading.Event()
    host.model.script = [
        ModelAnswer("never read", held=held),
        ModelAnswer(calls=[("a", "whoami", {})]),
        ModelAnswer("done"),
    ]  # fmt: skip
    host.start()
    host.send("start")
    host.until(lambda: host.model.bodies)
    host.send("also this")
    host.until(lambda: len(host.of_kind("input")) == 3)
    assert len(host.model.bodies) == 1
    host.send("stop that", "operator", priority=0)
    host.until(host.replies)
    held.set()
    assert host.replies() == ["done"]
    second = host.model.bodies[1].decode()
    assert "also this" in second
    assert "stop that" in second
    assert "never read" not in host.model.bodies[2].decode()
    host.until(lambda: "closed" in host.kinds())
    assert host.kinds().count("end") == 1


def test_a_task_that_is_cancelled_ends_its_program_and_its_turn(host: SessionHost) -> None:
    host.model.script = [ModelAnswer(calls=[("a", "bash", {"command": "sleep 600"})])]
    task = host.assign("Sleep.")
    host.start()
    name = f"task-{task}"
    host.until(lambda: host.of_kind("call", name) and host.events("use_tool"))
    host.world.call("lead", "cancel_task", task=task, reason="not needed")
    host.until(lambda: host.task(task)["state"] == "cancelled")
    host.until(lambda: "closed" in host.kinds(name))
    (end,) = host.of_kind("end", name)
    assert (end["status"], end["error"]) == ("stopped", "not needed")
    assert len(host.model.bodies) == 1


def test_the_next_turn_has_the_result_of_the_report_that_ended_the_one_before(
    host: SessionHost,
) -> None:
    report = {"status": "success", "summary": "ok"}
    host.model.script = [ModelAnswer(calls=[("a", "finish_task", report)]), ModelAnswer("hello")]
    task = host.assign("Count.", context="keep")
    host.start()
    host.until(lambda: "closed" in host.kinds())
    assert host.task(task)["state"] == "done"
    assert len(host.model.bodies) == 1
    host.send("and now?")
    assert host.until(host.replies)
    messages = host.model.requests()[1]["messages"]
    assert isinstance(messages, list)
    (result,) = [row for row in messages if row["role"] == "tool"]
    assert "done" in result["content"]


def test_a_long_result_becomes_an_artifact(host: SessionHost) -> None:
    (host.workspace / "long.txt").write_text("word " * 6000)
    host.model.script = [
        ModelAnswer(calls=[("a", "read", {"path": "long.txt"})]), ModelAnswer("read it"),
    ]  # fmt: skip
    host.world.call("operator", "grant_capability", agent="worker", capability="artifact.write")
    host.start()
    host.send("read")
    host.until(host.replies)
    (row,) = host.of_kind("result")
    content = str(row["content"])
    assert len(content.encode()) < 3000
    assert f"get_artifact {row['artifact']} has the whole" in content
    assert row["artifact"] in [
        item["id"] for item in rows(host.world.call("worker", "list_artifacts")["artifacts"])
    ]


def test_a_long_conversation_is_compacted_with_the_facts_of_the_broker(host: SessionHost) -> None:
    host.model.context = 1000
    host.model.script = [
        ModelAnswer(calls=[("a", "whoami", {})], tokens=(900, 10)),
        ModelAnswer("SUMMARY: asked who I am"),
        ModelAnswer("I am worker", tokens=(200, 10)),
    ]  # fmt: skip
    host.start()
    host.send("who are you?")
    assert host.until(host.replies) == ["I am worker"]
    host.until(lambda: "closed" in host.kinds())
    assert host.kinds()[:3] == ["open", "system", "compact"]
    assert (host.state / "session/main/log.1").exists()
    summary, after = host.model.requests()[1:]
    assert summary["tool_choice"] == "none"
    messages = after["messages"]
    assert isinstance(messages, list)
    system, first, *others = (str(message["content"]) for message in messages)
    assert system == summary["messages"][0]["content"]  # type: ignore[index]
    assert "SUMMARY: asked who I am" in first
    assert '{"you":{"name":"worker","uuid":' in first
    assert [text for text in others if "who are you?" in text] == others[:1]
    assert len(messages) < 5


def test_a_runtime_for_another_python_is_refused_with_78(host: SessionHost, tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime/.python").write_text("2.7\n")
    host.start(runtime=str(tmp_path / "runtime"))
    process = host.server.processes.pop()
    _, text = process.communicate(timeout=60)
    assert process.returncode == 78
    assert "built for Python 2.7" in text


def test_a_definition_stands_in_the_prompt_and_begins_no_turn(host: SessionHost) -> None:
    host.model.script = [ModelAnswer("aye")]
    host.start()
    host.notify("definition", "You count sheep, and nothing else.")
    host.notify("moved", "you are below lead now")
    host.until(lambda: not host.world.mail("worker"))
    assert host.kinds() == []
    host.send("count")
    assert host.until(host.replies) == ["aye"]
    (system,) = host.of_kind("system")
    assert "You count sheep, and nothing else." in str(system["text"])


def test_a_task_that_was_cancelled_while_the_session_was_away_is_not_worked_on(
    host: SessionHost,
) -> None:
    host.model.script = [ModelAnswer(calls=[("a", "bash", {"command": "sleep 600"})])]
    task = host.assign("Sleep.")
    host.start()
    name = f"task-{task}"
    host.until(lambda: host.of_kind("call", name))
    host.kill()
    host.world.call("lead", "cancel_task", task=task, reason="too late")
    host.start()
    host.until(lambda: "closed" in host.kinds(name))
    assert host.until(lambda: host.task(task)["state"] == "cancelled")
    (end,) = host.of_kind("end", name)
    assert end["status"] == "abandoned"
    assert host.of_kind("result", name) == []
    assert len(host.model.bodies) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start tools as another user")
def test_a_tool_is_another_user_and_does_not_reach_the_log() -> None:
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as place,
        world(None, "root/lead:lead", "lead/worker:worker") as made,
        session_host(made, Path(place)) as host,
    ):
        Path(place).chmod(0o755)
        Path(host.server.socket_of("worker")).chmod(0o666)
        host.model.path.chmod(0o666)
        os.chown(host.workspace, 1000, 1000)
        command = "id -u; touch mine; cat ../session/main/log; mv ../session ../gone"
        host.model.script = [
            ModelAnswer(calls=[("a", "bash", {"command": command})]), ModelAnswer("done"),
        ]  # fmt: skip
        host.start("--uid", "1000")
        host.send("try")
        assert host.until(host.replies) == ["done"]
        (result,) = host.of_kind("result")
        content = str(result["content"])
        assert content.startswith("1000\n")
        assert content.lower().count("permission denied") == 2
        assert (host.workspace / "mine").stat().st_uid == 1000


def test_a_decision_on_a_plan_and_a_wake_say_what_to_do(host: SessionHost) -> None:
    task = host.assign("Do it.", plan_required=True)
    host.model.script = [
        ModelAnswer(calls=[("p", "create_plan", {"task": task, "steps": ["look"]})]),
        ModelAnswer("the plan waits"), ModelAnswer("read"),
    ]  # fmt: skip
    host.start()
    host.until(lambda: host.task(task)["state"] == "awaiting_plan_approval")
    host.until(lambda: "closed" in host.kinds(f"task-{task}"))
    (plan,) = rows(host.world.call("lead", "list_plans", task=task)["plans"])
    host.world.call("lead", "reject_plan", task=task, plan=plan["plan"], reason="no")
    words = "so nothing of it may be executed"
    host.until(lambda: words in host.model.bodies[-1].decode())
    host.world.call("worker", "wake", body="look again", source="watcher")
    host.until(lambda: "sent this to wake you" in host.model.bodies[-1].decode())
    (decision, *_) = [row for row in host.of_kind("input", f"task-{task}") if row.get("note")]
    assert (decision["note"], decision["letter"]) == ("plan_decision", "plan_rejected")
    assert words not in str(decision["text"])  # it is of the prompt, not of the letter
    host.kill()
