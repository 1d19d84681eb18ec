"""K33-K35: how jobs go through queen, architect, lead and workers, step by step."""

from __future__ import annotations

from typing import Any

import pytest
from fixtures.built_in_agents import Killed
from fixtures.queen import AgentStage
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


def test_what_no_architect_plans_is_done_by_a_lead_alone(stage: AgentStage) -> None:
    """K35: fallback to complex, before anything is reported as failed."""

    def before(uuid: str, operation: str) -> None:
        name = str(stage.world.hive.name(uuid))
        if name.startswith("architect-") and operation == "store_artifact":
            raise Killed

    stage.troupe.before = before
    row = stage.result_of("architect\ngroup\nsum 1 2\ngroup\nwc a b c\ncombine lines")
    data = row["result"]["data"]
    assert (row["result"]["status"], row["result"]["summary"]) == ("success", "3\n1 3 5")
    assert (data["strategy"], data["instead_of"]) == (COMPLEX, ARCHITECT)
    assert stage.agents("architect") == []


def test_a_plan_is_an_artifact_of_the_subtree_from_the_highest_tier(stage: AgentStage) -> None:
    """K35: the architect's own, and the queen's copy, which her lead reads."""
    tiers = set[str]()

    def before(uuid: str, _operation: str) -> None:
        name = str(stage.world.hive.name(uuid))
        if name.startswith("architect-"):
            tiers.add(stage.world.hive.spec(name).tier.value)

    stage.troupe.before = before
    row = stage.result_of("architect\ngroup\nplease sum 1 2\ncombine lines")
    assert row["result"]["summary"] == "3"
    assert tiers == {"strategic"}
    artifacts = rows(stage.world.call("operator", "list_artifacts", limit=100)["artifacts"])
    plans = {(row["owner"], row["visibility"]) for row in artifacts if "plan-" in str(row["name"])}
    assert plans == {(f"architect-{row['id'][:8]}", "subtree"), ("queen", "subtree")}
    mine = {row["name"]: row["version"] for row in artifacts if row["owner"] == "queen"}
    assert mine[f"plan-{row['id']}"] == 2


def test_another_architect_goes_on_with_the_plan_of_one_that_is_gone(stage: AgentStage) -> None:
    """K35: who is destroyed in its sleep is missed when its plan has to be revised."""
    gone = list[str]()

    def before(uuid: str, operation: str) -> None:
        name = str(stage.world.hive.name(uuid))
        if name.startswith("lead-") and operation == "spawn" and not gone:
            gone.extend(stage.agents("architect"))
            stage.world.call("operator", "destroy", agent=gone[0])

    stage.troupe.before = before
    row = stage.result_of("architect\ngroup\nplease sum 1 2\ncombine lines")
    assert (row["result"]["summary"], row["result"]["data"]["strategy"]) == ("3", ARCHITECT)
    assert len(gone) == 1


def worker(stage: AgentStage) -> str:
    stage.world.call(
        "operator", "spawn", name="w", parent="root", role="worker",
        command=["hive-agent", "worker"],
    )  # fmt: skip
    return "w"


def test_who_gives_a_task_says_whether_its_agent_begins_with_what_it_remembers(
    stage: AgentStage,
) -> None:
    """K34: keep or clear, for each task; it stands in the letter and in the row."""
    name = worker(stage)

    def result_text(text: str, **more: object) -> str:
        return str(stage.result_of(text, name, **more)["result"]["summary"])

    assert result_text("sum 1 2") == "3"
    assert result_text("recall sum", context="keep") == "3"
    assert result_text("recall sum", context="clear") == "0"
    assert result_text("sum 4 5", context="keep") == "9"
    assert result_text("recall sum") == "0"
    task = stage.assign("sum 1 1", name, context="keep")
    letter = next(row for row in stage.world.mail(name) if task in str(row["body"]))
    assert "\ncontext: keep\n" in str(letter["body"])
    assert stage.troupe.task(task)["context"] == "keep"


def test_the_context_of_a_job_is_handed_on_to_those_who_do_it(stage: AgentStage) -> None:
    text = "workers 1\ngroup\nsum 1 2\ngroup\nrecall sum\ncombine lines"
    assert stage.result_of(text, context="keep")["result"]["summary"] == "3\n3"


def test_a_line_has_a_budget_of_its_own_where_the_job_says_so(stage: AgentStage) -> None:
    """K34: fresh for each task, from the budget of the assigner; the rest is returned."""
    stage.world.call("operator", "allocate_budget", agent="queen", kind="tokens", amount=900)
    seen = list[object]()

    def before(uuid: str, operation: str) -> None:
        if (
            operation == "finish_task"
            and stage.world.hive.specs[_name(stage, uuid)].role == "worker"
        ):
            (task,) = stage.world.ledger.tasks.offered_tasks(uuid)
            budget = rows(stage.world.call("operator", "get_task", task=task.id)["budget"])
            seen.extend(row["left"] for row in budget)

    stage.troupe.before = before
    job = "group\nsum 1 2\nsum 3 4\ngroup\nsum 5 6\ncombine sum\nbudget "
    assert stage.result_of(job + "carried")["result"]["summary"] == "21"
    assert seen == []
    assert stage.result_of(job + "fresh 300")["result"]["summary"] == "21"
    assert seen == [300, 300, 300]
    (budget,) = rows(stage.world.call("operator", "get_usage")["budgets"])
    assert (budget["agent"], budget["left"]) == ("queen", 900)


def _name(stage: AgentStage, uuid: str) -> str:
    return str(stage.world.hive.name(uuid))


def test_more_groups_than_workers_are_done_one_after_the_other(stage: AgentStage) -> None:
    """K34: what one group remembers is not mixed with another of the same worker."""
    groups = [f"group\nsum {number} {number}\nrecall sum" for number in range(1, 6)]
    row = stage.result_of("\n".join([*groups, "workers 2", "combine lines"]))
    doubled = [str(2 * number) for number in range(1, 6) for _ in range(2)]
    assert row["result"]["summary"].split() == doubled


def test_who_takes_over_a_line_does_the_rest_of_its_group(stage: AgentStage) -> None:
    row = stage.result_of("group\nfail 2 7\nrecall sum\ngroup\nsum 1 2\nrecall sum\ncombine lines")
    assert row["result"]["summary"].split() == ["7", "7", "3", "3"]


@pytest.mark.parametrize("more", ["", "\ncontext keep"])
def test_a_worker_that_ends_between_two_lines_goes_on_with_the_same_memory(
    stage: AgentStage, more: str
) -> None:
    """K32, K34: what came out of its group is told again."""
    done = list[str]()

    def before(uuid: str, operation: str) -> None:
        is_worker = stage.world.hive.specs[_name(stage, uuid)].role == "worker"
        if is_worker and operation == "recv" and not done and tries(stage, "0.1."):
            done.append(_name(stage, uuid))
            raise Killed

    stage.troupe.before = before
    row = stage.result_of("group\nsum 20 22\nrecall sum\ngroup\nsum 1 1\ncombine lines" + more)
    assert row["result"]["summary"].split() == ["42", "42", "2"]
    assert len(done) == 1


def tries(stage: AgentStage, title: str) -> list[str]:
    """Tries of a line that were given to somebody."""
    events = [fields(row) for row in stage.world.events() if row["operation"] == "assign"]
    return [str(row["title"]) for row in events if str(row.get("title", "")).startswith(title)]


def test_what_is_to_be_done_again_and_again_becomes_a_trigger(stage: AgentStage) -> None:
    """K33: she holds no list of her own; what comes of each is told to who is above her."""
    row = stage.result_of("every 3600\nsum 20 22")
    (trigger,) = rows(stage.world.call("operator", "list_triggers", agent="queen")["triggers"])
    assert row["result"]["data"]["trigger"] == trigger["id"]
    assert row["result"]["data"]["strategy"] == "recurring"
    for _ in range(2):
        stage.world.advance(3600)
        stage.troupe.play(
            lambda: not stage.world.ledger.tasks.open_tasks(stage.world.uuid("queen"), 1)
        )
    assert [str(row["body"]).rpartition("\n")[2] for row in results_sent(stage)] == ["42", "42"]


def results_sent(stage: AgentStage) -> list[Reply]:
    return [row for row in stage.world.mail("root") if row["kind"] == "result"]


def test_a_time_that_is_none_is_said(stage: AgentStage) -> None:
    row = stage.result_of("cron 99 99 * * *\nsum 1 2")
    assert row["result"]["status"] == "failed"
    assert "cannot set a trigger" in row["result"]["error"] + row["result"]["summary"]


def test_a_result_that_is_too_much_for_a_report_is_read_from_the_store(stage: AgentStage) -> None:
    text = "x" * 9000
    job = f"group\necho {text}\ngroup\necho {text}\ngroup\necho {text}\ncombine lines"
    row = stage.result_of(job)
    assert row["result"]["status"] == "success"
    assert row["result"]["summary"].endswith("[cut]")
    (stored,) = row["result"]["artifacts"]
    artifact = stage.world.call("operator", "get_artifact", id=stored)
    assert rows([artifact["artifact"]])[0]["size"] == 3 * 9000 + 2


def test_what_is_refused_for_good_ends_that_task_and_no_other(stage: AgentStage) -> None:
    stage.world.call("operator", "revoke_capability", agent="queen", capability="spawn")
    task = stage.assign("sum 1 2")
    stage.troupe.play(lambda: stage.troupe.task(task)["result"] is not None)
    assert stage.troupe.task(task)["result"]["status"] == "failed"
    stage.world.call("operator", "grant_capability", agent="queen", capability="spawn")
    assert stage.result_of("sum 1 2")["result"]["summary"] == "3"


def test_groups_beside_each_other_begin_before_the_first_one_ends(stage: AgentStage) -> None:
    stage.result_of("group\nsum 1 2\nsum 1 1\ngroup\nsum 3 4\nsum 2 2\ncombine sum")
    events = [fields(row) for row in stage.world.events() if row["kind"] == "task"]
    lines = [(row.get("title"), row["target_name"]) for row in events if row.get("title")]
    order = [str(title) for title, _ in lines if str(title)[:1].isdigit()]
    assert order.index("1.0.1") < order.index("0.1.1")
