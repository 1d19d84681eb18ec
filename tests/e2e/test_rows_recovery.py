"""K32 in real containers: hived is killed again and again while agents work."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from e2e.hivehost import HiveHost, Reply
from e2e.shared_hosts import SharedHost
from long import figure, seed, times

pytestmark = pytest.mark.lab
WORKERS = ("one", "two", "three")
DOES = ["hive-agent", "serve", "--parallel", "2", "--", "sh", "-e"]
GIVEN, EACH = 1_000_000, 7
# The text of a task is the script that does it; what is done twice has the same key.
SCRIPT = """
# A daemon that is killed answers nothing: the same again, which its key makes one.
ask() {{ until hive-agent call "$@"; do sleep 0.2; done; }}
ask ReportUsage '{{"tokens_in": {each}, "idempotency_key": "report-{n}"}}' >&2
ask StoreArtifact '{{"name": "made/{n}", "text": "made {n}", "visibility": "subtree",
 "idempotency_key": "store-{n}"}}' >&2
ask Remind '{{"body": "mind {n}", "in": 1, "idempotency_key": "remind-{n}"}}' >&2
ask Ask '{{"items": ["what {n}?"], "idempotency_key": "ask-{n}"}}' >&2
echo did {n}
"""


@pytest.fixture(scope="module")
def host(shared_host: SharedHost) -> HiveHost:
    made = shared_host.prepare("plans")
    made.grow(lead={"role": "lead"}, bell={"parent": "root"})
    worker: dict[str, object] = {"parent": "lead", "role": "worker", "command": DOES}
    made.grow(**dict.fromkeys(WORKERS, worker))
    return made


def persist(host: HiveHost, method: str, **words: object) -> Reply:
    """The same call until it is answered; with its key it is done once."""
    answers: list[Reply] = []

    def has_answer() -> bool:
        with suppress(OSError, EOFError, ValueError):
            answers.append(host.call(method, **words))
        return bool(answers)

    host.until(has_answer, f"{method} is not answered", 30)
    return answers[0]


def kill(host: HiveHost) -> None:
    words = ("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "hived.service")
    host.run(*words, check=False)


def state_of(host: HiveHost) -> dict[str, object]:
    """What must not change over another kill."""
    lead = persist(host, "ListTasks", agent="lead", limit=1000)["tasks"]
    questions = persist(host, "ListQuestions", which="subtree", limit=1000)["questions"]
    budgets = persist(host, "GetUsage", agent="lead")["budgets"]
    artifacts = persist(host, "ListArtifacts", limit=1000)["artifacts"]
    return {
        "tasks": sorted((row["id"], row["state"]) for row in lead),
        "questions": sorted((row["id"], row["state"]) for row in questions),
        "budgets": [row for row in budgets if row["kind"] == "tokens"],
        "artifacts": sorted((row["id"], row["name"]) for row in artifacts),
    }


@pytest.mark.sized
def test_daemon_crashes_lose_and_repeat_no_work(host: HiveHost) -> None:
    """K32: tasks end once, questions, reminders, artifacts, budgets and triggers are kept."""
    number, kills, tasks = seed(), times(1, 100), times(4, 300)
    chance = Random(number)  # noqa: S311 - a schedule, no secret
    pids = host.pids(*WORKERS)
    persist(host, "AllocateBudget", agent="root", kind="tokens", amount=GIVEN, idempotency_key="b")
    bell = persist(
        host, "SetTrigger", agent="bell", name="bell", when={"every": 1.0}, missed="all",
        action={"kind": "message", "text": "ding"}, idempotency_key="bell",
    )["id"]  # fmt: skip
    at = sorted(chance.sample(range(tasks), min(kills, tasks)))
    result = []
    for n in range(tasks):
        result.append(persist(
            host, "AssignTask", agent=chance.choice(WORKERS), title=f"job {n}", deadline=120.0,
            description=SCRIPT.format(n=n, each=EACH), idempotency_key=f"job-{n}",
        )["task"])  # fmt: skip
        for _ in range(at.count(n)):
            kill(host)
    host.until(lambda: not _open(host, result), "some work does not end", 90)
    before = state_of(host)
    kill(host)  # reminders of the last tasks are still to come
    assert state_of(host) == before
    _once(host, result)
    host.until(lambda: _reminder_count(host) >= tasks, "a reminder is missing", 30)
    assert _reminder_count(host) == tasks
    fires = [event["fields"] for event in _events(host) if event["operation"] == "fire"]
    dues = [fields["due"] for fields in fires if fields.get("trigger") == bell]
    assert len(dues) == len(set(dues)) >= 1
    assert host.pids(*WORKERS) == pids, "no container noticed"
    figure("K32 in containers", kills=len(at) + 1, tasks=tasks, seed=number)


def _open(host: HiveHost, tasks: list[str]) -> list[str]:
    rows = persist(host, "ListTasks", agent="lead", limit=1000, open=True)["tasks"]
    return [row["id"] for row in rows if row["id"] in tasks]


def _once(host: HiveHost, tasks: list[str]) -> None:
    """Every task with its one end, and every effect of its script once."""
    assert len(set(tasks)) == len(tasks)
    for n, task in enumerate(tasks):
        result = persist(host, "GetTask", task=task)["task"]
        assert (result["result"]["status"], result["result"]["summary"]) == ("success", f"did {n}")
    ends = Counter(
        event["fields"]["task"] for event in _events(host)
        if event["kind"] == "task" and event["fields"]["state"] == "done"
        and event["fields"]["task"] in tasks
    )  # fmt: skip
    assert ends == Counter(tasks)
    asked = persist(host, "ListQuestions", which="subtree", limit=1000)["questions"]
    assert len([row for row in asked if row["asker"] in WORKERS]) == len(tasks)
    made = persist(host, "ListArtifacts", prefix="made/", limit=1000)["artifacts"]
    assert sorted(row["name"] for row in made) == sorted(f"made/{n}" for n in range(len(tasks)))
    (purse,) = persist(host, "GetUsage", agent="lead")["budgets"]
    assert (purse["spent"], purse["left"]) == (EACH * len(tasks), GIVEN - EACH * len(tasks))


def _reminder_count(host: HiveHost) -> int:
    """Reminders that came, by their ids."""
    return sum(
        event["kind"] == "reminder" and event["operation"] == "come" for event in _events(host)
    )  # fmt: skip


def _events(host: HiveHost) -> list[dict[str, Any]]:
    """Those since this file began."""
    events, after = list[dict[str, Any]](), str(host.began)
    while page := persist(host, "ListEvents", limit=1000, after=after)["events"]:
        events += page
        after = str(page[-1]["seq"])
    return events
