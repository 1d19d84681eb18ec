"""What follows when a budget runs low, is empty, and is filled again (rows K22, K23, Q24, Q43)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.tasks import finish, give, phase, take
from fixtures.world import World, rows, world

from hive_core.errors import LimitReached
from hive_core.model.config.limits import BudgetSettings
from hive_core.model.config.settings import Settings


def budget(world: World, agent: str, amount: int, kind: str = "tokens", **more: object) -> None:
    world.call("operator", "allocate_budget", agent=agent, kind=kind, amount=amount, **more)


def budget_notices(world: World, agent: str, kind: str = "budget") -> list[str]:
    """First lines of the daemon's mail of this kind."""
    return [
        str(letter["body"]).splitlines()[0]
        for letter in world.mail(agent)
        if letter["kind"] == kind
    ]


def budget_events(world: World, kind: str = "budget") -> list[object]:
    return [event["operation"] for event in world.events() if event["kind"] == kind]


def state(world: World, task: str) -> str:
    return str(world.ledger.tasks.require(task).state)


def test_the_agent_and_its_giver_are_warned_once_for_each_crossing(world: World) -> None:
    budget(world, "root", 1000)
    budget(world, "a", 100)
    for _ in range(9):
        world.call("a", "report_usage", tokens_in=9)
    low = ["the token budget of a runs low: 81 of 100 tokens spent"]
    assert budget_notices(world, "a") == budget_notices(world, "root") == low
    budget(world, "a", 100)
    world.call("a", "report_usage", tokens_in=80)
    assert budget_notices(world, "a") == [
        *low,
        "the token budget of a runs low: 161 of 200 tokens spent",
    ]
    assert budget_events(world) == ["low", "low"]


def test_an_agent_out_of_budget_has_its_giver_asked_and_gets_no_new_task(world: World) -> None:
    budget(world, "root", 1000)
    budget(world, "a", 100)
    world.call("a", "report_usage", tokens_in=60, tokens_out=60)
    (question,) = rows(world.call("root", "list_questions")["questions"])
    assert "the token budget of a is used up: 100 of 100 tokens spent" in str(question)
    assert question["budget"] == "tokens"
    with pytest.raises(LimitReached, match=r"budget of a is used up .*root can give more"):
        world.call("root", "assign_task", agent="a", description="mend it")
    refusal = world.events()[-1]
    assert (refusal["kind"], refusal["operation"], refusal["rule"]) == (
        "refusal", "assign_task", "budget",
    )  # fmt: skip


def test_descendants_that_draw_on_it_are_out_of_budget_too(world: World) -> None:
    budget(world, "a", 100)
    budget(world, "a2", 10)
    world.call("a11", "report_usage", tokens_in=100)
    assert world.fault("a", "assign_task", agent="a1", description="x") == "LimitReached"
    assert world.fault("a", "assign_task", agent="a2", description="x") == ""
    assert world.fault("root", "assign_task", agent="b", description="x") == ""


def test_an_answer_with_a_number_gives_so_much_and_work_goes_on(world: World) -> None:
    budget(world, "root", 1000)
    budget(world, "a", 100)
    world.call("a", "report_usage", tokens_in=110)
    (question,) = rows(world.call("root", "list_questions")["questions"])
    world.call("root", "answer", question=question["id"], answers=["40"])
    ended = world.call("root", "get_question", question=question["id"])["question"]
    assert isinstance(ended, dict)
    assert ended["budget"] == ""
    purse = world.ledger.budgets.of(world.uuid("a"))[0]
    assert (purse.free, purse.spent, purse.over) == (30, 110, 0)
    assert world.fault("root", "assign_task", agent="a", description="mend it") == ""
    assert "has 30 tokens again: continue" in budget_notices(world, "a")[-1]


def test_an_answer_gives_no_more_than_the_answerer_has(world: World) -> None:
    budget(world, "root", 150)
    budget(world, "a", 100)
    world.call("a", "report_usage", tokens_in=100)
    (question,) = rows(world.call("root", "list_questions")["questions"])
    world.call("root", "answer", question=question["id"], answers=["1000"])
    assert world.ledger.budgets.of(world.uuid("a"))[0].free == 0
    assert "has 50 left" in budget_notices(world, "root")[-1]


def test_a_top_up_closes_the_question(world: World) -> None:
    budget(world, "root", 1000)
    budget(world, "a", 100)
    world.call("a", "report_usage", tokens_in=100)
    budget(world, "a", 50)
    assert rows(world.call("root", "list_questions")["questions"]) == []


def test_work_at_an_empty_budget_is_told_then_stopped_and_what_waits_goes_on_later(
    world: World,
) -> None:
    budget(world, "root", 1000)
    budget(world, "a", 100)
    running = give(world, "root", "a", deadline=0.0)
    others = [give(world, "root", "a", deadline=0.0) for _ in range(5)]
    world.call("a", "report_usage", tokens_in=100, task=running)
    assert "report now" in str([letter["body"] for letter in world.mail("a")])
    assert state(world, others[-1]) == "queued"
    finish(world, "a", others[0])
    assert state(world, others[-1]) == "queued", "nothing new is begun"
    world.clock.advance(61)
    world.run()
    assert state(world, running) == "stopping"
    budget(world, "a", 500)
    world.run()
    world.clock.advance(11)
    world.run()
    take(world, "a")
    assert state(world, others[-1]) == "in_progress"
    assert "stopped" in budget_events(world)


@pytest.mark.parametrize("how", ["close", "move"])
def test_an_agent_with_an_empty_budget_goes_on_where_another_one_pays(
    world: World, how: str
) -> None:
    budget(world, "root", 1000)
    budget(world, "a", 500)
    world.call("root", "allocate_budget", agent="a1", kind="tokens", amount=10)
    first, *_, waits = (give(world, "root", "a1", deadline=0.0) for _ in range(6))
    world.call("a1", "report_usage", tokens_in=10)
    finish(world, "a1", first)
    assert state(world, waits) == "queued"
    assert len(rows(world.call("a", "list_questions")["questions"])) == 1
    if how == "close":
        world.call("root", "allocate_budget", agent="a1", kind="tokens", close=True)
    else:
        world.call("root", "move", agent="a1", parent="b")
    assert phase(world, waits) == "offered"
    assert rows(world.call("a", "list_questions")["questions"]) == []
    assert (
        "is closed, and the budget above it pays now: continue" in budget_notices(world, "a1")[-1]
    )


def test_a_closed_budget_below_an_empty_one_wakes_no_agent(world: World) -> None:
    budget(world, "root", 1000)
    budget(world, "a", 20)
    world.call("a", "allocate_budget", agent="a1", kind="tokens", amount=10)
    first, *_, waits = (give(world, "root", "a1", deadline=0.0) for _ in range(6))
    for agent in ("a", "a1"):
        world.call(agent, "report_usage", tokens_in=10)
    finish(world, "a1", first)
    world.call("root", "allocate_budget", agent="a1", kind="tokens", close=True)
    assert state(world, waits) == "queued"
    assert not any("is closed" in item for item in budget_notices(world, "a1"))
    budget(world, "a", 20)
    assert phase(world, waits) == "offered"


def test_a_message_a_task_and_an_agent_are_refused_before_they_are_made(world: World) -> None:
    budget(world, "a", 2, kind="messages")
    budget(world, "a", 1, kind="tasks")
    budget(world, "a", 1, kind="children")
    for operation, words in (
        ("send", {"to": "a1", "body": "x"}),
        ("assign_task", {"agent": "a1", "description": "x"}),
        ("spawn", {"name": "new", "parent": "a"}),
    ):
        results = [world.fault("a", operation, **words)]
        if operation == "spawn":
            words["name"] = "newer"
        results += [world.fault("a", operation, **words) for _ in range(2)]
        assert results[-1] == "LimitReached", operation
        assert results[0] == ""
    assert "newer" not in world.hive.topology


def test_no_agent_pays_for_what_the_operator_does(world: World) -> None:
    budget(world, "a", 1, kind="messages")
    assert [world.fault("operator", "send", to="a", body="x") for _ in range(3)] == [""] * 3


def test_a_report_that_is_repeated_is_charged_once(world: World) -> None:
    budget(world, "a", 100)
    for _ in range(3):
        world.call("a", "report_usage", tokens_in=10, idempotency_key="turn-1")
    assert world.ledger.budgets.of(world.uuid("a"))[0].spent == 10
    sums = rows(world.call("a", "get_usage")["sums"])
    assert {"key": "a", "kind": "tokens_in", "source": "reported", "amount": 10} in sums


def test_the_figures_of_the_result_count_like_any_report(world: World) -> None:
    budget(world, "a", 100)
    task = give(world, "root", "a")
    world.call("a", "report_usage", tokens_in=10, task=task)
    finish(world, "a", task, tokens=30, cost=7)
    assert world.ledger.budgets.of(world.uuid("a"))[0].spent == 40
    assert world.ledger.budgets.usage.of_task(task)["money"] == 7


def test_what_is_no_task_of_the_caller_cannot_be_charged(world: World) -> None:
    task = give(world, "root", "a")
    assert world.fault("b", "report_usage", tokens_in=1, task=task) == "InvalidArgument"
    assert world.fault("a", "report_usage") == "InvalidArgument"


def test_models_beyond_the_sixteenth_of_a_day_are_one(world: World) -> None:
    for number in range(20):
        world.call("a", "report_usage", tokens_in=1, model=f"m{number}")
    sums = rows(world.call("a", "get_usage", by="model")["sums"])
    models = {row["key"]: row["amount"] for row in sums if row["kind"] == "tokens_in"}
    assert len(models) == 17
    assert models["other"] == 4


def test_a_task_at_its_bound_gets_no_more_tools_and_is_stopped(world: World) -> None:
    world.grow("a/w:worker")
    task = str(
        world.call("a", "assign_task", agent="w", description="x", caps={"tool_calls": 2})["task"]
    )
    take(world, "w")
    use = {"tool": "command", "argument": ["true"], "task": task}
    for _ in range(2):
        grant = world.call("w", "use_tool", **use)["grant"]
        world.call("w", "end_tool", grant=grant)
    with pytest.raises(LimitReached, match="2 of 2 tool calls; report now"):
        world.call("w", "use_tool", **use)
    assert budget_notices(world, "w") == [
        f"task {task} has used 2 of 2 tool calls: report now what you have"
    ]
    world.clock.advance(61)
    world.run()
    assert state(world, task) == "stopping"


# Calls a minute.


def test_calls_of_a_subtree_are_bounded_in_every_minute(world: World) -> None:
    budget(world, "a", 3, kind="calls")
    assert [world.fault(name, "whoami") for name in ("a", "a1", "a11")] == [""] * 3
    with pytest.raises(LimitReached, match="a and those below it have used their calls"):
        world.call("a2", "whoami")
    assert world.fault("b", "whoami") == ""
    world.clock.advance(59)
    assert world.fault("a", "whoami") == "LimitReached"
    world.clock.advance(2)
    assert world.fault("a", "whoami") == ""


def test_a_bound_of_calls_is_never_above_the_next_one_up(world: World) -> None:
    budget(world, "root", 10, kind="calls")
    with pytest.raises(LimitReached, match="root has 10"):
        world.call("root", "allocate_budget", agent="a", kind="calls", amount=11)
    budget(world, "a", 4, kind="calls")
    budget(world, "a", 4, kind="calls")
    assert world.ledger.budgets.caps[world.uuid("a")] == 8


def test_what_ends_something_can_always_be_called(world: World) -> None:
    budget(world, "a", 1, kind="calls")
    world.call("a", "whoami")
    assert world.fault("a", "whoami") == "LimitReached"
    assert world.fault("a", "stop", agent="a1") == ""


def test_a_call_that_waits_is_one_call(world: World) -> None:
    budget(world, "a", 2, kind="calls")
    waiting = world.ask("a", "recv", wait=50)
    for _ in range(5):
        world.broker.touch({f"inbox:{world.uuid('a')}"})
        world.run()
    assert waiting.pending
    assert world.fault("a", "whoami") == ""
    sums = rows(world.call("operator", "get_usage", agent="a")["sums"])
    assert {"key": "a", "kind": "calls", "source": "measured", "amount": 2} in sums


@pytest.fixture(name="never")
def _never() -> Iterator[World]:
    with world(Settings(budgets=BudgetSettings(stop=0)), "root/a") as made:
        yield made


def test_work_is_never_stopped_where_the_host_says_so(never: World) -> None:
    budget(never, "a", 10)
    task = give(never, "root", "a", deadline=0.0)
    never.call("a", "report_usage", tokens_in=10)
    never.clock.advance(10_000)
    never.run()
    assert state(never, task) == "in_progress"
