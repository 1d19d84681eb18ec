"""K34: more budget for a running task: who adds it, who pays, and which work continues."""

from __future__ import annotations

from contextlib import suppress

import pytest
from fixtures.tasks import end, give, phase, state
from fixtures.world import World, rows, world
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from operations.test_task_funds import balance, fund, give_funded, notices, use

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result
from hive_core.errors import Conflict, HiveError, InvalidArgument, LimitReached, NotAllowed
from hive_core.model.work.budget import AMOUNT_MOST, BudgetKind
from hive_core.model.work.task import TaskRequest
from hive_core.operations.tasks.funds import refill_fund
from hive_core.operations.tasks.transitions import AT_ONCE


@pytest.fixture(autouse=True)
def _budgets(world: World) -> None:
    world.call("operator", "allocate_budget", agent="root", kind="tokens", amount=1000)
    world.call("root", "allocate_budget", agent="a", kind="tokens", amount=500)


@pytest.mark.parametrize("caller", ["a", "root", "operator"])
def test_it_comes_out_of_the_budget_of_the_assigner_for_any_caller(
    world: World, caller: str
) -> None:
    task = give_funded(world, "a", "a11", 100)
    reply = world.call(caller, "fund_task", task=task, tokens=50)
    assert reply["giver"] == "a"
    assert rows(reply["budget"]) == [{"kind": "tokens", "left": 150, "spent": 0, "owed": 0}]
    assert (balance(world, "a"), balance(world, "root")) == ((350, 0, 0), (500, 0, 0))
    use(world, "a11", 120, task)
    end(world, task)
    assert (balance(world, "a"), fund(world, task)) == ((380, 0, 0), None)


def test_a_task_that_had_used_it_up_goes_on_and_is_not_stopped(world: World) -> None:
    task = give_funded(world, "a", "a1", 100, deadline=0.0)
    use(world, "a1", 110, task)
    assert world.fault("a1", "use_tool", tool="x", task=task) != ""
    world.call("a", "fund_task", task=task, tokens=50)
    assert fund(world, task) == (40, 110, 0)
    assert notices(world, "a1")[-1] == f"the token budget of task {task} has 40 again: continue"
    world.advance(70)
    assert state(world, task) == "in_progress"
    use(world, "a1", 35, task)
    assert "runs low" in notices(world, "a1")[-1]


def test_less_than_it_owes_lets_nothing_go_on(world: World) -> None:
    task = give_funded(world, "a", "a1", 100, deadline=0.0)
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
    assert world.ledger.budgets.usage.next_cap_stop() is not None
    world.call("a", "fund_task", task=task, cost=10)
    assert world.ledger.budgets.usage.next_cap_stop() is None


def test_queued_parts_that_it_pays_for_are_begun(world: World) -> None:
    whole = give_funded(world, "root", "a1", 100, deadline=0.0)
    use(world, "a", 500)
    *running, waits = (give(world, "a1", "a11", deadline=0.0) for _ in range(6))
    use(world, "a1", 100, whole)
    end(world, running[0])
    assert state(world, waits) == "queued"
    world.call("root", "fund_task", task=whole, tokens=10)
    assert phase(world, waits) == "offered"


def test_the_last_of_very_many_parts_is_begun_too(world: World) -> None:
    whole = give_funded(world, "root", "a1", 100, deadline=0.0)
    use(world, "a", 500)
    with world.ledger.transaction():
        for _ in range(300):
            wish = TaskRequest("x", part_of=whole)
            world.ledger.tasks.create(world.uuid("a1"), world.uuid("a2"), wish, world.clock.now())
    *running, waits = (give(world, "a1", "a11", deadline=0.0) for _ in range(6))
    use(world, "a1", 100, whole)
    end(world, running[0])
    assert state(world, waits) == "queued"
    world.call("root", "fund_task", task=whole, tokens=10)
    assert phase(world, waits) == "offered"


def test_parts_of_very_many_agents_are_begun_so_many_in_each_turn(world: World) -> None:
    world.grow(*(f"a1/w{number}" for number in range(AT_ONCE + 8)))
    whole = give_funded(world, "root", "a1", 100, deadline=0.0)
    use(world, "a", 500)
    use(world, "a1", 100, whole)
    with world.ledger.transaction():
        parts = [
            world.ledger.tasks.create(
                world.uuid("a1"), world.uuid(f"w{number}"), TaskRequest("x", part_of=whole), 0.0
            ).id
            for number in range(AT_ONCE + 8)
        ]
    held = world.ledger.budgets.funds.get(whole, BudgetKind.TOKENS)
    assert held is not None

    def refill(call: Call) -> Record[Result]:
        refill_fund(call, held, 10)
        return Record(Result())

    world.broker.perform("top-up", refill)
    assert [phase(world, part) for part in parts].count("offered") == AT_ONCE
    world.kill()
    world.advance(0)
    assert {phase(world, part) for part in parts} == {"offered"}


def test_a_part_is_topped_up_out_of_its_whole(world: World) -> None:
    whole = give_funded(world, "a", "a1", 100)
    part = give_funded(world, "a1", "a11", 30, part_of=whole)
    world.call("a", "fund_task", task=part, tokens=20)
    assert (fund(world, whole), fund(world, part)) == ((50, 0, 0), (50, 0, 0))
    with pytest.raises(LimitReached, match=f"the token budget of task {whole} has 50 left"):
        world.call("a1", "fund_task", task=part, tokens=51)


def test_no_agent_gives_more_than_it_has(world: World) -> None:
    task = give_funded(world, "a", "a1", 100)
    words = f"cannot fund task {task} with 401 tokens more: the token budget of a has 400 left"
    with pytest.raises(LimitReached, match=words):
        world.call("operator", "fund_task", task=task, tokens=401)
    assert (balance(world, "a"), fund(world, task)) == ((400, 0, 0), (100, 0, 0))


@pytest.mark.parametrize(
    ("caller", "error"),
    {"a1": "NotAllowed", "a11": "NotAllowed", "a": "NotAllowed", "b": "NotFound",
     "b1": "NotFound"}.items(),
)  # fmt: skip
def test_only_the_assigner_and_its_ancestors_may(world: World, caller: str, error: str) -> None:
    task = give_funded(world, "root", "a11", 100)
    assert world.fault(caller, "fund_task", task=task, tokens=1) == error
    assert fund(world, task) == (100, 0, 0)


def test_an_agent_that_may_not_give_budgets_gives_none(world: World) -> None:
    task = give_funded(world, "a", "a1", 100)
    world.call("operator", "revoke_capability", agent="a", capability="budget")
    with pytest.raises(NotAllowed, match="cannot fund task of a: you do not hold the capability"):
        world.call("a", "fund_task", task=task, tokens=1)


def test_a_task_without_its_own_or_that_is_over_gets_no_more(world: World) -> None:
    carried, over = give(world, "a", "a1"), give_funded(world, "a", "a1", 10)
    with pytest.raises(Conflict, match="it has no tokens of its own"):
        world.call("a", "fund_task", task=carried, tokens=1)
    end(world, over)
    with pytest.raises(Conflict, match=f"cannot fund task {over}: it has ended"):
        world.call("a", "fund_task", task=over, tokens=1)
    stopping = give_funded(world, "a", "a1", 10)
    world.call("a", "cancel_task", task=stopping)
    with pytest.raises(Conflict, match="it is being stopped"):
        world.call("a", "fund_task", task=stopping, tokens=1)
    assert balance(world, "a") == (490, 0, 0)


def test_it_has_to_be_of_something_and_to_be_countable(world: World) -> None:
    task = give_funded(world, "a", "a1", 10)
    with pytest.raises(InvalidArgument, match="set `tokens`, `cost` or both"):
        world.call("a", "fund_task", task=task)
    with pytest.raises(InvalidArgument, match="a budget is at most"):
        world.call("a", "fund_task", task=task, tokens=AMOUNT_MOST)


def test_a_repeated_call_gives_once(world: World) -> None:
    task = give_funded(world, "a", "a1", 10)
    for _ in range(2):
        world.call("a", "fund_task", task=task, tokens=5, idempotency_key="once")
    assert (fund(world, task), balance(world, "a")) == ((15, 0, 0), (485, 0, 0))


def test_funds_without_a_giver_go_back_to_the_budget_that_gave_more(world: World) -> None:
    task = give(world, "operator", "a1", budget={"cost": 10})
    world.call("operator", "fund_task", task=task, cost=5)
    world.call("operator", "allocate_budget", agent="root", kind="money", amount=100)
    world.call("operator", "fund_task", task=task, cost=5)
    end(world, task)
    (row,) = (
        budget for budget in rows(world.call("operator", "get_usage", agent="root")["budgets"])
        if budget["kind"] == "money"
    )  # fmt: skip
    assert row["left"] == 100


# More out of another purse than the first: each gets back what it gave.

STEPS = ("assign", "part", "fund", "move", "use", "end")


def grow_trees(world: World, *purses: str) -> None:
    """Two more trees; c works for d."""
    for edge in ("/r1", "/r2", "r1/d", "d/c", "c/e"):
        parent, _, name = edge.partition("/")
        world.call("operator", "spawn", name=name, parent=parent)
    for name in purses:
        world.call("operator", "allocate_budget", agent=name, kind="tokens", amount=1000)


@pytest.mark.parametrize(("used", "back"), [(1, (999, 1000)), (50, (950, 1000)), (550, (900, 550))])
def test_what_came_last_goes_back_first_each_part_to_where_it_came_from(
    world: World, used: int, back: tuple[int, int]
) -> None:
    grow_trees(world, "r1", "r2")
    task = give_funded(world, "d", "c", 100)
    world.call("operator", "move", agent="c", parent="r2")
    world.call("operator", "fund_task", task=task, tokens=500)
    use(world, "c", used, task)
    world.kill()
    end(world, task)
    assert (balance(world, "r1")[0], balance(world, "r2")[0]) == back


def test_the_shares_of_parts_go_back_to_all_givers(world: World) -> None:
    grow_trees(world, "r1", "r2")
    whole = give_funded(world, "d", "c", 100)
    world.call("operator", "move", agent="c", parent="r2")
    world.call("operator", "fund_task", task=whole, tokens=50)
    part = give_funded(world, "c", "e", 120, part_of=whole)
    end(world, whole)
    end(world, part)
    assert (balance(world, "r1")[0], balance(world, "r2")[0]) == (1000, 1000)


def test_a_purse_that_gave_more_and_is_closed_has_it_go_further_up(world: World) -> None:
    task = give(world, "root", "b1", budget={"tokens": 100})
    world.call("operator", "allocate_budget", agent="b", kind="tokens", amount=200)
    world.call("operator", "move", agent="b1", parent="a")
    grow_trees(world, "r1")
    other = give_funded(world, "d", "c", 100)
    world.call("operator", "move", agent="c", parent="b")
    world.call("operator", "fund_task", task=other, tokens=50)
    assert balance(world, "b") == (150, 0, 0)
    world.call("operator", "allocate_budget", agent="b", kind="tokens", close=True)
    end(world, other)
    end(world, task)
    assert (balance(world, "root"), balance(world, "r1")) == ((500, 0, 0), (1000, 0, 0))


def test_none_is_added_out_of_nowhere_to_what_came_out_of_a_purse(world: World) -> None:
    grow_trees(world, "r1")
    task = give_funded(world, "d", "c", 100)
    world.call("operator", "move", agent="c", parent="r2")
    with pytest.raises(Conflict, match="its budget came from a budget, and no budget would pay"):
        world.call("operator", "fund_task", task=task, tokens=500)
    end(world, task)
    assert balance(world, "r1") == (1000, 0, 0)


def step(world: World, event: str, *which: int) -> None:
    names = ("d", "c", "e")
    name, other = names[which[0] % 3], names[which[1] % 3]
    tasks = world.ledger.tasks.page(None, None, 20, open_=True)
    task = tasks[which[2] % len(tasks)].id if tasks else ""
    own = world.ledger.tasks.offered_tasks(world.uuid(name))
    wish: dict[str, object] = {
        "agent": other,
        "description": "x",
        "budget": {"tokens": 1 + which[2]},
    }
    calls: dict[str, tuple[str, str, dict[str, object]]] = {
        "assign": ("operator", "assign_task", wish),
        "part": (name, "assign_task", wish | {"part_of": own[0].id if own else "-"}),
        "fund": ("operator", "fund_task", {"task": task, "tokens": 1 + which[2]}),
        "move": ("operator", "move", {"agent": name, "parent": ("r1", "r2", other)[which[2] % 3]}),
        "use": (name, "report_usage", {"tokens_in": which[2], "task": own[0].id if own else "-"}),
        "end": ("operator", "cancel_task", {"task": task}),
    }
    caller, operation, params = calls[event]
    with suppress(HiveError):
        world.call(caller, operation, **params)


@settings(max_examples=15, deadline=None)
@drawn(
    st.lists(
        st.tuples(st.sampled_from(STEPS), *(st.integers(0, most) for most in (2, 2, 200))),
        min_size=5, max_size=25,
    )
)  # fmt: skip
def test_no_tree_ever_has_more_than_it_was_given(steps: list[tuple[str, int, int, int]]) -> None:
    with world() as made:
        grow_trees(made, "r1", "r2")
        for event, *which in steps:
            step(made, event, *which)
        for task in made.ledger.tasks.page(None, None, 100, open_=True):
            with suppress(HiveError):  # it may end with another one
                made.call("operator", "cancel_task", task=task.id)
        for task in made.ledger.tasks.page(None, None, 100, open_=True):
            with suppress(HiveError):
                end(made, task.id, "stopped")
        made.advance(200)  # longer than any of them has for its end
        result = [balance(made, name) for name in ("r1", "r2")]
        assert made.ledger.budgets.funds.all() == []
        assert [free + spent <= 1000 for free, spent, _ in result] == [True, True]
