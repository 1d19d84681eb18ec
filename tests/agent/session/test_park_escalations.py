"""The escalation of a turn that waits: one is open while it waits, and none once it goes on."""

from __future__ import annotations

import json

from fixtures.fake_model import ModelAnswer
from fixtures.session_host import SessionHost
from fixtures.world import Reply, fields, rows

EMPTY: dict[str, object] = {"error": {"message": "the budget of lead is used up"}}
REFUSED = ModelAnswer(status=402, body=EMPTY)
AWAY = ModelAnswer(status=503)
REPORT = ModelAnswer(calls=[("z", "finish_task", {"status": "success", "summary": "ok"})])


def escalations(host: SessionHost) -> list[Reply]:
    """All escalations of the worker, the newest first."""
    reply = host.world.call("worker", "list_questions", which="mine", open=False)
    return rows(reply["questions"])


def states(host: SessionHost) -> list[object]:
    return [row["state"] for row in escalations(host)]


def until_it_waits(host: SessionHost, count: int = 1, conversation: str = "main") -> None:
    host.until_count(lambda: host.of_kind("park", conversation), count)


def top_up(host: SessionHost) -> None:
    host.notify("budget", "the budget of lead has room again")


def test_no_escalation_stays_open_after_a_top_up(host: SessionHost) -> None:
    """Nor does the agent get mail about it, which would begin a turn."""
    host.model.script = [REFUSED, ModelAnswer("paid")]
    host.start()
    host.send("work")
    until_it_waits(host)
    assert states(host) == ["open"]
    top_up(host)
    assert host.until(host.replies) == ["paid"]
    host.until(lambda: "closed" in host.kinds())
    assert states(host) == ["cancelled"]
    assert host.world.mail("worker") == []
    assert len(host.model.bodies) == 2


def test_the_escalation_of_a_task_ends_before_its_report(host: SessionHost) -> None:
    """While it is open, the task waits for its answer."""
    host.model.script = [REFUSED, REFUSED, REPORT]
    task = host.assign("Count.")
    host.start()
    until_it_waits(host, conversation=f"task-{task}")
    assert host.task(task)["state"] == "awaiting_more_information"
    top_up(host)
    host.until(lambda: host.task(task)["state"] == "done")
    assert states(host) == ["cancelled"]
    moves = [row["operation"] for row in host.world.events()]
    assert moves.index("cancel_question") < moves.index("finish_task")


def test_a_restart_while_the_turn_waits_asks_no_second_time(host: SessionHost) -> None:
    host.model.answer = lambda _number, _body: REFUSED
    host.start()
    host.send("work")
    until_it_waits(host)
    for asked in (2, 3):
        host.kill()
        host.start()
        host.until_count(lambda: host.events("report_activity"), asked)
    assert states(host) == ["open"]
    assert len(host.of_kind("park")) == 1
    host.model.answer = lambda _number, _body: ModelAnswer("paid")
    top_up(host)
    assert host.until(host.replies) == ["paid"]
    assert states(host) == ["cancelled"]


def test_a_session_that_lost_its_record_of_the_escalation_finds_it_again(
    host: SessionHost,
) -> None:
    """It was killed between the call and the record."""
    host.model.answer = lambda _number, _body: REFUSED
    host.start()
    host.send("work")
    until_it_waits(host)
    host.kill()
    log = host.state / "session" / "main" / "log"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    assert host.of_kind("park") == []
    host.start()
    until_it_waits(host)
    assert states(host) == ["open"]


def test_a_top_up_while_the_session_is_away_leaves_no_escalation_open(host: SessionHost) -> None:
    host.model.script = [REFUSED, ModelAnswer("paid")]
    host.start()
    host.send("work")
    until_it_waits(host)
    host.kill()
    host.start()
    assert host.until(host.replies) == ["paid"]
    assert states(host) == ["cancelled"]


def test_a_turn_that_waits_a_second_time_asks_again(host: SessionHost) -> None:
    """Also where it got no further in between."""
    look = ModelAnswer(calls=[("a", "list_agents", {})])
    host.model.script = [REFUSED, look, REFUSED, REFUSED, ModelAnswer("paid")]
    host.start()
    host.send("work")
    for count in (1, 2, 3):
        until_it_waits(host, count)
        assert states(host) == ["open"] + ["cancelled"] * (count - 1)
        top_up(host)
    assert host.until(host.replies) == ["paid"]
    assert states(host) == ["cancelled"] * 3


def test_an_escalation_stays_while_the_model_still_fails(host: SessionHost) -> None:
    """A letter has the turn try again: its failure is no second escalation."""
    host.model.script = [*[AWAY] * 6, ModelAnswer("back")]
    host.start()
    host.send("work")
    until_it_waits(host)
    host.send("try again")
    host.until_count(lambda: host.events("report_activity"), 3)
    assert states(host) == ["open"]
    host.send("once more")
    assert host.until(host.replies) == ["back"]
    host.until(lambda: "closed" in host.kinds())
    assert states(host) == ["cancelled"]


def test_an_answer_that_does_not_help_is_followed_by_another_escalation(host: SessionHost) -> None:
    host.model.script = [*[AWAY] * 6, ModelAnswer("back")]
    host.start()
    host.send("work")
    until_it_waits(host)
    (letter,) = [row for row in host.world.mail("lead") if row["kind"] == "escalation"]
    question = json.loads(str(letter["body"]).partition("\n")[0])["question"]
    host.world.call("lead", "answer", question=question, answers=["try again"])
    until_it_waits(host, 2)
    assert states(host) == ["open", "answered"]


def rewind(host: SessionHost, turn: int) -> None:
    """Rewind `main` by the command of its agent, once its turn waits."""
    words = ["session", "rewind", "--turn", str(turn)]
    state = {"HIVE_STATE": str(host.state)}
    while True:
        host.server.start("worker", ["hive-agent", *words], **state)
        command = host.server.processes.pop()
        host.until(lambda command=command: command.poll() is not None)  # type: ignore[misc]
        text = command.communicate()[1]
        if "its turn runs" not in text:
            assert f"main goes on from the end of turn {turn}" in text
            return


def test_no_escalation_stays_open_after_a_rewind(host: SessionHost) -> None:
    """Nor does the agent count as blocked; the next letter finds nothing to cancel."""
    host.model.script = [REFUSED, ModelAnswer("paid")]
    host.start()
    host.send("work")
    until_it_waits(host)
    rewind(host, 0)
    assert states(host) == ["cancelled"]
    assert host.kinds()[-2:] == ["rewind", "resume"]
    assert fields(host.events("report_activity")[-1])["blocked"] is False
    host.send("something else")
    assert host.until(host.replies) == ["paid"]
    assert states(host) == ["cancelled"]
