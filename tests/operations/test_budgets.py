"""allocate_budget: permissions, the source of an amount, and what is refused."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.world import Reply, World, rows

from hive_core.errors import InvalidArgument, LimitReached, NotFound

WHO = {"a1": "NotAllowed", "a": "", "root": "", "operator": "", "a2": "NotAllowed",
       "b1": "NotFound"}  # fmt: skip


def give(
    world: World, caller: str, agent: str, amount: int, kind: str = "tokens", **more: object
) -> Reply:
    return world.call(caller, "allocate_budget", agent=agent, kind=kind, amount=amount, **more)


def amount_left(world: World, agent: str, kind: str = "tokens") -> list[object]:
    """The budgets that pay for an agent: owner, remaining amount, spent amount."""
    budgets = rows(world.call("operator", "get_usage", agent=agent)["budgets"])
    return [(row["agent"], row["left"], row["spent"]) for row in budgets if row["kind"] == kind]


@for_each("caller, error", WHO.items())
def test_callers_that_may_give(world: World, caller: str, error: str) -> None:
    fault = world.fault(caller, "allocate_budget", agent="a1", kind="tokens", amount=5)
    assert fault == error


def test_without_the_capability_no_agent_gives(world: World) -> None:
    world.call("operator", "revoke_capability", agent="a", capability="budget")
    assert world.fault("a", "allocate_budget", agent="a1", kind="tokens", amount=5) == "NotAllowed"


def test_a_gift_comes_out_of_what_the_giver_has(world: World) -> None:
    give(world, "operator", "root", 100)
    assert give(world, "root", "a", 60)["source"] == "root"
    assert amount_left(world, "root") == [("root", 40, 0)]
    with pytest.raises(LimitReached, match="the token budget of root has 40 left"):
        give(world, "root", "b", 41)
    assert amount_left(world, "b") == [("root", 40, 0)]


def test_more_is_added_and_what_was_spent_stays_spent(world: World) -> None:
    give(world, "operator", "root", 100)
    give(world, "root", "a", 30)
    world.call("a", "report_usage", tokens_in=20)
    give(world, "root", "a", 10)
    assert amount_left(world, "a") == [("a", 20, 20)]
    assert amount_left(world, "root") == [("root", 60, 0)]


def test_an_agent_without_a_budget_draws_on_the_nearest_above(world: World) -> None:
    give(world, "operator", "root", 100)
    give(world, "root", "a", 30)
    world.call("a11", "report_usage", tokens_out=7)
    world.call("b1", "report_usage", tokens_out=9)
    assert amount_left(world, "a11") == [("a", 23, 7)]
    assert amount_left(world, "b1") == [("root", 61, 9)]


def test_only_what_is_not_spent_can_be_taken_back(world: World) -> None:
    give(world, "operator", "root", 100)
    give(world, "root", "a", 30)
    world.call("a", "report_usage", tokens_in=20)
    assert give(world, "root", "a", -25)["moved"] == -10
    assert amount_left(world, "root") == [("root", 80, 0)]
    assert amount_left(world, "a") == [("a", 0, 20)]


def test_a_closed_budget_is_its_ancestor_s_again(world: World) -> None:
    give(world, "operator", "root", 100)
    give(world, "root", "a", 30)
    world.call("root", "allocate_budget", agent="a", kind="tokens", close=True)
    assert amount_left(world, "a") == [("root", 100, 0)]


def test_a_budget_over_others_that_are_there_contains_them(world: World) -> None:
    give(world, "operator", "a", 50)
    with pytest.raises(InvalidArgument, match="agents below root have 50 tokens already"):
        give(world, "operator", "root", 40)
    give(world, "operator", "root", 70)
    assert amount_left(world, "root") == [("root", 20, 0)]


def test_what_was_used_beyond_it_is_paid_by_the_next_gift(world: World) -> None:
    give(world, "operator", "root", 100)
    give(world, "root", "a", 10)
    world.call("a", "report_usage", tokens_in=25)
    assert amount_left(world, "root") == [("root", 90, 0)], (
        "a report of a child takes nothing of others"
    )
    assert give(world, "root", "a", 20)["left"] == 5
    assert amount_left(world, "a") == [("a", 5, 25)]


def test_a_tier_has_a_budget_of_its_own_beside_the_one_for_all(world: World) -> None:
    give(world, "operator", "root", 100)
    give(world, "operator", "root", 10, tier="strategic")
    world.call("a", "report_usage", tokens_in=4, tier="strategic")
    world.call("a", "report_usage", tokens_in=50, tier="tactical")
    budgets = rows(world.call("root", "report_usage", tokens_in=1, tier="strategic")["budgets"])
    assert amount_left(world, "root") == [("root", 45, 55)]
    purse = world.ledger.budgets.get(world.uuid("root"), "tokens", "strategic")  # type: ignore[arg-type]
    assert purse is not None
    assert (purse.free, purse.spent) == (5, 5)
    assert budgets


@pytest.mark.parametrize("kind", ["time", "messages", "calls"])
def test_only_tokens_and_money_have_tiers(world: World, kind: str) -> None:
    with pytest.raises(InvalidArgument, match="is for all tiers"):
        give(world, "operator", "root", 1, kind=kind, tier="strategic")


def test_an_amount_or_an_end_has_to_be_said(world: World) -> None:
    for words in ({}, {"amount": 3, "close": True}):
        with pytest.raises(InvalidArgument, match="set either `amount` or `close`"):
            world.call("operator", "allocate_budget", agent="a", kind="tokens", **words)
    with pytest.raises(NotFound, match="a has no budget of its own of tokens"):
        give(world, "operator", "a", -3)


def test_what_a_destroyed_agent_has_not_spent_goes_back(world: World) -> None:
    give(world, "operator", "root", 100)
    give(world, "root", "a", 60)
    give(world, "a", "a1", 30)
    world.call("a1", "report_usage", tokens_in=5)
    world.call("root", "destroy", agent="a", recursive=True)
    assert amount_left(world, "root") == [("root", 95, 0)]


def test_a_restored_agent_draws_on_its_ancestor(world: World) -> None:
    give(world, "operator", "root", 100)
    give(world, "root", "b1", 60)
    uuid = world.uuid("b1")
    world.call("root", "destroy", agent="b1")
    world.call("operator", "restore", id=uuid)
    assert amount_left(world, "b1") == [("root", 100, 0)]


def test_a_budget_does_not_move_out_from_under_the_one_it_came_from(world: World) -> None:
    give(world, "operator", "root", 100)
    give(world, "root", "a", 60)
    give(world, "a", "a1", 30)
    world.call("root", "move", agent="a1", parent="b")
    assert amount_left(world, "a") == [("a", 60, 0)]
    assert amount_left(world, "a1") == [("root", 40, 0)]


def test_a_move_below_the_same_budget_changes_nothing(world: World) -> None:
    give(world, "operator", "root", 100)
    give(world, "root", "a1", 30)
    world.call("root", "move", agent="a1", parent="b")
    assert amount_left(world, "a1") == [("a1", 30, 0)]


def test_a_call_that_is_repeated_gives_once(world: World) -> None:
    for _ in range(2):
        give(world, "operator", "root", 100, idempotency_key="once")
    assert amount_left(world, "root") == [("root", 100, 0)]


def test_every_gift_is_an_event_with_its_figures(world: World) -> None:
    give(world, "operator", "root", 100)
    events = [event for event in world.events() if event["operation"] == "allocate_budget"]
    assert [(event["caller"], event["fields"]) for event in events] == [(
        "operator",
        {"caller_name": "operator", "target_name": "root", "uid": 0, "kind": "tokens", "tier": "",
         "moved": 100, "left": 100, "spent": 0, "owed": 0, "source": "operator"},
    )]  # fmt: skip


def test_an_agent_begins_with_as_many_dollars_as_a_budget_can_be_given(world: World) -> None:
    for name, usd in (("poor", 1.5), ("rich", 9_007_199.0)):
        world.call("operator", "spawn", name=name, parent="root", funds={"usd": usd})
        assert amount_left(world, name, "money") == [(name, int(usd * 1_000_000), 0)]
    with pytest.raises(InvalidArgument, match="no more than 9007199254740 millionths of USD"):
        world.call("operator", "spawn", name="richer", parent="root", funds={"usd": 9_007_200.0})
    assert "richer" not in world.hive.topology
