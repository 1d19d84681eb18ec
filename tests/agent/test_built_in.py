"""K33, K34, K35: the built-in queen, lead and worker do whole jobs, whoever of them is killed."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fixtures.built_in_agents import Killed
from fixtures.queen import QueenHarness
from fixtures.world import fields, rows
from long import times

from hive_core.agent.agent_loop import StateFile
from hive_core.agent.language import parse

JOB = """domain sums
group
sum 1 2 3
max 4 9 2
group
sum 10 20
combine sum
"""


def test_a_short_task_is_done_by_an_agent_that_is_there_for_it_alone(harness: QueenHarness) -> None:
    row = harness.result_of("sum 1 2 3")
    assert (row["result"]["status"], row["result"]["summary"]) == ("success", "6")
    assert row["result"]["data"]["strategy"] == "simple"
    assert harness.agents("lead") == []


def test_a_longer_job_is_split_by_a_lead_for_its_workers(harness: QueenHarness) -> None:
    row = harness.result_of(JOB)
    assert row["result"]["data"]["strategy"] == "complex"
    assert row["result"]["summary"] == str(6 + 9 + 30)
    assert len(harness.agents("lead")) == 1
    harness.built_in.play(lambda: not harness.agents("worker"))


def test_a_job_for_an_architect_is_planned_carried_out_and_revised_when_it_fails(
    harness: QueenHarness,
) -> None:
    seen: set[str] = set()
    harness.built_in.before = lambda uuid, _: seen.add(str(harness.world.hive.name(uuid)))
    row = harness.result_of("architect\ngroup\nplease sum 1 2\ngroup\nwc a b c\ncombine lines")
    assert row["result"]["status"] == "success"
    assert row["result"]["data"]["strategy"] == "architect"
    assert row["result"]["summary"] == "3\n1 3 5"
    assert any(name.startswith("architect-") for name in seen)
    assert harness.agents("architect") == []


def test_a_job_that_no_plan_can_mend_is_tried_without_one_and_reported_as_failed(
    harness: QueenHarness,
) -> None:
    """K35, K43: each way that was tried is remembered once, with what it took."""
    row = harness.result_of("architect\ngroup\nfail 99 x")
    assert row["result"]["status"] == "failed"
    assert row["result"]["data"]["faults"] == ["fail 99 x"]
    assert row["result"]["data"]["instead_of"] == "architect"
    history = harness.memory("queen")["history"]
    assert [(row["strategy"], row["well"]) for row in history] == [
        ("architect", False), ("complex", False),
    ]  # fmt: skip
    assert {row["task"] for row in history} == {row["id"]}
    assert {"seconds", "tokens", "cost"} <= history[0].keys()


def test_what_fails_is_tried_again_and_then_by_another_worker(harness: QueenHarness) -> None:
    row = harness.result_of("group\nfail 2 well\ngroup\nsum 1 2\nsum 3 4\ncombine lines")
    assert row["result"]["summary"] == "well\n3\n7"
    tried = [row["worker"] for row in tries(harness, "0.0.")]
    assert tried[0] == tried[1] != tried[2]


def tries(harness: QueenHarness, title: str) -> list[Any]:
    """What was recorded of the tries of one line, in their order."""
    events = [fields(row) for row in harness.world.events() if row["operation"] == "assign"]
    assigned = [row for row in events if str(row.get("title", "")).startswith(title)]
    return [{"worker": row["target_name"]} for row in assigned]


def test_a_task_without_a_capable_agent_is_escalated_and_reported(harness: QueenHarness) -> None:
    row = harness.result_of("group\nfail 99 x\ngroup\nsum 1 2\nsum 1 1\ncombine lines")
    assert row["result"]["status"] == "failed"
    assert "fail 99 x" in row["result"]["error"] + row["result"]["summary"]
    assert "escalation" in [row["kind"] for row in harness.world.mail("queen")] or any(
        row["operation"] == "escalate" for row in harness.world.events()
    )


def test_the_same_domain_gets_the_same_lead_and_another_one_a_new_one(
    harness: QueenHarness,
) -> None:
    harness.result_of(JOB)
    (first,) = harness.agents("lead")
    harness.result_of(JOB.replace("20", "21"))
    assert harness.agents("lead") == [first]
    harness.result_of(JOB.replace("domain sums", "domain words"))
    assert first not in harness.agents("lead")


def test_an_idle_lead_goes_after_a_while(
    harness: QueenHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.result_of(JOB)
    monkeypatch.setattr("hive_core.agent.queen.POOL_SECONDS", 0.0)
    harness.built_in.play(lambda: not harness.agents("lead"))


def test_context_is_cleared_or_kept_between_tasks_of_a_worker(harness: QueenHarness) -> None:
    text = "workers 1\ngroup\nsum 1 2\ngroup\nrecall sum\ncombine lines"
    cleared = harness.result_of(text)
    assert cleared["result"]["summary"] == "3\n0"
    row = harness.result_of(text + "\ncontext keep")
    assert row["result"]["summary"] == "3\n3"


def test_workers_are_kept_when_the_job_says_so(harness: QueenHarness) -> None:
    harness.result_of(JOB + "keep workers\n")
    for _ in range(3):
        harness.built_in.round()
    assert len(harness.agents("worker")) == 2


def test_splits_that_went_well_are_learned_and_used_again(
    harness: QueenHarness, tmp_path: Path
) -> None:
    harness.result_of("workers 1\n" + JOB)
    (lead,) = harness.agents("lead")
    splits = StateFile(tmp_path / f"{harness.world.uuid(lead)}.json").read()["splits"]
    assert splits[parse(JOB).signature]["workers"] == 1
    harness.built_in.behaviours.clear()
    harness.result_of(JOB + "keep workers\n")
    assert len(harness.agents("worker")) == 1


@pytest.mark.parametrize("kind", ["worker", "lead"])
def test_a_plan_is_asked_for_where_the_task_says_so(harness: QueenHarness, kind: str) -> None:
    harness.world.call(
        "operator", "spawn", name="w", parent="root", role=kind, command=["hive-agent", kind],
    )  # fmt: skip
    task = harness.assign("sum 1 2\n" + "echo x\n" * 2, "w", plan_required=True)
    built_in, hive = harness.built_in, harness.world

    def plans() -> list[Any]:
        return rows(hive.call("operator", "list_plans", task=task)["plans"])

    built_in.play(lambda: len(plans()) == 1)
    first = plans()[0]["plan"]
    hive.call("operator", "reject_plan", task=task, plan=first, reason="smaller steps")
    built_in.play(lambda: len(plans()) == 2)
    assert "smaller steps" in plans()[0]["note"]
    steps = [row["title"] for row in rows(plans()[0]["steps"])]
    assert steps == ["sum 1 2", "echo x", "echo x"]
    assert harness.agents("worker") == ([] if kind == "lead" else ["w"])
    hive.call("operator", "approve_plan", task=task, plan=plans()[0]["plan"])
    built_in.play(lambda: built_in.task(task)["result"] is not None)
    assert built_in.task(task)["result"]["summary"].split() == ["3", "x", "x"]


def test_a_plan_of_more_lines_than_it_may_have_steps_says_so(harness: QueenHarness) -> None:
    task = harness.assign("echo x\n" * 102, plan_required=True)
    harness.built_in.round()
    (plan,) = rows(harness.world.call("operator", "list_plans", task=task)["plans"])
    steps = rows(plan["steps"])
    assert (len(steps), steps[-1]["title"]) == (100, "3 more lines of the task")


def test_a_worker_that_ends_has_its_task_again(harness: QueenHarness) -> None:
    row = harness.result_of("group\ncrash 2 well\ngroup\nsum 1 2\nsum 1 1\ncombine lines")
    assert row["result"]["summary"] == "well\n3\n2"


CALLS = 60  # that each job takes at least, when nobody is killed
JOBS = (
    (JOB, "45"),
    ("architect\ngroup\nplease sum 1 2\nrecall sum\ngroup\nwc a b\ncombine lines", "3\n3\n1 2 3"),
    ("budget fresh 9\ngroup\nfail 2 7\nrecall sum\ngroup\nsum 1 2\nrecall sum\ncombine lines",
     "7\n7\n3\n3"),
)  # fmt: skip


@pytest.mark.sized
@pytest.mark.parametrize("number", range(times(5, 12)))
def test_the_result_is_right_whichever_agent_is_killed_before_whichever_call(
    harness: QueenHarness, number: int
) -> None:
    """The one that makes the nth call is gone before it; and once more some calls later."""
    draw = random.Random(number)  # noqa: S311 - which calls, not a secret
    ends = set(draw.sample(range(5, CALLS), 3))
    calls = Counter[str]()

    def before(uuid: str, _operation: str) -> None:
        calls["all"] += 1
        if calls["all"] in ends:
            calls[str(harness.world.hive.name(uuid))] += 1
            raise Killed

    harness.built_in.before = before
    harness.world.call("operator", "allocate_budget", agent="queen", kind="tokens", amount=999)
    job, result = JOBS[number % len(JOBS)]
    row = harness.result_of(job)
    assert (row["result"]["status"], row["result"]["summary"]) == ("success", result), calls
    (budget,) = rows(harness.world.call("operator", "get_usage")["budgets"])
    assert budget["left"] == 999
    finals = ("finish", "fail", "drop", "stopped", "expired")
    events = [row for row in harness.world.events() if row["kind"] == "task"]
    ended = Counter(fields(row)["task"] for row in events if row["operation"] in finals)
    assert max(ended.values()) == 1
    assert sum(count for name, count in calls.items() if name != "all") == len(ends)
    assert calls["all"] >= CALLS
