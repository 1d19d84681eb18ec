"""K32: after a kill at any step all work in the tree is there, once (spec/roles.md, row 32)."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest
from chaos.random_work import EVERY, GIVEN, QUEUE, WORKERS, History, RestartedWorld, begin, live
from fixtures.world import rows
from long import asked, figure, seed, times

from hive_core.errors import NotFound
from hive_core.model.wire.record import OPERATOR, Event
from hive_core.model.work.budget import BudgetKind


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(mkdtemp(prefix="hive-working-", dir="/dev/shm"))
    yield made
    shutil.rmtree(made)


@pytest.mark.sized
def test_kills_lose_and_repeat_nothing(folder: Path) -> None:
    """Each life ends by SIGKILL in the middle; the next one goes on and asks again what is open."""
    number, lives = seed(), times(4, 1500)
    chance, history = Random(number), History()  # noqa: S311 - a schedule, no secret
    bell = begin(folder, history)
    born = history.time
    for _ in range(lives):
        live(folder, history, Random(chance.getrandbits(64)))  # noqa: S311 - the same
    end = RestartedWorld(folder, history)
    settle(end, history)
    result = list(verdict(end, history, bell, born))
    done = Counter(
        row["operation"] for row in history.asked
        if "refused" not in history.answers.get(row["asked"], {"refused": ""})
    )  # fmt: skip
    end.close()
    assert not result, (number, result[:20])
    figure("K32 work over kills", lives=lives, done=dict(done), at=dict(history.kills), seed=number)


def settle(end: RestartedWorld, history: History) -> None:
    """What was not answered is asked again, all open work is ended, and time passes."""
    end.run()
    if (row := history.open) is not None:
        history.answers[row["asked"]] = end.repeat_call(row)
    for name in WORKERS:
        for task in end.ledger.tasks.open_tasks(end.uuid(name)):
            end.call(OPERATOR, "cancel_task", task=task.id)
        for task in end.ledger.tasks.open_tasks(end.uuid(name)):
            end.call(name, "finish_task", task=task.id, status="stopped", summary="ended")
    for _ in range(times(12, 30)):
        end.advance(25.0)


def verdict(end: RestartedWorld, history: History, bell: str, born: float) -> Iterator[str]:
    """Everything that is not as those outside were told."""
    yield from _tasks(end, history)
    yield from _questions(end, history)
    yield from _mail(end, history)
    yield from _money(end, history)
    yield from _bell(end, bell, born)
    yield from _queue(end, history)
    for row, result in history.answered_calls("store_artifact"):
        artifact = end.call(row["caller"], "get_artifact", id=result["id"])["artifact"]
        if not isinstance(artifact, dict) or artifact["name"] != row["params"]["name"]:
            yield f"artifact {result['id']} is not there"
    if end.ledger.events.verify() is not None:
        yield "the chain of events is broken"


def _tasks(end: RestartedWorld, history: History) -> Iterator[str]:
    """Each is there once and ended once, as it was told."""
    every = [task for name in WORKERS for task in _all_tasks(end, name)]
    texts = Counter(str(task["title"]) for task in every)
    tasks = {result["task"] for _, result in history.answered_calls("assign_task")}
    if {str(task["id"]) for task in every} != tasks:
        yield f"tasks: {len(every)} there, {len(tasks)} given"
    yield from (f"{text} is there {count} times" for text, count in texts.items() if count > 1)
    ends = Counter(
        str(event.fields["task"]) for event in _events(end, "task")
        if event.fields.get("state") in {"done", "cancelled"} and event.operation != "progress"
    )  # fmt: skip
    yield from (f"task {task} ended {ends[task]} times" for task in tasks if ends[task] != 1)
    for row, _ in history.answered_calls("finish_task"):
        result = end.ledger.tasks.require(row["params"]["task"]).result
        if result is None or result.summary != row["params"]["summary"]:
            yield f"task {row['params']['task']} lost its report"
    for row, _ in history.answered_calls("approve_plan"):
        if end.ledger.plans.newest(row["params"]["task"]) is None:
            yield f"the plan of {row['params']['task']} is gone"


def _all_tasks(end: RestartedWorld, name: str) -> list[dict[str, object]]:
    tasks, after = list[dict[str, object]](), None
    while True:
        page = end.call(OPERATOR, "list_tasks", agent=name, after=after)
        tasks += rows(page["tasks"])
        after = page["next"]
        if after is None:
            return tasks


def _events(end: RestartedWorld, kind: str) -> Iterator[Event]:
    after = 0
    while page := end.ledger.events.page(after, 1000):
        yield from (event for event in page if event.kind == kind)
        after = page[-1].seq


def _questions(end: RestartedWorld, history: History) -> Iterator[str]:
    """Answered once, with what the first who answered was told that counted."""
    ends = Counter(
        str(event.fields["question"]) for event in _events(end, "question")
        if event.fields["state"] != "open"
    )  # fmt: skip
    answers = {
        row["params"]["question"]: row["params"]["answers"]
        for row, _ in history.answered_calls("answer")
    }
    for _, result in history.answered_calls("ask"):
        require = end.ledger.questions.get(result["question"])
        if require is None or require.open != (ends[result["question"]] == 0):
            yield f"question {result['question']} is {require}"
    for id_, said in answers.items():
        require = end.ledger.questions.require(id_)
        if ends[id_] != 1 or list(require.answers) != said:
            yield f"question {id_} ended {ends[id_]} times with {require.answers}, not {said}"


def _mail(end: RestartedWorld, history: History) -> Iterator[str]:
    """Notes, reminders and wake-ups have one id each; an acknowledged message does not return."""
    there = [row for name in ("lead", *WORKERS) for row in _inbox(end, name)]
    every = {(row["got"], row["body"]) for row in history.got} | {
        (str(row["id"]), str(row["body"])) for row in there
    }  # fmt: skip
    lines = Counter(line for _, body in every for line in body.splitlines())
    said = [
        row["params"]["body"]
        for row, _ in (*history.answered_calls("send"), *history.answered_calls("remind"))
    ]
    yield from (f"{body!r} came {lines[body]} times" for body in said if lines[body] != 1)
    ids = {id_ for id_, _ in every}
    for _, result in history.answered_calls("wait_for"):
        sql = "SELECT state, message FROM waits WHERE id = ?"
        state, message = end.ledger.connection.row(sql, (result["wait_id"],)) or ("gone", "")
        # What was answered before it was read is taken out of the inbox by the daemon.
        known = message in ids or end.ledger.messages.get(message) is not None
        if state == "waiting" or not known:
            yield f"wait {result['wait_id']} is {state} by {message}"
    acked = {id_ for row, _ in history.answered_calls("ack") for id_ in row["params"]["ids"]}
    yield from (f"{row['id']} came back after its ack" for row in there if row["id"] in acked)


def _inbox(end: RestartedWorld, name: str) -> list[dict[str, object]]:
    messages, after = list[dict[str, object]](), None
    while True:
        page = end.call(OPERATOR, "list_messages", agent=name, after=after, limit=1000)
        messages += rows(page["messages"])
        after = page["next"]
        if after is None:
            return messages


def _queue(end: RestartedWorld, history: History) -> Iterator[str]:
    """What was put is there or was acked, and not both."""
    put = {result["id"] for _, result in history.answered_calls("put")}
    acked = {id_ for row, _ in history.answered_calls("ack") for id_ in row["params"]["ids"]} & put
    left = set[str]()
    end.advance(100_000.0)  # whatever was leased comes back
    while things := rows(end.call("wa", "take", queue=QUEUE, max=100)["things"]):
        left |= {str(thing["id"]) for thing in things}
    if left & acked or left | acked != put:
        yield f"queue: {len(put)} put, {len(acked)} acked, {len(left)} left"


def _money(end: RestartedWorld, history: History) -> Iterator[str]:
    """What was reported is written down once, and paid or owed once."""
    total = sum(row["params"]["tokens_in"] for row, _ in history.answered_calls("report_usage"))
    ended = 3 * len(history.answered_calls("finish_task"))
    usage: Counter[str] = Counter()
    for (_, kind, _), amount in end.ledger.budgets.usage.sums("", 0).items():
        usage[kind] += amount
    budgets = end.ledger.budgets.of_kind(BudgetKind.TOKENS)
    paid = sum(budget.spent + budget.over for budget in budgets)
    there = sum(budget.free + budget.spent for budget in budgets)
    sent, tasks = len(history.answered_calls("send")), len(history.answered_calls("assign_task"))
    result = (usage["tokens_in"], usage["tokens"], paid, there, usage["messages"], usage["tasks"])
    wanted = (total, ended, total + ended, GIVEN, sent, tasks)
    if result != wanted:
        yield f"budgets: {result} instead of {wanted}"


def _bell(end: RestartedWorld, bell: str, born: float) -> Iterator[str]:
    """It fired as often as its time had come."""
    due = [event.fields["due"] for event in _events(end, "trigger")
           if event.fields.get("trigger") == bell and event.operation == "fire"]  # fmt: skip
    count = sum(
        int(str(event.fields["count"])) for event in _events(end, "trigger")
        if event.operation == "fire"
    )  # fmt: skip
    wanted = int((end.clock.now() - born) // EVERY)
    if len(set(due)) != len(due) or count != wanted:
        yield f"the bell rang {count} times in {len(due)} fires, not {wanted} times"


TAMPERED = {
    "a task is gone": "DELETE FROM tasks WHERE number = (SELECT MIN(number) FROM tasks)",
    "a token is made of nothing": "UPDATE purses SET free = free + 1 WHERE over = 0",
    "a report is charged twice": "UPDATE usage SET amount = amount * 2 WHERE kind = 'tokens_in'",
    "a note is gone": "DELETE FROM messages WHERE body LIKE 'note %'",
    "an artifact is gone": "DELETE FROM artifacts",
    "a bell is forgotten": "DELETE FROM triggers",
}


@pytest.mark.sized
def test_the_verdict_detects_lost_and_duplicate_work(folder: Path) -> None:
    """Else it would say nothing of a campaign that it finds well."""
    history, chance = History(), Random(7)  # noqa: S311 - a schedule, no secret
    bell = begin(folder, history)
    for _ in range(3):
        live(folder, history, Random(chance.getrandbits(64)))  # noqa: S311 - the same
    names = sorted(TAMPERED)
    chosen = names if asked.chosen else Random(seed()).sample(names, 1)  # noqa: S311 - the same
    for name, sql in ((name, TAMPERED[name]) for name in chosen):
        copy = folder.with_name(f"{folder.name}-tampered")
        shutil.copytree(folder, copy)
        end = RestartedWorld(copy, history)
        with end.ledger.transaction():
            end.ledger.connection.run(sql)
        heard = deepcopy(history)
        result = judge(end, heard, bell)
        end.leave()
        shutil.rmtree(copy)
        assert result, name


def judge(end: RestartedWorld, heard: History, bell: str) -> list[str]:
    """A missing object may be noticed before the check looks for it."""
    try:
        settle(end, heard)
        return list(verdict(end, heard, bell, History().time))
    except NotFound as error:
        return [error.reason]
