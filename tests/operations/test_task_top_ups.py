"""K34: more for a task that has something of its own: who may, whose purse pays, what goes on."""

from __future__ import annotations

import pytest
from operations.given import end, give, state
from operations.test_task_funds import fund, given, left, told, use
from operations.world import World, rows

from hive_core.errors import Conflict, InvalidArgument, LimitReached, NotAllowed
from hive_core.model.budget import AMOUNT_MOST
from hive_core.model.task import TaskWish


@pytest.fixture(autouse=True)
def _budgets(world: World) -> None:
    world.call("operator", "allocate_budget", agent="root", kind="tokens", amount=1000)
    world.call("root", "allocate_budget", agent="a", kind="tokens", amount=500)


@pytest.mark.parametrize("caller", ["a", "root", "operator"])
def test_it_comes_out_of_the_purse_of_who_gave_the_task_whoever_asks(
    world: World, caller: str
) -> None:
    task = given(world, "a", "a11", 100)
    found = world.call(caller, "fund_task", task=task, tokens=50)
    assert found["giver"] == "a"
    assert rows(found["budget"]) == [{"kind": "tokens", "left": 150, "spent": 0, "owed": 0}]
    assert (left(world, "a"), left(world, "root")) == ((350, 0, 0), (500, 0, 0))
    use(world, "a11", 120, task)
    end(world, task)
    assert (left(world, "a"), fund(world, task)) == ((380, 0, 0), None)


def test_a_task_that_had_used_it_up_goes_on_and_is_not_stopped(world: World) -> None:
    task = given(world, "a", "a1", 100, deadline=0.0)
    use(world, "a1", 110, task)
    assert world.fault("a1", "use_tool", tool="x", task=task) != ""
    world.call("a", "fund_task", task=task, tokens=50)
    assert fund(world, task) == (40, 110, 0)
    assert told(world, "a1")[-1] == f"the token budget of task {task} has 40 again: go on"
    world.advance(70)
    assert state(world, task) == "in_progress"
    use(world, "a1", 35, task)
    assert "runs low" in told(world, "a1")[-1]


def test_less_than_it_owes_lets_nothing_go_on(world: World) -> None:
    task = given(world, "a", "a1", 100, deadline=0.0)
    use(world, "a1", 150, task)
    world.call("a", "fund_task", task=task, tokens=30)
    assert fund(world, task) == (0, 130, 20)
    world.advance(70)
    assert state(world, task) == "stopping"


def test_with_two_of_its_own_it_goes_on_when_both_have_something(world: World) -> None:
    world.call("operator", "allocate_budget", agent="root", kind="money", amount=1000)
    task = give(world, "a", "a1", budget={"tokens": 10, "cost": 10}, deadline=0.0)
    world.call("a1", "report_usage", tokens_in=10, cost=10, task=task)
    world.call("a", "fund_task", task=task, tokens=10)
    assert world.ledger.budgets.usage.cap_due() is not None
    world.call("a", "fund_task", task=task, cost=10)
    assert world.ledger.budgets.usage.cap_due() is None


def test_queued_parts_that_it_pays_for_are_begun(world: World) -> None:
    whole = given(world, "root", "a1", 100, deadline=0.0)
    use(world, "a", 500)
    *running, waits = (give(world, "a1", "a11", deadline=0.0) for _ in range(6))
    use(world, "a1", 100, whole)
    end(world, running[0])
    assert state(world, waits) == "queued"
    world.call("root", "fund_task", task=whole, tokens=10)
    assert state(world, waits) == "in_progress"


def test_the_last_of_very_many_parts_is_begun_too(world: World) -> None:
    whole = given(world, "root", "a1", 100, deadline=0.0)
    use(world, "a", 500)
    with world.ledger.transaction():
        for _ in range(300):
            wish = TaskWish("x", part_of=whole)
            world.ledger.tasks.create(world.uuid("a1"), world.uuid("a2"), wish, world.clock.now())
    *running, waits = (give(world, "a1", "a11", deadline=0.0) for _ in range(6))
    use(world, "a1", 100, whole)
    end(world, running[0])
    assert state(world, waits) == "queued"
    world.call("root", "fund_task", task=whole, tokens=10)
    assert state(world, waits) == "in_progress"


def test_a_part_is_topped_up_out_of_its_whole(world: World) -> None:
    whole = given(world, "a", "a1", 100)
    part = given(world, "a1", "a11", 30, part_of=whole)
    world.call("a", "fund_task", task=part, tokens=20)
    assert (fund(world, whole), fund(world, part)) == ((50, 0, 0), (50, 0, 0))
    with pytest.raises(LimitReached, match=f"of the token budget of task {whole} are 50 left"):
        world.call("a1", "fund_task", task=part, tokens=51)


def test_nobody_gives_more_than_the_giver_has(world: World) -> None:
    task = given(world, "a", "a1", 100)
    words = f"cannot fund task {task} with 401 tokens more: of the token budget of a are 400 left"
    with pytest.raises(LimitReached, match=words):
        world.call("operator", "fund_task", task=task, tokens=401)
    assert (left(world, "a"), fund(world, task)) == ((400, 0, 0), (100, 0, 0))


@pytest.mark.parametrize(
    ("caller", "error"),
    {"a1": "NotAllowed", "a11": "NotAllowed", "a": "NotAllowed", "b": "NotFound",
     "b1": "NotFound"}.items(),
)  # fmt: skip
def test_only_the_giver_and_who_is_above_it_may(world: World, caller: str, error: str) -> None:
    task = given(world, "root", "a11", 100)
    assert world.fault(caller, "fund_task", task=task, tokens=1) == error
    assert fund(world, task) == (100, 0, 0)


def test_who_may_not_give_budgets_gives_none(world: World) -> None:
    task = given(world, "a", "a1", 100)
    world.call("operator", "revoke_capability", agent="a", capability="budget")
    with pytest.raises(NotAllowed, match="cannot fund task of a: you do not hold the capability"):
        world.call("a", "fund_task", task=task, tokens=1)


def test_a_task_without_its_own_or_that_is_over_gets_no_more(world: World) -> None:
    carried, over = give(world, "a", "a1"), given(world, "a", "a1", 10)
    with pytest.raises(Conflict, match="it was given no tokens of its own"):
        world.call("a", "fund_task", task=carried, tokens=1)
    end(world, over)
    with pytest.raises(Conflict, match=f"cannot fund task {over}: it has ended"):
        world.call("a", "fund_task", task=over, tokens=1)
    stopping = given(world, "a", "a1", 10)
    world.call("a", "cancel_task", task=stopping)
    with pytest.raises(Conflict, match="it is being stopped"):
        world.call("a", "fund_task", task=stopping, tokens=1)
    assert left(world, "a") == (490, 0, 0)


def test_it_has_to_be_of_something_and_to_be_countable(world: World) -> None:
    task = given(world, "a", "a1", 10)
    with pytest.raises(InvalidArgument, match="say tokens, or cost, or both"):
        world.call("a", "fund_task", task=task)
    with pytest.raises(InvalidArgument, match="no budget is above"):
        world.call("a", "fund_task", task=task, tokens=AMOUNT_MOST)


def test_a_repeated_call_gives_once(world: World) -> None:
    task = given(world, "a", "a1", 10)
    for _ in range(2):
        world.call("a", "fund_task", task=task, tokens=5, idempotency_key="once")
    assert (fund(world, task), left(world, "a")) == ((15, 0, 0), (485, 0, 0))


def test_what_came_from_nobody_goes_back_to_the_purse_that_gave_more(world: World) -> None:
    task = give(world, "operator", "a1", budget={"cost": 10})
    world.call("operator", "fund_task", task=task, cost=5)
    world.call("operator", "allocate_budget", agent="root", kind="money", amount=100)
    world.call("operator", "fund_task", task=task, cost=5)
    end(world, task)
    (row,) = (
        each for each in rows(world.call("operator", "get_usage", agent="root")["budgets"])
        if each["kind"] == "money"
    )  # fmt: skip
    assert row["left"] == 100
