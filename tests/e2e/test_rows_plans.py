"""Plans, waits, fan-out, and the built-in queen, lead and workers, through real sockets.

T2, T4, T6, T7; Q20-Q23, Q25, Q26, Q40; K32-K35.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.hivehost import HiveHost, Reply
from e2e.kills import tell_with_kills
from e2e.shared_hosts import SharedHost
from long import at_most, seed, times

pytestmark = pytest.mark.lab("slow")

TREE: dict[str, str | None] = {"root": None, "boss": "root", "hand": "boss", "queen": "root"}
WORKER = ["hive-agent", "worker"]
MEMORY = "/agents/queen/state/built-in.json"


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("plans")
    made.wait("running", "queen")
    made.grow(boss={"role": "lead"})
    made.grow(hand={"parent": "boss", "role": "worker"})
    return made


@pytest.fixture(autouse=True)
def tidy(host: HiveHost) -> Iterator[None]:
    for agent in ("boss", "hand"):
        host.mail(agent)
    yield
    host.call("StopWork", reason="the test is over", grace=0, wait=15)
    host.prune(TREE)


def give(host: HiveHost, text: str = "mend it", **more: object) -> str:
    task = str(host.ask("boss", "AssignTask", agent="hand", description=text, **more)["task"])
    host.until(lambda: host.mail("hand"), "the task does not come")
    return task


def task(host: HiveHost, id_: str) -> dict[str, Any]:
    result: dict[str, Any] = host.call("GetTask", task=id_)["task"]
    return result


def heads(host: HiveHost, agent: str, kind: str) -> list[dict[str, Any]]:
    """The first lines of its mail of one kind, with the wait that it ended."""
    result = []
    for message in host.mail(agent, wait=10):
        if message["kind"] == kind:
            result.append(
                {**json.loads(message["body"].partition("\n")[0]), "woke": message["wait_id"]}
            )
    return result


def test_plans_and_waits_outlive_kills_of_the_daemon(host: HiveHost) -> None:
    """T4, T6, T7: no step runs before the plan is approved; waits end as they were asked to."""
    tell_with_kills(
        host, _no_step_runs_before_the_plan_is_approved(host), _waits_need_no_open_connection(host)
    )


def _no_step_runs_before_the_plan_is_approved(host: HiveHost) -> Iterator[None]:
    """Submitted, prompted, locked, decided by id, once."""
    id_ = give(host, plan_required=True)
    tool = {"tool": "command", "argument": ["true"], "task": id_}
    steps = [{"title": "look"}, {"title": "mend"}]
    assert host.ask("hand", "UseTool", **tool).error == "NotAllowed"
    first = host.ask("hand", "CreatePlan", task=id_, steps=steps)["plan"]
    (asked,) = heads(host, "boss", "plan_submitted")
    assert (asked["task"], asked["plan"]) == (id_, first)
    host.ask("boss", "Send", to="hand", kind="plan_approved", body=f"approved: {first}")
    yield
    assert host.ask("hand", "UseTool", **tool).error == "NotAllowed"
    done = {"task": id_, "status": "success", "summary": "x"}
    assert host.ask("hand", "FinishTask", **done).error == "Conflict"
    host.ask("boss", "RejectPlan", task=id_, plan=first, reason="smaller")
    second = host.ask("hand", "CreatePlan", task=id_, steps=steps)["plan"]
    assert host.ask("boss", "ApprovePlan", task=id_, plan=first).error == "Conflict"
    assert host.ask("hand", "ApprovePlan", task=id_, plan=second).error == "NotAllowed"
    assert host.ask("boss", "ApprovePlan", task=id_, plan=second)["state"] == "approved"
    yield
    assert host.ask("boss", "ApprovePlan", task=id_, plan=second).error == "Conflict"
    assert not host.ask("hand", "UseTool", **tool).error
    assert host.ask("hand", "UpdatePlanStep", plan=second, step=1, status="done")["plan"] == second


def _waits_need_no_open_connection(host: HiveHost) -> Iterator[None]:
    """Several at once; a word, an end and a deadline end them."""
    host.grow(pal={"parent": "boss", "role": "worker"})
    yield  # a plan that is submitted ends every wait of its assigner
    id_ = str(host.ask("boss", "AssignTask", agent="pal", description="mend it")["task"])
    for_task = host.ask("boss", "WaitFor", tasks=[id_])["wait_id"]
    for_word = host.ask("boss", "WaitFor", agents=["pal"])["wait_id"]
    for_time = host.ask("boss", "WaitFor", agents=["root"], deadline=2)["wait_id"]
    rows = host.call("ListAgents", root="boss")["agents"]
    assert next(row for row in rows if row["name"] == "boss")["activity"] == "blocked"
    yield
    host.ask("pal", "Send", to="boss", body="how?")
    letters: list[dict[str, Any]] = []

    def came(kind: str) -> list[dict[str, Any]]:
        letters.extend(host.mail("boss"))
        return [letter for letter in letters if letter["kind"] == kind]

    host.until(lambda: came("message"), "no word comes")
    (letter,) = came("message")
    assert letter["wait_id"] == for_word
    host.ask("boss", "Send", to="pal", body="so", reply_to=letter["id"])
    host.ask("pal", "FinishTask", task=id_, status="success", summary="done")
    host.until(lambda: len(came("wait_over")) == 2, "the waits do not end")
    documents = (json.loads(message["body"].partition("\n")[0]) for message in came("wait_over"))
    ended = {document["wait_id"]: document["reason"] for document in documents}
    assert ended == {for_task: "tasks", for_time: "deadline"}
    assert host.ask("boss", "ListWaits")["waits"] == []


def test_the_operator_approves_on_the_command_line(host: HiveHost) -> None:
    """T7: `hive plan show`, `approve`, `reject`."""
    id_ = give(host, plan_required=True)
    plan = host.ask("hand", "CreatePlan", task=id_, steps=[{"title": "look"}])["plan"]
    assert "look" in host.hive("plan", "show", id_)
    host.hive("plan", "reject", id_, plan, "not like this")
    assert host.json("plan", "show", plan)["state"] == "rejected"
    plan = host.ask("hand", "CreatePlan", task=id_, steps=[{"title": "see"}])["plan"]
    host.hive("plan", "approve", id_, plan)
    assert task(host, id_)["state"] == "in_progress"


def test_the_plan_of_the_root_agent_needs_no_approval(host: HiveHost) -> None:
    """T2: the root agent's own plan needs no approval."""
    reply = host.ask("root", "CreatePlan", steps=[{"title": "think"}])
    assert (reply["state"], reply["decides"]) == ("approved", "")
    assert host.ask("boss", "CreatePlan", steps=[{"title": "think"}]).error == "InvalidArgument"


def test_a_script_waits_for_tasks_up_to_its_timeout(host: HiveHost) -> None:
    """Q21: a call with a deadline."""
    id_ = give(host)
    begun = time.monotonic()
    assert host.ask("boss", "WaitTasks", tasks=[id_], wait=1)["done"] is False
    assert time.monotonic() - begun < at_most(5)
    host.ask("hand", "FinishTask", task=id_, status="partial", summary="half")
    (end,) = host.ask("boss", "WaitTasks", tasks=[id_], wait=20)["tasks"]
    assert (end["status"], end["summary"]) == ("partial", "half")


def fan(host: HiveHost, lines: list[str], **more: object) -> Reply:
    tasks = [{"task": line, "data": {"n": n}} for n, line in enumerate(lines)]
    return host.ask("boss", "RunParallelWorkers", tasks=tasks, **more)


def batch(host: HiveHost, begun: Reply, state: str = "done", seconds: float = 60) -> dict[str, Any]:
    """The batch once it has come to this state."""

    def there() -> bool:
        return bool(host.call("GetBatch", batch=begun["batch"])["state"] == state)

    host.until(there, f"the batch is not {state}", seconds)
    return host.call("GetBatch", batch=begun["batch"]).parameters


def test_fan_out_queues_above_its_concurrency_and_reports_in_order(host: HiveHost) -> None:
    """Q20, Q22: real workers in containers; one notice; they go when it is over."""
    begun = fan(host, [f"sum {n} 1" for n in range(6)], concurrency=2)
    assert begun["worker_count"] == 2
    assert [bool(task) for task in begun["tasks"]] == [True, True, *[False] * 4]
    result = batch(host, begun)
    assert [report["summary"] for report in result["reports"]] == [str(n + 1) for n in range(6)]
    assert {report["status"] for report in result["reports"]} == {"success"}
    assert len(heads(host, "boss", "batch_done")) == 1
    assert not set(begun["workers"]) & set(host.tree())


def test_a_timeout_ends_the_remaining_tasks_of_a_batch(host: HiveHost) -> None:
    """Q23: ended tasks keep their result; running and queued ones end as timeout."""
    begun = fan(host, ["sum 1 2", "sleep 600", "sum 3 4"], concurrency=2, timeout=30)
    host.until(lambda: host.call("GetBatch", batch=begun["batch"])["open"] < 3, "nothing ends", 30)
    result = batch(host, begun, "timeout")
    statuses = [report["status"] for report in result["reports"]]
    assert statuses[0] == "success"
    assert statuses[1] == "timeout"
    assert len(set(begun["workers"]) & set(host.tree())) == 0


def test_a_worker_repeats_its_task_after_a_crash(host: HiveHost) -> None:
    """Q20, T13: requeued as asked, and one end only."""
    begun = fan(host, ["crash 1", "sum 2 2"], concurrency=2, requeue=2)
    result = batch(host, begun)
    assert [report["status"] for report in result["reports"]] == ["success", "success"]
    assert result["reports"][0]["attempts"] == 2


def test_stop_work_ends_running_and_queued_tasks(host: HiveHost) -> None:
    """Q40, Q23: what really stopped is said within seconds; it goes on with guidance."""
    begun = fan(host, ["sleep 600"] * 4, concurrency=2)
    queued = host.ask("boss", "AssignTask", agent="hand", description="x")["task"]
    running = [id_ for id_ in begun["tasks"] if id_]
    host.until(lambda: all(task(host, id_)["attempt"] for id_ in running), "nothing runs", 30)
    at = time.monotonic()
    reply = host.ask("boss", "StopWork", reason="enough", wait=20)
    assert time.monotonic() - at < at_most(15)
    assert reply["stopping"] == 0
    assert {task["task"] for task in reply["tasks"]} >= {queued, *running}
    assert {task["status"] for task in reply["tasks"]} == {"stopped"}
    assert reply["batches"] == [begun["batch"]]
    reports = batch(host, begun, "stopped")["reports"]
    assert [report["status"] for report in reports] == ["stopped"] * 4
    host.mail("hand")
    again = host.ask("boss", "ResumeTask", task=queued, guidance="slower")
    assert again["resumes"] == queued
    bodies: list[str] = []

    def came() -> bool:
        bodies.extend(message["body"] for message in host.mail("hand"))
        return bool(bodies)

    host.until(came, "nothing comes")
    assert "Guidance: slower" in bodies[-1]


def test_a_worker_takes_guidance_and_its_status_has_six_views(host: HiveHost) -> None:
    """Q25, Q26: delivered or not is said; views are rationed."""
    assert host.ask("boss", "InjectMessage", body="x")["result"] == "not_active"
    id_ = give(host)
    reply = host.ask("boss", "InjectMessage", body="faster")
    assert (reply["result"], reply["task"]) == ("delivered", id_)
    assert [message["body"] for message in host.mail("hand")] == ["faster"]
    host.ask("hand", "ReportProgress", task=id_, text="half way", percent=50)
    assert "50 %, says: half way" in host.ask("boss", "GetWorkerStatus", focus="progress")["text"]
    again = host.ask("boss", "GetWorkerStatus", focus="progress")
    assert again.error == "LimitReached"
    for focus in ("activity", "memory", "tools", "issues", "full"):
        assert "hand (worker): running" in host.ask("boss", "GetWorkerStatus", focus=focus)["text"]
    host.call("Stop", agent="hand", wait=20)
    assert host.ask("boss", "InjectMessage", body="x", worker="hand")["result"] == "not_active"


def job(draw: random.Random, *extra: str) -> tuple[str, str]:
    """A text that was never seen, and what has to come out of it."""
    numbers = [[draw.randrange(1000) for _ in range(4)] for _ in range(3)]
    first, second, third = numbers
    lines = [
        *extra, "domain sums", "group", f"sum {' '.join(map(str, first))}",
        f"max {' '.join(map(str, second))}", "group", f"sum {' '.join(map(str, third))}",
        "combine sum",
    ]  # fmt: skip
    return "\n".join(lines), str(sum(first) + max(second) + sum(third))


def ask_queen(host: HiveHost, text: str) -> str:
    made = host.call("AssignTask", agent="queen", description=text, requeue=5, deadline=150)
    return str(made["task"])


def task_result(host: HiveHost, id_: str, seconds: float = 90) -> dict[str, Any]:
    host.until(lambda: task(host, id_)["result"], "the queen does not report", seconds)
    result: dict[str, Any] = task(host, id_)["result"]
    return result


def memory(host: HiveHost) -> list[dict[str, Any]]:
    """What the queen remembers of tasks, the oldest first."""
    rows: list[dict[str, Any]] = json.loads(host.inside("queen", "cat", MEMORY))["history"]
    return rows


def test_a_short_task_goes_from_the_queen_to_one_agent(host: HiveHost) -> None:
    """K33: simple; the agent of role `task` is there for it alone, the result is stored."""
    draw = random.Random(seed())  # noqa: S311 - numbers to add up
    numbers = [draw.randrange(1000) for _ in range(5)]
    result = task_result(host, ask_queen(host, f"sum {' '.join(map(str, numbers))}"))
    assert (result["status"], result["summary"]) == ("success", str(sum(numbers)))
    assert result["data"]["strategy"] == "simple"
    assert result["artifacts"]


def test_a_job_goes_from_the_queen_through_a_lead_to_workers_and_back(host: HiveHost) -> None:
    """K33, K34: split, done beside each other, put together; the same domain keeps its lead.

    K43: what the queen remembers outlasts a restart.
    """
    draw = random.Random(seed())  # noqa: S311 - numbers to add up
    text, result = job(draw)
    answer = task_result(host, ask_queen(host, text))
    assert (answer["status"], answer["summary"]) == ("success", result)
    assert answer["data"]["strategy"] == "complex"
    lead = answer["data"]["by"]
    assert host.tree()[lead] == "queen"
    remembered = memory(host)
    host.hive("restart", "queen")
    text, result = job(draw)
    answer = task_result(host, ask_queen(host, text))
    assert (answer["summary"], answer["data"]["by"]) == (result, lead)
    host.until(lambda: len(memory(host)) > len(remembered), "it was not remembered")
    assert memory(host)[: len(remembered)] == remembered


def test_a_failed_plan_is_revised_by_the_sleeping_architect(host: HiveHost) -> None:
    """K35: plan as an artifact, sleep, wake on failure, and the lead tries again."""
    text = "architect\ngroup\nplease sum 20 22\ncombine lines"
    result = task_result(host, ask_queen(host, text), 150)
    assert (result["status"], result["summary"]) == ("success", "42")
    assert result["data"]["strategy"] == "architect"
    artifacts = host.call("ListArtifacts", prefix="plan-")["artifacts"]
    assert {artifact["visibility"] for artifact in artifacts} == {"subtree"}
    assert max(artifact["version"] for artifact in artifacts if artifact["owner"] == "queen") == 2


def test_after_failed_revisions_the_task_is_tried_without_a_plan(
    host: HiveHost,
) -> None:
    """K35: fallback to complex."""
    result = task_result(host, ask_queen(host, "architect\nkeep workers\ngroup\nfail 99 x"), 150)
    assert (result["status"], result["data"]["strategy"]) == ("failed", "complex")
    assert (result["data"]["instead_of"], result["data"]["faults"]) == ("architect", ["fail 99 x"])


# The long form has each alone, too.
VICTIMS = [("queen", "worker"), ("lead", "hived")]
ALONE = [(victim,) for victims in VICTIMS for victim in victims]


@pytest.mark.sized
@pytest.mark.parametrize("victims", [*VICTIMS, *ALONE][: times(2, 6)], ids="+".join)
def test_killing_any_participant_leaves_the_right_result(
    host: HiveHost, victims: tuple[str, ...]
) -> None:
    """K32, K33, T13: kill -9 of participants at random moments; each task ends once."""
    number = seed()
    draw = random.Random(f"{number} {victims}")  # noqa: S311 - which moment, not a secret
    text, result = job(draw, f"echo {' '.join(victims)}")
    text = text.replace("combine sum", "group\nsleep 1\ncombine lines")
    before = host.events(last=1)[0]["seq"]
    id_ = ask_queen(host, text)
    for victim in victims:
        strike(host, victim, draw)
    answer = task_result(host, id_, 150)
    assert answer["status"] == "success", (number, answer)
    numbers = [int(word) for word in answer["summary"].split() if word.isdigit()]
    assert str(sum(numbers)) == result
    assert set(ends(host, before).values()) == {1}


def strike(host: HiveHost, victim: str, draw: random.Random) -> None:
    """Kill it at some moment after it has begun to take part."""
    if victim == "hived":
        host.until(lambda: members(host, "lead"), "there is no lead", 30)
        time.sleep(draw.uniform(0, 1.5))
        host.kill()
        return
    host.until(lambda: members(host, victim), f"there is no {victim}", 30)
    name = draw.choice(members(host, victim))
    host.until(lambda: host.main_pid(name), f"{name} does not run", 30)
    time.sleep(draw.uniform(0, 1))
    host.run("systemctl", "kill", "--signal=KILL", f"hive-agent@{name}.service", check=False)


def members(host: HiveHost, role: str) -> list[str]:
    """Agents of the queen's that take part in this role."""
    rows = host.call("ListAgents", root="queen")["agents"]
    roles = {"queen": "daemon", "lead": "lead", "worker": "worker"}
    return [row["name"] for row in rows if row["role"] == roles[role]]


def ends(host: HiveHost, after: int) -> Counter[str]:
    """How often each task came to an end since then."""
    finals = ("finish", "fail", "drop", "stopped", "expired")
    events = host.events(after=str(after), limit=1000)
    result = [event for event in events if event["kind"] == "task" and event["operation"] in finals]
    return Counter(event["fields"]["task"] for event in result)
