"""Tasks in real containers: T2, T3, T5, T8, T9, T11-T13, K10, K14-K16, K32, Q20, Q22-Q24, Q42.

The workers are shell commands under `hive-agent serve`; the lead is asked through its own socket.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from e2e.hivehost import HiveHost
from e2e.kills import tell_with_kills
from e2e.shared_hosts import GRACE, LEAD, SharedHost
from long import at_most, figure, times

pytestmark = pytest.mark.lab

TREE: dict[str, str | None] = {
    "root": None, "lead": "root", "one": "lead", "two": "lead", "three": "lead", "held": "lead",
}  # fmt: skip
WORKERS = ("one", "two", "three")
# The text of a task is the script that does it.
DOES = ["hive-agent", "serve", "--parallel", "2", "--", "sh"]


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("work", agents=LEAD)
    worker: dict[str, object] = {"parent": "lead", "role": "worker", "command": DOES}
    made.grow(one=worker, two=worker, three=worker, held={"parent": "lead", "role": "worker"})
    return made


@pytest.fixture(autouse=True)
def tidy(host: HiveHost) -> Iterator[None]:
    yield
    host.prune(TREE)
    host.mail("lead")
    host.close_connections()


def give(host: HiveHost, agent: str, text: str, **wish: object) -> str:
    """A task of the lead's, over its socket."""
    return str(host.ask("lead", "AssignTask", agent=agent, description=text, **wish)["task"])


def row(host: HiveHost, task: str) -> dict[str, Any]:
    result = host.call("GetTask", task=task)["task"]
    assert isinstance(result, dict)
    return result


def results_of(host: HiveHost, *tasks: str, wait: float = 30) -> list[dict[str, Any]]:
    """The results, in this order."""
    reply = host.ask("lead", "WaitTasks", tasks=list(tasks), wait=wait)
    assert reply["done"], [row(host, task) for task in tasks]
    return [dict(row(host, task)["result"]) for task in tasks]


def reaches(host: HiveHost, task: str, state: str) -> None:
    host.until(lambda: row(host, task)["state"] == state, f"not {state}: {row(host, task)}")


@pytest.mark.sized
def test_three_tasks_of_one_second_take_little_more_than_one(host: HiveHost) -> None:
    """K15: in parallel, from the first assignment to the last result."""
    give(host, "one", "true")
    took = []
    for _ in range(times(1, 5)):
        tasks = [give(host, worker, "sleep 1") for worker in WORKERS]
        assert [result["status"] for result in results_of(host, *tasks)] == ["success"] * 3
        rows = [row(host, task) for task in tasks]
        took.append(max(r["ended"] for r in rows) - min(r["created"] for r in rows))
    figure("three tasks of one second, each in a container", seconds=took)
    assert min(took) < at_most(1.2)


def test_tasks_of_several_agents_run_at_once(host: HiveHost) -> None:
    """K15: none of the three may end before all have begun."""
    script = "cd /agents/{}/state; touch at; until test -e go; do sleep 0.1; done; rm at go"
    tasks = [give(host, worker, script.format(worker)) for worker in WORKERS]
    count = (
        "ls /agents/one/state/at /agents/two/state/at /agents/three/state/at 2>/dev/null | wc -l"
    )
    host.until(lambda: host.inside("lead", "sh", "-c", count).strip() == "3", "one is idle")
    for worker in WORKERS:
        host.inside(worker, "touch", f"/agents/{worker}/state/go")
    assert [result["status"] for result in results_of(host, *tasks)] == ["success"] * 3


def test_spawn_with_a_task_returns_its_result(host: HiveHost) -> None:
    """T3, T8, Q20, Q22: ids and a name by the daemon, text with data, one record, told by mail."""
    host.mail("lead")
    made = host.ask(
        "lead", "SpawnAgentAndAssignTask", agent_role="Adding Machine", agent_type="worker",
        task_description='echo "{\\"sum\\": $(($(echo $HIVE_TASK_DATA | tr -dc "0-9 " )))}"; exit',
        data={"n": 42}, command=DOES,
    )  # fmt: skip
    assert made["agent_role"] == "Adding Machine"
    assert host.uuid(made["name"]) == made["agent_id"]
    (result,) = results_of(host, made["task_id"])
    assert (result["status"], result["data"]) == ("success", {"sum": 42})
    assert (result["worker_id"], result["attempts"]) == (made["agent_id"], 1)
    host.until(lambda: any(
        made["task_id"] in message["body"] and "done, success" in message["body"]
        for message in host.mail("lead") if message["kind"] == "tasks"
    ), "the lead is not told")  # fmt: skip


def test_an_agent_that_cannot_start_ends_its_task_with_the_reason(host: HiveHost) -> None:
    """T3, K3: and with another try asked for it is tried again first."""
    made = host.ask(
        "lead", "SpawnAgentAndAssignTask", agent_role="ghost", agent_type="worker",
        task_description="x", command=["/no/such/program"], requeue=1,
    )  # fmt: skip
    (result,) = results_of(host, made["task_id"])
    assert result["status"] == "failed"
    assert made["name"] in result["error"]


def test_a_new_manager_delegates_before_it_works(host: HiveHost) -> None:
    """T5, T2: pending_delegation ends with its first sub-task; managers go several levels down."""
    made = host.ask(
        "lead", "SpawnAgentAndAssignTask", agent_role="Sub Lead", agent_type="manager",
        task_description="Have it done",
    )  # fmt: skip
    name, task = made["name"], made["task_id"]
    assert made["state"] == "pending_delegation"
    host.wait("running", name)
    below = host.ask(
        name, "SpawnAgentAndAssignTask", agent_role="hand", agent_type="worker",
        task_description="echo done", command=DOES,
    )  # fmt: skip
    assert row(host, task)["state"] == "in_progress"
    assert row(host, below["task_id"])["part_of"] == task
    reaches(host, below["task_id"], "done")
    assert host.ask(name, "FinishTask", task=task, status="success", summary="it is")["open"] == 0
    assert results_of(host, task)[0]["summary"] == "it is"


def test_cancelling_a_task_ends_its_processes_and_not_the_agent(host: HiveHost) -> None:
    """K14: the processes of the task are gone, the container and its other task go on."""
    pid = host.main_pid("one")
    task = give(host, "one", "sleep 4242 & exec sleep 4243")
    other = give(host, "one", "sleep 1.5; echo mine", part_of="-")
    host.until(lambda: "4243" in host.inside("one", "ps", "-eo", "args"), "it does not begin")
    host.mail("lead")
    hit = host.ask("lead", "CancelTask", task=task, reason="no need")["hit"]
    assert [(task_["agent"], task_["state"]) for task_ in hit] == [("one", "stopping")]
    assert results_of(host, task)[0]["status"] == "stopped"
    running = host.inside("one", "ps", "-eo", "args")
    assert "4242" not in running
    assert "4243" not in running
    assert row(host, task)["state"] == "cancelled"
    assert results_of(host, other)[0]["summary"] == "mine"
    assert host.main_pid("one") == pid


def test_an_agent_that_ignores_a_cancel_has_its_container_ended(host: HiveHost) -> None:
    """K14: after the grace; the agent comes back."""
    task = give(host, "held", "never mind")
    assert [message["kind"] for message in host.mail("held")] == ["task"]
    host.ask("held", "BeginTask", task=task)
    host.close_connections("held")
    pid = host.main_pid("held")
    host.ask("lead", "CancelTask", task=task)
    assert row(host, task)["state"] == "stopping"
    assert results_of(host, task)[0]["status"] == "stopped"
    host.until(lambda: host.main_pid("held") not in (0, pid), "it does not come back")


def test_a_task_timeout_asks_for_a_report_and_then_ends_the_task(host: HiveHost) -> None:
    """Q23: the worker is asked for a report, then stopped; the partial result is kept."""
    task = give(host, "held", "slow", soft=0.5, deadline=2)
    host.ask("held", "BeginTask", task=task)
    host.until(
        lambda: "task_report" in [message["kind"] for message in host.mail("held")], "not asked"
    )
    reaches(host, task, "stopping")
    host.ask("held", "FinishTask", task=task, status="partial", summary="a half", data={"n": 1})
    (result,) = results_of(host, task)
    assert (result["status"], result["summary"], result["data"]) == ("timeout", "a half", {"n": 1})
    assert host.follow("lead", "WatchTask", 3, task=task)[-1]["state"] == "done"


def test_a_crash_ends_the_task_with_the_reason(host: HiveHost) -> None:
    """T13: once, and who waited for it hears of it."""
    task = give(host, "two", "sleep 100")
    after = give(host, "three", "echo after", needs=[task])
    reaches(host, task, "in_progress")
    host.until(lambda: "sleep 100" in host.inside("two", "ps", "-eo", "args"), "not begun")
    host.run("sh", "-c", f"kill -KILL {host.main_pid('two')}")
    one, other = results_of(host, task, after)
    assert (one["status"], other["status"]) == ("failed", "failed")
    assert one["error"].startswith("two ended: ")
    assert task in other["error"]


def test_a_crashed_worker_repeats_its_task_if_retries_are_set(host: HiveHost) -> None:
    """T13: the same agent starts again on behalf of the assigner, with its stored state."""
    text = "test -e /agents/two/state/once || { touch /agents/two/state/once; sleep 100; }; echo ok"
    task = give(host, "two", text, requeue=1)
    host.until(lambda: "sleep 100" in host.inside("two", "ps", "-eo", "args"), "not begun")
    host.run("sh", "-c", f"kill -KILL $(pgrep -P $(pgrep -P {host.main_pid('two')}))")
    (result,) = results_of(host, task)
    assert (result["status"], result["summary"], result["attempts"]) == ("success", "ok", 2)


def test_tasks_quarantines_and_switched_off_sockets_after_a_kill_of_the_daemon(
    host: HiveHost,
) -> None:
    """K10, K32, T12, T13; attack 44."""
    tell_with_kills(
        host, _tasks_continue(host), _a_task_outlives_its_machine(host),
        _nothing_leaves_a_quarantine(host), _the_socket_of_webhooks_goes(host),
    )  # fmt: skip


def _tasks_continue(host: HiveHost) -> Iterator[None]:
    """Running, queued and waiting ones; each ends once, and unblocks who waited."""
    until_told = "until test -e /agents/one/state/told; do sleep 0.1; done; echo long"
    long = give(host, "one", until_told)
    waits = give(host, "two", "echo then", needs=[long])
    yield
    assert row(host, waits)["state"] == "waiting"
    host.inside("one", "touch", "/agents/one/state/told")
    first, then = results_of(host, long, waits)
    assert (first["summary"], then["summary"]) == ("long", "then")
    finishes = [
        event["fields"]["task"] for event in host.events(last=200)
        if event["kind"] == "task" and event["operation"] == "finish"
    ]  # fmt: skip
    assert (finishes.count(long), finishes.count(waits)) == (1, 1)


# The first run waits to be killed; the second one ends.
ONCE = "test -e /agents/{0}/state/once || {{ touch /agents/{0}/state/once; sleep 100; }}; echo ok"
# After a restart it runs its begun tasks again, as a session goes on from its log.
SESSION: dict[str, object] = {
    "parent": "lead", "command": ["hive-agent", "serve", "--", "sh"], "runtime": "builtin",
}  # fmt: skip


def begin_once(host: HiveHost, agent: str) -> str:
    """A task that its agent has begun, and whose first run goes on."""
    task = give(host, agent, ONCE.format(agent), deadline=0)
    host.until(lambda: "sleep 100" in host.inside(agent, "ps", "-eo", "args"), "not begun")
    return task


def _a_task_outlives_its_machine(host: HiveHost) -> Iterator[None]:
    """K10, T13: the daemon starts its agent again: same attempt, one end."""
    host.grow(again={**SESSION, "role": "daemon"})
    task = begin_once(host, "again")
    host.run("sh", "-c", f"kill -KILL {host.main_pid('again')}")
    yield
    reaches(host, task, "done")
    result = row(host, task)["result"]
    assert (result["status"], result["summary"], result["attempts"]) == ("success", "ok", 1)
    history = [event["event"] for event in host.call("GetTask", task=task)["history"]]
    assert history.count("interrupt") == 1
    assert [history.count(end) for end in ("finish", "fail", "drop")] == [1, 0, 0]


def _nothing_leaves_a_quarantine(host: HiveHost) -> Iterator[None]:
    """Attack 44: from inside the container, until it is lifted.

    T13: a task fails with an agent that stays down, as a worker does.
    """
    host.grow(stays={**SESSION, "role": "worker"})
    host.hive("quarantine", "stays", "--reason", "it writes to everybody")
    yield
    words = ("hive-agent", "send", "lead", "copy this to everybody")
    refused = host.inside("stays", "sh", "-c", f"{words[0]} send lead copy 2>&1; echo $?")
    assert "stays is held by a quarantine of it" in refused
    assert refused.split()[-1] == "5"
    assert "stays is in quarantine" in host.hive("status")
    host.hive("quarantine", "stays", "--lift")
    host.inside("stays", *words)
    assert any(letter["body"] == words[-1] for letter in host.mail("lead"))
    task = begin_once(host, "stays")
    host.run("sh", "-c", f"kill -KILL $(pgrep -P $(pgrep -P {host.main_pid('stays')}))")
    assert results_of(host, task)[0]["status"] == "failed"


def _the_socket_of_webhooks_goes(host: HiveHost) -> Iterator[None]:
    """Where they are switched off."""
    host.run("install", "-o", "hive", "-g", "hive", "/dev/null", "/run/hive/hooks.sock")
    yield
    test = ("test", "-e", "/run/hive/hooks.sock")
    host.until(lambda: host.run(*test, check=False).returncode == 1, "the socket is still there")


def test_a_waiting_task_never_destroys_a_running_one(host: HiveHost) -> None:
    """As it is by default: neither its deadline nor a cancel of it touches what runs."""
    command = ["hive-agent", "serve", "--", "sh"]
    host.grow(sv={"parent": "lead", "role": "worker", "command": command})
    runs = give(host, "sv", f"sleep {3 * GRACE}; echo A", deadline=60)
    reaches(host, runs, "in_progress")
    late = give(host, "sv", "sleep 1; echo B", deadline=2)
    unwanted = give(host, "sv", "echo C")
    assert host.ask("lead", "CancelTask", task=unwanted)["state"] == "cancelled"
    assert row(host, late)["state"] == "queued"
    first, second = results_of(host, runs, late)
    assert (first["status"], first["summary"]) == ("success", "A")
    assert (second["status"], second["summary"]) == ("success", "B")


def test_the_program_and_the_daemon_agree_on_concurrent_tasks(host: HiveHost) -> None:
    """`parallel` of the spec is that of `hive-agent serve` too."""
    command = ["hive-agent", "serve", "--", "sh"]
    host.grow(pair={"parent": "lead", "role": "worker", "parallel": 2, "command": command})
    both = "until test -e /tmp/$1; do sleep 0.1; done"
    one = give(host, "pair", f"touch /tmp/one; set -- two; {both}; sleep 1")
    two = give(host, "pair", f"touch /tmp/two; set -- one; {both}; sleep 1")
    third = give(host, "pair", "true")
    reaches(host, one, "in_progress")
    reaches(host, two, "in_progress")
    assert row(host, third)["state"] == "queued"
    assert {result["status"] for result in results_of(host, one, two, third)} == {"success"}


def test_a_task_above_the_concurrency_waits_until_the_daemon_begins_it(host: HiveHost) -> None:
    """K14: `parallel` of the agent; by priority, then by age."""
    host.grow(narrow={"parent": "lead", "role": "worker", "parallel": 1, "command": DOES})
    hold = give(host, "narrow", "sleep 3")
    late, soon = give(host, "narrow", "true"), give(host, "narrow", "true", priority=0)
    assert row(host, soon)["state"] == "queued"
    results_of(host, hold, late, soon)
    assert row(host, soon)["started"] < row(host, late)["started"]


def test_only_ancestors_assign_tasks_and_only_the_assignee_reports(host: HiveHost) -> None:
    """T9, K14, K16, Q22, Q24: progress is seen, and a late report meets the first one."""
    task = give(host, "held", "x")
    assert host.ask("one", "AssignTask", agent="held", description="x").error == "NotAllowed"
    assert host.ask("one", "CancelTask", task=task).error == "NotAllowed"
    assert host.ask("held", "AssignTask", agent="lead", description="x").error == "NotAllowed"
    report = {"task": task, "status": "success", "summary": "mine"}
    assert host.ask("lead", "FinishTask", **report).error == "NotAllowed"
    host.ask("held", "ReportProgress", task=task, text="half", percent=50)
    assert row(host, task)["percent"] == 50
    assert not host.ask("held", "FinishTask", **report).error
    late = host.ask("held", "FinishTask", **{**report, "summary": "other"})
    assert (late.error, late.parameters["result"]["summary"]) == ("Conflict", "mine")


def test_the_same_key_gives_one_task(host: HiveHost) -> None:
    """Q42."""
    result = {"agent": "held", "description": "x", "idempotency_key": "once"}
    first, again = (host.ask("lead", "AssignTask", **result) for _ in range(2))
    assert first["task"] == again["task"]
    host.ask("lead", "CancelTask", task=first["task"])


def test_the_task_board_shows_the_operator_all_and_a_lead_its_subtree(host: HiveHost) -> None:
    """T11: list, board and history on the command line, and in the container."""
    task = host.hive("task", "assign", "held", "Look around", "--title", "Look").strip()
    assert f"{task}  held  Look" in host.hive("task", "board")
    assert task in host.inside("lead", "hive-agent", "list-tasks", "--open")
    assert "assign -> queued  by operator" in host.hive("task", "show", task)
    host.hive("task", "cancel", task)
    assert row(host, task)["state"] in ("cancelled", "stopping")
