"""K34: budgets of tasks: who gives them, what they pay for, and where the rest goes."""

from __future__ import annotations

import pytest
from fixtures.tasks import end, finish, give, phase, state, take
from fixtures.world import World, rows

from hive_core.errors import InvalidArgument, LimitReached, NotAllowed
from hive_core.model.work.budget import BudgetKind


@pytest.fixture(autouse=True)
def _budgets(world: World) -> None:
    world.call("operator", "allocate_budget", agent="root", kind="tokens", amount=1000)
    world.call("root", "allocate_budget", agent="a", kind="tokens", amount=500)


def balance(world: World, agent: str) -> tuple[int, int, int]:
    """Of the agent's own purse: left, spent, owed."""
    purse = world.ledger.budgets.get(world.uuid(agent), BudgetKind.TOKENS)
    assert purse is not None
    return purse.free, purse.spent, purse.over


def fund(world: World, task: str) -> tuple[int, int, int] | None:
    result = world.ledger.budgets.funds.get(task, BudgetKind.TOKENS)
    return None if result is None else (result.budget.free, result.budget.spent, result.budget.over)


def use(world: World, agent: str, tokens: int, task: str | None = None) -> None:
    world.call(agent, "report_usage", tokens_in=tokens, task=task)


def give_funded(world: World, assigner: str, agent: str, tokens: int, **wish: object) -> str:
    return give(world, assigner, agent, budget={"tokens": tokens}, **wish)


def notices(world: World, agent: str) -> list[str]:
    mail = [message for message in world.mail(agent) if message["kind"] == "budget"]
    return [str(message["body"]).splitlines()[0] for message in mail]


def test_it_comes_out_of_the_budget_of_the_assigner_and_the_rest_goes_back(world: World) -> None:
    task = give_funded(world, "a", "a1", 100)
    assert balance(world, "a") == (400, 0, 0)
    use(world, "a1", 30, task)
    assert (balance(world, "a"), fund(world, task)) == ((400, 0, 0), (70, 30, 0))
    finish(world, "a1", task, tokens=10)
    assert (balance(world, "a"), fund(world, task)) == ((460, 0, 0), None)


def test_a_new_agent_s_task_can_have_one_and_the_agent_is_told(world: World) -> None:
    words = {"agent_role": "Digger", "agent_type": "worker", "task_description": "dig"}
    made = world.call("a", "spawn_agent_and_assign_task", budget={"tokens": 80}, **words)
    assert (balance(world, "a"), fund(world, str(made["task_id"]))) == ((420, 0, 0), (80, 0, 0))
    (letter,) = take(world, str(made["name"]))
    assert "\nbudget: 80 tokens\n" in str(letter["body"])


def test_without_one_a_task_is_paid_as_all_that_its_agent_does(world: World) -> None:
    task = give(world, "a", "a1")
    use(world, "a1", 30, task)
    assert balance(world, "a") == (470, 30, 0)


def test_what_is_used_for_no_task_is_not_paid_by_the_task(world: World) -> None:
    task = give_funded(world, "a", "a1", 100)
    use(world, "a1", 5)
    assert (balance(world, "a"), fund(world, task)) == ((395, 5, 0), (100, 0, 0))


def test_no_agent_gives_what_it_does_not_have(world: World) -> None:
    with pytest.raises(LimitReached, match="the token budget of a has 500 left"):
        give_funded(world, "a", "a1", 501)
    assert balance(world, "a") == (500, 0, 0)
    assert world.call("a", "list_tasks", agent="a1")["tasks"] == []


def test_an_agent_that_may_not_give_budgets_gives_none_with_a_task(world: World) -> None:
    world.call("operator", "revoke_capability", agent="a", capability="budget")
    with pytest.raises(NotAllowed, match="you do not hold the capability budget"):
        give_funded(world, "a", "a1", 1)
    assert world.fault("a", "assign_task", agent="a1", description="x") == ""


def test_it_has_to_be_of_something(world: World) -> None:
    with pytest.raises(InvalidArgument, match="set `tokens`, `cost` or both"):
        give(world, "a", "a1", budget={})


def test_parts_of_a_task_are_paid_by_the_whole_and_get_theirs_out_of_it(world: World) -> None:
    whole = give_funded(world, "root", "a1", 100)
    carried = give(world, "a1", "a11")
    use(world, "a11", 10, carried)
    assert fund(world, whole) == (90, 10, 0)
    fresh = give_funded(world, "a1", "a11", 40)
    assert fund(world, whole) == (50, 10, 0)
    use(world, "a11", 15, fresh)
    end(world, fresh)
    assert fund(world, whole) == (75, 10, 0)
    assert balance(world, "root") == (400, 0, 0)


def test_a_whole_that_had_nothing_left_goes_on_with_what_a_part_gives_back(world: World) -> None:
    whole = give_funded(world, "root", "a1", 100, deadline=0.0)
    part = give_funded(world, "a1", "a11", 60, deadline=0.0)
    use(world, "a1", 40, whole)
    assert "report now" in notices(world, "a1")[-1]
    end(world, part)
    assert notices(world, "a1")[-1] == f"the token budget of task {whole} has 60 again: continue"
    world.advance(120)
    assert state(world, whole) == "in_progress"


def test_a_part_that_outlives_its_whole_gives_back_to_where_that_came_from(world: World) -> None:
    whole = give_funded(world, "root", "a1", 100)
    part = give_funded(world, "a1", "a11", 40)
    end(world, whole)
    assert balance(world, "root") == (460, 0, 0)
    end(world, part)
    assert balance(world, "root") == (500, 0, 0)


def test_when_it_is_used_up_the_agent_reports_and_the_task_is_stopped(world: World) -> None:
    task = give_funded(world, "a", "a1", 100, deadline=0.0)
    use(world, "a1", 85, task)
    low = f"the token budget of task {task} of a1 runs low: 85 of 100 tokens spent"
    assert notices(world, "a1") == notices(world, "a") == [low]
    use(world, "a1", 30, task)
    assert notices(world, "a1")[-1].endswith("report now what you have")
    assert notices(world, "a")[-1].endswith("is used up: 100 of 100 tokens spent, and 15 beyond it")
    world.advance(61)
    assert state(world, task) == "stopping"
    world.advance(11)
    assert (state(world, task), fund(world, task)) == ("stopping", (0, 100, 15))
    end(world, task, "stopped")
    assert balance(world, "a") == (400, 0, 0), "what was used beyond it is nobody else's"


def test_a_task_with_its_own_goes_on_where_its_agent_has_nothing_left(world: World) -> None:
    world.call("root", "allocate_budget", agent="a1", kind="tokens", amount=10)
    running = give_funded(world, "a", "a1", 100, deadline=0.0)
    use(world, "a1", 10)
    assert world.fault("a", "assign_task", agent="a1", description="x") == "LimitReached"
    other = give_funded(world, "a", "a1", 20, deadline=0.0)
    assert state(world, other) == "in_progress"
    world.advance(61)
    assert {state(world, item) for item in (running, other)} == {"in_progress"}


def test_of_those_in_the_queue_only_what_is_paid_for_is_begun(world: World) -> None:
    world.call("root", "allocate_budget", agent="a1", kind="tokens", amount=10)
    first, *carried = (give(world, "a", "a1", deadline=0.0) for _ in range(6))
    own = give_funded(world, "a", "a1", 50, priority=3, deadline=0.0)
    assert (state(world, carried[-1]), state(world, own)) == ("queued", "queued")
    use(world, "a1", 10)
    end(world, first)
    assert (phase(world, carried[-1]), phase(world, own)) == ("queued", "offered")


def test_what_is_given_for_one_tier_pays_besides(world: World) -> None:
    world.call(
        "operator", "allocate_budget", agent="root", kind="tokens", amount=20, tier="tactical"
    )
    task = give_funded(world, "a", "a1", 100)
    world.call("a1", "report_usage", tokens_in=20, task=task, tier="tactical")
    tactical = world.ledger.budgets.get(world.uuid("root"), BudgetKind.TOKENS, "tactical")
    assert tactical is not None
    assert (tactical.free, fund(world, task), balance(world, "a")) == (0, (80, 20, 0), (400, 0, 0))


@pytest.mark.parametrize("who", ["a1", "a"])
def test_it_goes_back_once_whichever_agent_ends(world: World, who: str) -> None:
    give_funded(world, "a", "a1", 100)
    task = give_funded(world, "a", "a2", 50)
    use(world, "a2", 5, task)
    world.call("operator", "destroy", agent=who, recursive=True)
    world.kill()
    budgets = world.ledger.budgets
    there = sum(item.free + item.spent for item in budgets.of_kind(BudgetKind.TOKENS))
    there += sum(item.budget.free + item.budget.spent for item in budgets.funds.all())
    assert there == (1000 if who == "a1" else 995), "what was spent of what is gone is spent"
    if who == "a":
        assert (balance(world, "root"), budgets.funds.all()) == ((995, 0, 0), [])


def test_a_budget_that_is_closed_has_its_tasks_give_back_further_up(world: World) -> None:
    task = give_funded(world, "a", "a1", 100)
    world.call("root", "allocate_budget", agent="a", kind="tokens", close=True)
    assert balance(world, "root") == (900, 0, 0)
    end(world, task)
    assert balance(world, "root") == (1000, 0, 0)


def test_funds_without_a_giver_are_part_of_the_first_budget_above_them(world: World) -> None:
    wish = {"description": "x", "budget": {"cost": 70}}
    task = str(world.call("operator", "assign_task", agent="b1", **wish)["task"])
    words = {"agent": "root", "kind": "money"}
    with pytest.raises(InvalidArgument, match="have 70 millionths already"):
        world.call("operator", "allocate_budget", amount=60, **words)
    assert world.call("operator", "allocate_budget", amount=100, **words)["left"] == 30
    end(world, task)
    assert world.call("operator", "allocate_budget", amount=1, **words)["left"] == 101


def test_a_budget_without_a_giver_ends_when_its_agent_comes_below_a_budget(world: World) -> None:
    world.call("operator", "spawn", name="other", parent="")
    world.call("operator", "spawn", name="o1", parent="other")
    task = give_funded(world, "operator", "o1", 70)
    world.call("operator", "move", agent="o1", parent="a")
    assert fund(world, task) is None
    use(world, "o1", 5, task)
    assert balance(world, "a") == (495, 5, 0)


def test_each_task_of_a_batch_can_have_its_own(world: World) -> None:
    tasks = [{"task": "x", "budget": {"tokens": 60}}, "y"]
    batch = world.call("a", "run_parallel_workers", tasks=tasks, agents=["a1", "a2"])
    first, second = (str(task) for task in batch["tasks"])  # type: ignore[attr-defined]
    assert (fund(world, first), fund(world, second)) == ((60, 0, 0), None)
    assert balance(world, "a") == (440, 0, 0)


def test_it_is_seen_in_the_task_and_among_the_budgets(world: World) -> None:
    task = give_funded(world, "a", "a1", 100)
    use(world, "a1", 30, task)
    assert world.call("a", "get_task", task=task)["budget"] == [
        {"kind": "tokens", "left": 70, "spent": 30, "owed": 0}
    ]
    (row,) = (budget for budget in rows(world.call("a1", "get_usage")["budgets"]) if budget["task"])
    assert (row["task"], row["left"], row["source"]) == (task, 70, "reported")
    done = [event["operation"] for event in world.events() if event["kind"] == "budget"]
    assert done == ["reserved"]


def test_a_task_that_is_resumed_is_given_nothing_of_its_own_again(world: World) -> None:
    task = give_funded(world, "a", "a1", 100)
    end(world, task, "failed")
    again = str(world.call("a", "resume_task", task=task, guidance="once more")["task"])
    assert (fund(world, again), balance(world, "a")) == (None, (500, 0, 0))


def test_what_is_queued_goes_on_when_a_purse_emptied_by_giving_is_filled(world: World) -> None:
    *running, waits = (give(world, "a", "a1", deadline=0.0) for _ in range(6))
    all_of_it = give_funded(world, "a", "a2", 500)
    for item in running:
        end(world, item)
    assert (balance(world, "a"), state(world, waits)) == ((0, 0, 0), "queued")
    end(world, all_of_it)
    assert (balance(world, "a"), phase(world, waits)) == ((500, 0, 0), "offered")


def test_queued_parts_go_on_when_their_whole_has_something_again(world: World) -> None:
    give_funded(world, "root", "a1", 100, deadline=0.0)
    use(world, "a", 500)
    *running, waits = (give(world, "a1", "a11", deadline=0.0) for _ in range(6))
    part = give_funded(world, "a1", "a11", 100, deadline=0.0)
    for item in running:
        end(world, item)
    assert (phase(world, waits), phase(world, part)) == ("queued", "offered")
    take(world, "a11")
    end(world, part)
    assert phase(world, waits) == "offered"


def test_a_part_spared_for_its_whole_s_own_is_stopped_some_time_after_that_is_gone(
    world: World,
) -> None:
    world.call("root", "allocate_budget", agent="a1", kind="tokens", amount=10)
    whole = give_funded(world, "root", "a1", 100, deadline=0.0)
    part = give(world, "a1", "a11", deadline=0.0)
    use(world, "a1", 10)
    world.advance(61)
    end(world, whole)
    assert state(world, part) == "in_progress"
    world.advance(59)
    assert state(world, part) == "in_progress", "it has the time that all have"
    world.advance(2)
    assert state(world, part) == "stopping"
