"""K33-K35: how jobs go through queen, architect, lead and workers, step by step."""

from __future__ import annotations

from typing import Any

import pytest
from fixtures.built_in_agents import Killed
from fixtures.queen import QueenHarness
from fixtures.world import Reply, fields, rows

from hive_core.agent.queen import ARCHITECT, COMPLEX, SIMPLE, strategy

LONG = "sum 1 2\n" + "echo x y z\n" * 20
KNOWN: list[dict[str, Any]] = [
    {"words": ["sum", "lists", "of", "numbers"], "strategy": COMPLEX, "well": True},
    {"words": ["draw", "house"], "strategy": SIMPLE, "well": False},
]


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("sum 1 2", (SIMPLE, "words")),
        ("sum lists of 4", (COMPLEX, "history")),
        ("blueprint of a house", (ARCHITECT, "words")),
        ("draw house", (COMPLEX, "default")),
        ("architect\nsum lists", (ARCHITECT, "asked for")),
        ("group\nsum 1 2\ncombine sum", (COMPLEX, "words")),
        (LONG, (COMPLEX, "words")),
        ("do something", (COMPLEX, "default")),
    ],
)
def test_a_way_is_chosen_as_before_then_by_words(text: str, way: tuple[str, str]) -> None:
    """K33: history of what went well (half of all words), then the words, then complex."""
    assert strategy(text, KNOWN) == way


def test_what_no_architect_plans_is_done_by_a_lead_alone(harness: QueenHarness) -> None:
    """K35: fallback to complex, before anything is reported as failed."""

    def before(uuid: str, operation: str) -> None:
        name = str(harness.world.hive.name(uuid))
        if name.startswith("architect-") and operation == "store_artifact":
            raise Killed

    harness.built_in.before = before
    row = harness.result_of("architect\ngroup\nsum 1 2\ngroup\nwc a b c\ncombine lines")
    data = row["result"]["data"]
    assert (row["result"]["status"], row["result"]["summary"]) == ("success", "3\n1 3 5")
    assert (data["strategy"], data["instead_of"]) == (COMPLEX, ARCHITECT)
    assert harness.agents("architect") == []


def test_a_plan_is_an_artifact_of_the_subtree_from_the_highest_tier(harness: QueenHarness) -> None:
    """K35: the architect's own, and the queen's copy, which her lead reads."""
    tiers = set[str]()

    def before(uuid: str, _operation: str) -> None:
        name = str(harness.world.hive.name(uuid))
        if name.startswith("architect-"):
            tiers.add(harness.world.hive.spec(name).tier.value)

    harness.built_in.before = before
    row = harness.result_of("architect\ngroup\nplease sum 1 2\ncombine lines")
    assert row["result"]["summary"] == "3"
    assert tiers == {"strategic"}
    artifacts = rows(harness.world.call("operator", "list_artifacts", limit=100)["artifacts"])
    plans = {(row["owner"], row["visibility"]) for row in artifacts if "plan-" in str(row["name"])}
    assert plans == {(f"architect-{row['id'][:8]}", "subtree"), ("queen", "subtree")}
    mine = {row["name"]: row["version"] for row in artifacts if row["owner"] == "queen"}
    assert mine[f"plan-{row['id']}"] == 2


def test_another_architect_goes_on_with_the_plan_of_one_that_is_gone(harness: QueenHarness) -> None:
    """K35: an architect that was destroyed in its sleep is missed when its plan must be revised."""
    gone = list[str]()

    def before(uuid: str, operation: str) -> None:
        name = str(harness.world.hive.name(uuid))
        if name.startswith("lead-") and operation == "spawn" and not gone:
            gone.extend(harness.agents("architect"))
            harness.world.call("operator", "destroy", agent=gone[0])

    harness.built_in.before = before
    row = harness.result_of("architect\ngroup\nplease sum 1 2\ncombine lines")
    assert (row["result"]["summary"], row["result"]["data"]["strategy"]) == ("3", ARCHITECT)
    assert len(gone) == 1


def worker(harness: QueenHarness) -> str:
    harness.world.call(
        "operator", "spawn", name="w", parent="root", role="worker",
        command=["hive-agent", "worker"],
    )  # fmt: skip
    return "w"


def test_the_assigner_says_whether_the_agent_begins_with_its_memory(
    harness: QueenHarness,
) -> None:
    """K34: keep or clear, for each task; it stands in the letter and in the row."""
    name = worker(harness)

    def result_text(text: str, **more: object) -> str:
        return str(harness.result_of(text, name, **more)["result"]["summary"])

    assert result_text("sum 1 2") == "3"
    assert result_text("recall sum", context="keep") == "3"
    assert result_text("recall sum", context="clear") == "0"
    assert result_text("sum 4 5", context="keep") == "9"
    assert result_text("recall sum") == "0"
    task = harness.assign("sum 1 1", name, context="keep")
    letter = next(row for row in harness.world.mail(name) if task in str(row["body"]))
    assert "\ncontext: keep\n" in str(letter["body"])
    assert harness.built_in.task(task)["context"] == "keep"


def test_the_context_of_a_job_is_handed_on_to_its_workers(harness: QueenHarness) -> None:
    text = "workers 1\ngroup\nsum 1 2\ngroup\nrecall sum\ncombine lines"
    assert harness.result_of(text, context="keep")["result"]["summary"] == "3\n3"


def test_a_line_has_a_budget_of_its_own_where_the_job_says_so(harness: QueenHarness) -> None:
    """K34: fresh for each task, from the budget of the assigner; the rest is returned."""
    harness.world.call("operator", "allocate_budget", agent="queen", kind="tokens", amount=900)
    seen = list[object]()

    def before(uuid: str, operation: str) -> None:
        if (
            operation == "finish_task"
            and harness.world.hive.specs[_name(harness, uuid)].role == "worker"
        ):
            (task,) = harness.world.ledger.tasks.offered_tasks(uuid)
            budget = rows(harness.world.call("operator", "get_task", task=task.id)["budget"])
            seen.extend(row["left"] for row in budget)

    harness.built_in.before = before
    job = "group\nsum 1 2\nsum 3 4\ngroup\nsum 5 6\ncombine sum\nbudget "
    assert harness.result_of(job + "carried")["result"]["summary"] == "21"
    assert seen == []
    assert harness.result_of(job + "fresh 300")["result"]["summary"] == "21"
    assert seen == [300, 300, 300]
    (budget,) = rows(harness.world.call("operator", "get_usage")["budgets"])
    assert (budget["agent"], budget["left"]) == ("queen", 900)


def _name(harness: QueenHarness, uuid: str) -> str:
    return str(harness.world.hive.name(uuid))


def test_more_groups_than_workers_are_done_one_after_the_other(harness: QueenHarness) -> None:
    """K34: what one group remembers is not mixed with another of the same worker."""
    groups = [f"group\nsum {number} {number}\nrecall sum" for number in range(1, 6)]
    row = harness.result_of("\n".join([*groups, "workers 2", "combine lines"]))
    doubled = [str(2 * number) for number in range(1, 6) for _ in range(2)]
    assert row["result"]["summary"].split() == doubled


def test_a_thread_that_takes_over_a_line_does_the_rest_of_its_group(harness: QueenHarness) -> None:
    row = harness.result_of(
        "group\nfail 2 7\nrecall sum\ngroup\nsum 1 2\nrecall sum\ncombine lines"
    )
    assert row["result"]["summary"].split() == ["7", "7", "3", "3"]


@pytest.mark.parametrize("more", ["", "\ncontext keep"])
def test_a_worker_that_ends_between_two_lines_goes_on_with_the_same_memory(
    harness: QueenHarness, more: str
) -> None:
    """K32, K34: the results of its group are reported again."""
    done = list[str]()

    def before(uuid: str, operation: str) -> None:
        is_worker = harness.world.hive.specs[_name(harness, uuid)].role == "worker"
        if is_worker and operation == "recv" and not done and tries(harness, "0.1."):
            done.append(_name(harness, uuid))
            raise Killed

    harness.built_in.before = before
    row = harness.result_of("group\nsum 20 22\nrecall sum\ngroup\nsum 1 1\ncombine lines" + more)
    assert row["result"]["summary"].split() == ["42", "42", "2"]
    assert len(done) == 1


def tries(harness: QueenHarness, title: str) -> list[str]:
    """Attempts of one line that were assigned to a worker."""
    events = [fields(row) for row in harness.world.events() if row["operation"] == "assign"]
    return [str(row["title"]) for row in events if str(row.get("title", "")).startswith(title)]


def test_what_is_to_be_done_again_and_again_becomes_a_trigger(harness: QueenHarness) -> None:
    """K33: the architect keeps no list; the result of each run is reported to its parent."""
    row = harness.result_of("every 3600\nsum 20 22")
    (trigger,) = rows(harness.world.call("operator", "list_triggers", agent="queen")["triggers"])
    assert row["result"]["data"]["trigger"] == trigger["id"]
    assert row["result"]["data"]["strategy"] == "recurring"
    for _ in range(2):
        harness.world.advance(3600)
        harness.built_in.play(
            lambda: not harness.world.ledger.tasks.open_tasks(harness.world.uuid("queen"), 1)
        )
    assert [str(row["body"]).rpartition("\n")[2] for row in results_sent(harness)] == ["42", "42"]


def results_sent(harness: QueenHarness) -> list[Reply]:
    return [row for row in harness.world.mail("root") if row["kind"] == "result"]


def test_a_time_that_is_none_is_said(harness: QueenHarness) -> None:
    row = harness.result_of("cron 99 99 * * *\nsum 1 2")
    assert row["result"]["status"] == "failed"
    assert "cannot set a trigger" in row["result"]["error"] + row["result"]["summary"]


def test_a_result_that_is_too_much_for_a_report_is_read_from_the_store(
    harness: QueenHarness,
) -> None:
    text = "x" * 9000
    job = f"group\necho {text}\ngroup\necho {text}\ngroup\necho {text}\ncombine lines"
    row = harness.result_of(job)
    assert row["result"]["status"] == "success"
    assert row["result"]["summary"].endswith("[cut]")
    (stored,) = row["result"]["artifacts"]
    artifact = harness.world.call("operator", "get_artifact", id=stored)
    assert rows([artifact["artifact"]])[0]["size"] == 3 * 9000 + 2


def test_what_is_refused_for_good_ends_that_task_and_no_other(harness: QueenHarness) -> None:
    harness.world.call("operator", "revoke_capability", agent="queen", capability="spawn")
    task = harness.assign("sum 1 2")
    harness.built_in.play(lambda: harness.built_in.task(task)["result"] is not None)
    assert harness.built_in.task(task)["result"]["status"] == "failed"
    harness.world.call("operator", "grant_capability", agent="queen", capability="spawn")
    assert harness.result_of("sum 1 2")["result"]["summary"] == "3"


def test_groups_beside_each_other_begin_before_the_first_one_ends(harness: QueenHarness) -> None:
    harness.result_of("group\nsum 1 2\nsum 1 1\ngroup\nsum 3 4\nsum 2 2\ncombine sum")
    events = [fields(row) for row in harness.world.events() if row["kind"] == "task"]
    lines = [(row.get("title"), row["target_name"]) for row in events if row.get("title")]
    order = [str(title) for title, _ in lines if str(title)[:1].isdigit()]
    assert order.index("1.0.1") < order.index("0.1.1")
