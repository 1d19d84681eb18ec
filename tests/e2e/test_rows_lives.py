"""Life cycles through real sockets and real containers: K4-K10, K12, K13 and K32 for machines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.hivehost import HiveHost
from e2e.kills import tell_with_kills
from e2e.shared_hosts import LEAD, REAP, SharedHost

pytestmark = pytest.mark.lab("slow")

TREE: dict[str, str | None] = {"root": None, "lead": "root"}
KEEPER = """
trap 'hive-agent keep-snapshot "step $((n + 1))" && exit 0' TERM
n=$(hive-agent get-snapshot | sed -n 's/.*step \\([0-9]*\\).*/\\1/p'); n=${n:-0}
echo "began at $n"; while :; do sleep 0.05; done
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("work", agents=LEAD)
    forget_ended_children(made)
    return made


@pytest.fixture(autouse=True)
def tidy(host: HiveHost) -> Iterator[None]:
    host.mail("lead")
    yield
    host.prune(TREE)
    forget_ended_children(host)


def forget_ended_children(host: HiveHost) -> None:
    while not host.ask("lead", "WaitChild", wait=0).error:
        pass


CHECKS = """
[maid.checks.disk]
command = ["sh", "-c", "echo 97% used; exit 2"]
[maid.checks.slow]
command = ["sleep", "1000"]
seconds = 1
[maid.checks.meek]
command = ["sh", "-c", "hive-agent spawn own; test $? = 5"]
"""
DONE = {
    "- disk: bad: ended with 2", "  > 97% used", "- meek: good: ended with 0",
    "- slow: bad: took longer than 1 s",
}  # fmt: skip


def besides_checks(host: HiveHost) -> dict[str, str | None]:
    tree = host.tree()
    return {name: tree[name] for name in tree if not name.startswith("check-")}


def checks_were_done(host: HiveHost) -> None:
    """By children that are gone, also over restarts of the daemon; the queen knows what is bad."""
    host.until(lambda: set(lines(host, "maid")) >= DONE, "not all checks were done")
    host.until(lambda: besides_checks(host) == host.tree(), "those who did a check are there")
    prompts = {question["prompt"] for question in host.ask("queen", "ListQuestions")["questions"]}
    result = {"disk is bad: ended with 2", "slow is bad: took longer than 1 s"}
    assert prompts == {f"the check {fault}" for fault in result}


def script(text: str, **more: object) -> dict[str, object]:
    return {"parent": "lead", "command": ["sh", "-c", text], **more}


def spawn(host: HiveHost, name: str, text: str, **more: object) -> None:
    reply = host.call("Spawn", name=name, **script(text, **more))
    assert not reply.error, reply


def lines(host: HiveHost, agent: str) -> list[str]:
    return [line["text"] for line in host.call("GetLogs", agent=agent)["lines"]]


def exit_notices(host: HiveHost, agent: str, last: int = 60) -> list[str]:
    """Kinds of the events of one machine."""
    events = (event for event in host.events(last=last) if event["operation"] == "watch")
    return [event["kind"] for event in events if agent in json.dumps(event["fields"])]


def row(host: HiveHost, agent: str) -> dict[str, Any]:
    (agent_row,) = (
        agent_row for agent_row in host.call("ListAgents")["agents"] if agent_row["name"] == agent
    )
    return dict(agent_row)


def test_a_parent_waits_for_its_child_and_learns_how_it_ended(host: HiveHost) -> None:
    """K7: exit code, last lines, reason; once; and a one-shot child is gone with it."""
    spawn(host, "one", "echo last words; sleep 0.5; exit 42", role="task")
    end = host.ask("lead", "WaitChild", agent="one", wait=30)["child"]
    assert (end["code"], end["output"], end["reason"]) == (42, "last words", "ended with 42")
    assert end["reaped"]
    host.until(lambda: "one" not in host.tree(), "not reaped")
    assert host.ask("lead", "WaitChild", agent="one").error == "NotFound"
    assert host.ask("lead", "WaitChild", agent="root").error == "NotAllowed"


HOW = {
    "good": ("exit 0", 0), "bad": ("exit 7", 7), "hurt": ("kill -SEGV $$", 255),
    "lost": ("exec /no/such/program", 127),
}  # fmt: skip


def test_wait_child_reports_the_exit_code(host: HiveHost) -> None:
    """K7, K10: the parent gets the status of the payload; a signal shows as 255."""
    for name, (text, _) in HOW.items():
        spawn(host, name, f"until [ -e go ]; do sleep 0.05; done; {text}", role="worker")
    host.wait("running", *HOW)
    for name in HOW:
        host.inside(name, "touch", f"/agents/{name}/state/go", check=False)  # may end with it
    ends = [host.ask("lead", "WaitChild", wait=30)["child"] for _ in HOW]
    assert {end["name"]: end["code"] for end in ends} == {
        name: code for name, (_, code) in HOW.items()
    }
    assert {end["name"] for end in ends if end["clean"]} == {"good"}
    assert not any(end["reaped"] for end in ends)
    kinds = sorted(message["kind"] for message in host.mail("lead"))
    assert kinds == ["child_exit", *["container_crash"] * 3]
    assert host.tree().keys() == {*TREE, *HOW}


def test_waits_ends_sleep_and_mail_outlive_kills_of_the_daemon(host: HiveHost) -> None:
    """K7, K13, K32: the second daemon is killed before it has counted what it found."""
    tell_with_kills(
        host, _a_wait_is_asked_for_again(host),
        _sleepers_keep_their_mail_and_some_are_woken_by_it(host),
        _an_exit_between_two_daemons_is_counted_once(host),
    )  # fmt: skip


def _a_wait_is_asked_for_again(host: HiveHost) -> Iterator[None]:
    """What was waited for is there, once."""
    spawn(host, "one", "sleep 1; exit 3", role="worker")
    host.wait("running", "one")
    yield
    yield
    assert host.ask("lead", "WaitChild", agent="one", wait=30)["child"]["code"] == 3
    assert host.ask("lead", "WaitChild", agent="one").error == "NotFound"
    letters = [letter for letter in host.mail("lead") if "one" in letter["body"].split()]
    assert [letter["kind"] for letter in letters] == ["container_crash"]


def _sleepers_keep_their_mail_and_some_are_woken_by_it(host: HiveHost) -> Iterator[None]:
    """K13: the container is stopped meanwhile; by the commands of the operator."""
    host.grow(light=script("exec sleep 1000", wakes=True), deep=script("exec sleep 1000"))
    host.hive("sleep", "light", "deep", "--grace", "1")
    yield
    yield
    assert {row(host, name)["state"] for name in ("light", "deep")} == {"sleeping"}
    for name in ("light", "deep"):
        host.ask("lead", "Send", to=name, body="work!")
    host.wait("running", "light")
    assert [message["body"] for message in host.mail("light")] == ["work!"]
    assert row(host, "deep")["state"] == "sleeping"
    host.hive("resume", "deep")
    assert [message["body"] for message in host.mail("deep")] == ["work!"]
    host.close_connections("light", "deep")


def _an_exit_between_two_daemons_is_counted_once(host: HiveHost) -> Iterator[None]:
    """One while hived cannot look."""
    spawn(host, "two", "exec sleep 1000", role="worker")
    host.wait("running", "two")
    host.run("sh", "-c", "kill -STOP $(systemctl show --value -p MainPID hived.service)")
    host.run("sh", "-c", f"kill -KILL $(pgrep -P $(pgrep -P {host.main_pid('two')}))")
    host.until(lambda: host.main_pid("two") == 0, "it does not end")
    yield
    yield
    host.wait("failed", "two")
    assert exit_notices(host, "two") == ["start", "crash"]
    assert host.ask("lead", "WaitChild", agent="two", wait=30)["child"]["code"] == 255


def test_a_host_shutdown_is_recorded_as_the_end_of_all_agents(host: HiveHost) -> None:
    """K32: /run is empty, so no record is left; an agent of one task is not started again."""
    spawn(host, "one", "exec sleep 1000", role="task")
    spawn(host, "other", "exec sleep 1000", role="worker")
    host.wait("running", "one", "other")
    host.run("systemctl", "stop", "hived.service")
    host.run("systemctl", "stop", "hive-agent@one.service", "hive-agent@other.service")
    host.run("sh", "-c", "rm -f /run/hive/exits/*", check=False)
    host.run("systemctl", "start", "hived.service")
    host.close_connections()
    host.wait("running", "other")
    end = host.ask("lead", "WaitChild", agent="one", wait=20)["child"]
    assert (end["code"], end["reason"]) == (None, "the host went down")
    assert exit_notices(host, "other") == ["start", "exit", "start"]


def test_a_stopped_agent_counts_as_ended(host: HiveHost) -> None:
    """K7, K11: a kill has its reason, and no code."""
    host.grow(one=script("exec sleep 1000", role="worker"))
    host.ask("lead", "Kill", agent="one", reason="enough of it", wait=20)
    end = host.ask("lead", "WaitChild", agent="one", wait=30)["child"]
    assert (end["code"], end["asked"], end["reason"]) == (None, True, "enough of it")
    assert host.mail("lead") == []


def test_a_zombie_expires_and_takes_no_child_slot(host: HiveHost) -> None:
    """K4, K8, K9: archived, with an event; its end can still be asked for."""
    host.grow(boss=script("exec sleep 1000", role="lead", max_children=1))
    reply = host.ask("boss", "Spawn", name="first", role="task", command=["sh", "-c", "exit 4"])
    assert not reply.error
    assert host.ask("boss", "Spawn", name="second", role="task").error == "LimitReached"
    host.wait("failed", "first")
    assert not host.ask("boss", "Spawn", name="second", role="task").error
    host.until(lambda: "first" not in host.tree(), "not reaped", REAP + 10)
    assert "second" in host.tree()
    reaped = (event["fields"] for event in host.events(last=30) if event["operation"] == "reap")
    assert [fields["reason"] for fields in reaped if fields.get("agent") == "first"] == [
        "ended with 4"
    ]
    end = host.ask("boss", "WaitChild", agent="first")["child"]
    assert (end["code"], end["reaped"]) == (4, False)
    host.close_connections("boss")


def test_a_task_agent_exits_after_its_task_and_a_worker_stays(host: HiveHost) -> None:
    """K6, K5: half a second after the result; busy meanwhile, and each change is one event."""
    for name, role in (("one", "task"), ("stays", "worker")):
        host.grow(**{name: script("exec sleep 1000", role=role)})
        task = host.ask("lead", "AssignTask", agent=name, description="count to three")["task"]
        host.ask(name, "BeginTask", task=task)
        host.until(lambda name=name: row(host, name)["activity"] == "running", "it does not begin")  # type: ignore[misc]
        reply = host.ask(name, "FinishTask", task=task, status="success", summary="1 2 3")
        assert not reply.error, reply
        host.close_connections(name)
    end = host.ask("lead", "WaitChild", agent="one", wait=20)["child"]
    assert (end["asked"], end["reason"]) == (True, "its last task has ended")
    assert (row(host, "stays")["state"], row(host, "stays")["activity"]) == ("running", "idle")
    assert exit_notices(host, "stays") == ["start", "activity", "activity"]


def test_an_architect_sleeps_after_its_task_and_is_woken_for_a_revision(host: HiveHost) -> None:
    """K6, K13: it gets its own last task and what came of it, with the request."""
    host.grow(plan=script("exec sleep 1000", role="architect"))
    task = host.ask("lead", "AssignTask", agent="plan", description="draw a house")["task"]
    host.mail("plan")
    assert not host.ask("plan", "FinishTask", task=task, status="success", summary="drawn").error
    host.close_connections("plan")
    host.wait("sleeping", "plan")
    assert host.main_pid("plan") == 0
    assert host.ask("lead", "Resume", agent="plan", body="with a door", wait=20)["message"]
    (mail,) = host.mail("plan")
    assert (mail["kind"], mail["from"]) == ("revision", "lead")
    assert mail["body"].startswith(f"with a door\n\nyour last task: {task}\nit was: draw a house")
    assert "success: drawn" in mail["body"]
    host.close_connections("plan")


def test_data_saved_during_a_stop_is_there_at_the_next_start(host: HiveHost) -> None:
    """K12: the broker answers while the agent is being stopped, within its grace."""
    host.grow(one=script(KEEPER))
    for n, end in ((1, "restart"), (2, "stop")):
        host.until(lambda n=n: f"began at {n - 1}" in lines(host, "one"), "it does not begin")  # type: ignore[misc]
        host.hive(end, "one")
    host.hive("start", "one")
    host.until(lambda: "began at 2" in lines(host, "one"), "it does not begin")


def test_the_maid_watches_the_subtree_of_its_parent(host: HiveHost) -> None:
    """K36, K33: made at start where enabled, once; it clears away, reports, and comes back."""
    wanted = "[daemons]\nqueen = true\nmaid = true\nfirst = 0.5\nevery = 1.0\n"
    host.settings(f"[life]\nreap = 600\n{wanted}{CHECKS}")
    for _ in range(2):
        host.run("systemctl", "restart", "hived.service")
        host.close_connections()
        host.wait("running", "queen", "maid")
        assert besides_checks(host) == {**TREE, "queen": "root", "maid": "queen"}
    spawn(host, "far", "exit 3", role="task")
    spawn(host, "near", "exit 3", role="task", parent="queen")
    host.until(lambda: "near" not in host.tree(), "not cleared away", 20)
    assert "far" in host.tree()
    host.until(lambda: "- reaped: near" in lines(host, "maid"), "not reported")
    assert host.ask("maid", "Destroy", agent="queen").error == "NotAllowed"
    checks_were_done(host)
    host.close_connections("maid")
    pid = host.main_pid("maid")
    host.run("sh", "-c", f"kill -KILL $(pgrep -P $(pgrep -P {pid}))")
    host.until(lambda: host.main_pid("maid") not in {0, pid}, "it does not come back")
