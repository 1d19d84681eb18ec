"""Session and runtime are killed at every kind of record: nothing is lost or run twice (Q41)."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import long
import pytest
from fixtures.fake_model import Json, ModelAnswer
from fixtures.session_host import SessionHost, end_process, session_host
from fixtures.world import rows, world

from hive_core.agent.session.log import segments
from hive_core.agent.session.records import Record, read_records

KINDS = ("input", "system", "response", "call", "result", "end")
STEPS = 4


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[SessionHost]:
    with (
        world(None, "root/lead:lead", "lead/worker:worker") as made,
        session_host(made, tmp_path) as host,
    ):
        host.model.answer = next_step
        yield host


def next_step(_number: int, body: Json) -> ModelAnswer:
    """What a model does that looks at its history: run, run, tell, report, end."""
    return step_after(sum(message["role"] == "tool" for message in rows(body["messages"])))


def step_after(done: int) -> ModelAnswer:
    """The answer after so many calls."""
    if done < STEPS - 2:
        command = f"echo run{done} >> runs.txt"
        return ModelAnswer(calls=[(f"c{done}", "bash", {"command": command})])
    if done == STEPS - 2:
        return ModelAnswer(calls=[("send", "send", {"to": "lead", "body": "half done"})])
    if done == STEPS - 1:
        report = {"status": "success", "summary": "all done"}
        return ModelAnswer(calls=[("report", "finish_task", report)])
    return ModelAnswer("reported")


def next_step_or_summary(body: Json) -> ModelAnswer:
    """The same of a model whose conversation is too long after the commands, and is summarized."""
    messages = rows(body["messages"])
    summary = re.search(r"SUMMARY: (\d+) calls", json.dumps(messages))
    done = sum(message["role"] == "tool" for message in messages)
    done += int(summary[1]) if summary else 0
    if "has become too long" in str(messages[-1]["content"]):
        return ModelAnswer(f"SUMMARY: {done} calls")
    fills = summary is None and done == STEPS - 3
    return replace(step_after(done), tokens=(90_000, 5)) if fills else step_after(done)


def results_of(host: SessionHost, conversation: str) -> list[Record]:
    """The results in all segments of a conversation."""
    files = segments(host.state / "session" / conversation)
    records = [row for file in files for row in read_records(file.read_bytes()).records]
    return [row for row in records if row["t"] == "result"]


def check_effects(host: SessionHost, task: str) -> None:
    """No command ran twice, one letter, one end, and the mail is in the log and nowhere else."""
    file = host.workspace / "runs.txt"
    runs = Counter(file.read_text().split() if file.exists() else [])
    assert set(runs.values()) <= {1}, runs
    letters = [row for row in host.world.mail("lead") if row["body"] == "half done"]
    assert len(letters) == 1
    assert host.task(task)["attempt"] == 1
    ends = [row for row in host.events("finish_task") if row["allowed"] is not False]
    assert len(ends) == 1
    assert host.world.mail("worker") == []
    name = f"task-{task}"
    results = {row["call"]: str(row["content"]) for row in results_of(host, name)}
    assert set(results) == {"c0", "c1", "send", "report"}
    for number in range(STEPS - 2):
        # What the model was told is what happened, or that it is unknown.
        assert runs[f"run{number}"] == 1 or "effect is unknown" in results[f"c{number}"]


@pytest.mark.sized
def test_a_session_that_is_killed_at_every_kind_of_record_does_its_task_once(
    host: SessionHost,
) -> None:
    random = Random(long.seed())  # noqa: S311 - a schedule, repeatable by its seed
    task = host.assign("Run twice, tell me, report.")
    name = f"task-{task}"
    kinds = [*KINDS, *random.choices(KINDS, k=long.times(0, 30))]
    host.start()
    for kind in kinds:
        before = len(host.of_kind(kind, name))
        if "closed" in host.kinds(name):
            break
        host.until(
            lambda kind=kind, before=before: (
                len(host.of_kind(kind, name)) > before  # type: ignore[misc]
                or "closed" in host.kinds(name)
            )
        )
        host.kill()
        host.start()
    host.until(lambda: "closed" in host.kinds(name))
    host.until(lambda: host.task(task)["state"] == "done")
    check_effects(host, task)


def test_a_call_is_in_the_log_before_it_runs(host: SessionHost) -> None:
    """Else one that a kill cuts off would run again, as if it had not begun."""
    command = f'grep -c \'"t":"call"\' {host.state / "session/main/log"}'
    first = ModelAnswer(calls=[("c0", "bash", {"command": command})])
    host.model.answer = lambda number, _body: first if number == 0 else ModelAnswer("done")
    host.start()
    host.send("work")
    host.until(lambda: "closed" in host.kinds())
    (result,) = results_of(host, "main")
    assert str(result["content"]).split()[0] == "1", result


def test_a_reply_is_sent_once_though_the_record_behind_it_is_lost(host: SessionHost) -> None:
    """A crash of the host may lose that the turn was closed: then it is closed again."""
    host.model.answer = lambda _number, _body: ModelAnswer("done")
    host.start()
    host.send("work")
    host.until(lambda: "closed" in host.kinds())
    host.kill()
    log = host.state / "session/main/log"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    assert host.kinds()[-1] == "end"
    host.start()
    host.until(lambda: "closed" in host.kinds())
    assert host.replies() == ["done"]


@pytest.mark.sized
def test_a_runtime_that_is_killed_costs_a_request_and_no_call(host: SessionHost) -> None:
    task = host.assign("Run twice, tell me, report.")
    name = f"task-{task}"
    host.start()
    for kind in ("system", "result"):
        host.until(lambda kind=kind: host.of_kind(kind, name))  # type: ignore[misc]
        for pid in host.runtimes():
            end_process(pid)
    host.until(lambda: "closed" in host.kinds(name))
    check_effects(host, task)
    assert "unknown" not in json.dumps(host.records(name))


@pytest.mark.parametrize("moment", ["summary is asked for", "summary is logged"])
def test_a_session_that_is_killed_at_a_compaction_does_its_task_once(
    host: SessionHost, moment: str
) -> None:
    """The first summary is held where the session is killed before it has it."""
    asked, held = threading.Event(), threading.Event()

    def answer(_number: int, body: Json) -> ModelAnswer:
        step = next_step_or_summary(body)
        if not step.text.startswith("SUMMARY") or asked.is_set():
            return step
        asked.set()
        return replace(step, held=held) if moment == "summary is asked for" else step

    host.model.answer = answer
    task = host.assign("Run twice, tell me, report.")
    name = f"task-{task}"
    host.start()
    is_there = asked.is_set if moment == "summary is asked for" else (
        lambda: "compact" in host.kinds(name)
    )  # fmt: skip
    host.until(is_there)
    host.kill()
    held.set()
    host.start()
    host.until(lambda: "closed" in host.kinds(name))
    host.until(lambda: host.task(task)["state"] == "done")
    check_effects(host, task)
    assert len(segments(host.state / "session" / name)) == 2
