"""What outlasts a compaction: plans, questions, limits, waits and the task, word for word."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from fixtures.fake_model import ModelAnswer
from fixtures.session_host import SessionHost
from fixtures.world import rows
from hypothesis import given
from hypothesis import strategies as st

from hive_core.agent.session.facts import bound_value

BUDGET = 123_457
QUESTION = "Which edition? " + "q" * 1980 + " end of it"
STEPS = ["unusual step one", {"title": "two", "detail": "d" * 2000}]


def give_budget(host: SessionHost) -> None:
    for caller, agent, amount in (
        ("operator", "root", 1_000_000), ("root", "lead", 500_000), ("lead", "worker", BUDGET),
    ):  # fmt: skip
        host.world.call(caller, "allocate_budget", agent=agent, kind="tokens", amount=amount)


def read_facts(row: Mapping[str, object]) -> dict[str, Any]:
    """The JSON of the daemon's facts in the text of a `compact`."""
    text = str(row["text"])
    head = "What the daemon knows now, word for word:\n"
    return dict(json.loads(text[text.index(head) + len(head) :].removesuffix("\n</summary>")))


def compact_with(host: SessionHost, description: str) -> tuple[str, dict[str, Any]]:
    """Have a task with a plan, a question and a wait compacted; its id and the facts."""
    give_budget(host)
    task = host.assign(description, plan_required=True)
    wait = {"agents": ["lead"], "deadline": 5000}
    host.model.script = [
        ModelAnswer(calls=[("p", "create_plan", {"task": task, "steps": STEPS})]),
        ModelAnswer("the plan waits"),
        ModelAnswer(
            calls=[("q", "ask", {"task": task, "items": [QUESTION]}), ("w", "wait_for", wait)],
            tokens=(90_000, 10),
        ),
        ModelAnswer("SUMMARY: it is planned"),
        ModelAnswer(calls=[("g", "finish_task", {"status": "success", "summary": "ok"})]),
    ]
    host.start()
    name = f"task-{task}"
    host.until(lambda: host.task(task)["state"] == "awaiting_plan_approval")
    host.until(lambda: "closed" in host.kinds(name))
    plan = rows(host.world.call("lead", "list_plans", task=task)["plans"])[0]["plan"]
    host.world.call("lead", "approve_plan", task=task, plan=plan)
    host.until(lambda: "compact" in host.kinds(name))
    (row,) = host.of_kind("compact", name)
    host.kill()
    return task, read_facts(row)


@pytest.mark.parametrize("size", [10, 31_000])
def test_plan_question_limits_wait_and_task_outlast_a_compaction(
    host: SessionHost, size: int
) -> None:
    description = "T" * size + " ends"
    task, facts = compact_with(host, description)
    (plan,) = facts["plans"]
    assert [step["title"] for step in plan["steps"]] == ["unusual step one", "two"]
    assert plan["steps"][1]["detail"] == "d" * 2000
    assert plan["state"] == "approved"
    (question,) = facts["asked"]
    assert [item["prompt"] for item in question["items"]] == [QUESTION]
    assert [(row["kind"], row["left"]) for row in facts["budgets"]] == [("tokens", BUDGET)]
    (wait,) = facts["waits"]
    assert wait["agents"] == ["lead"]
    assert facts["you"]["name"] == "worker"
    assert facts["task"]["task"]["id"] == task
    inputs = "".join(str(row["text"]) for row in host.of_kind("input", f"task-{task}"))
    assert description in inputs + facts["task"]["description"]


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3000),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=30,
)


@given(JSON, st.integers(200, 20_000))
def test_each_part_keeps_to_its_bound(value: object, most: int) -> None:
    bounded = bound_value(value, most, "get_task")
    size = len(json.dumps(bounded, ensure_ascii=False, separators=(",", ":")).encode())
    assert size <= most
    if bounded != value:
        assert "get_task" in json.dumps(bounded)


def test_a_bound_cuts_long_texts_before_it_leaves_out_rows() -> None:
    table = [{"id": str(at), "text": "x" * 3000} for at in range(10)]
    cut = bound_value(table, 16_000, "list_tasks")
    assert isinstance(cut, list)
    assert [row["id"] for row in cut] == [str(at) for at in range(10)]
    fewer = bound_value(table, 1500, "list_tasks")
    assert isinstance(fewer, list)
    assert [row["id"] for row in fewer[:-1]] == ["0", "1", "2", "3"]
    assert fewer[-1] == "[6 left out: list_tasks has them]"
