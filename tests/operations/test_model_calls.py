"""Calls of models: rights, reservations and charges, also to tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from each import for_each
from fixtures.model_calls import (
    AGENTS,
    MODELS,
    TIERS,
    budget,
    finish,
    give,
    model_events,
    proxy,
    reserve,
    sums,
)
from fixtures.world import World, fields, rows, world

from hive_core.errors import InvalidArgument, LimitReached, NotAllowed, NotFound
from hive_core.model.config.settings import Settings
from hive_core.model.work.budget import BudgetKind

HAND_BACK = {"tools": False, "hand_back": True}


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(Settings(models=TIERS), *AGENTS, models=MODELS) as made:
        yield made


# Who may


@pytest.mark.parametrize("caller", ["a", "operator", "root"])
def test_only_hive_model_accounts_for_calls(world: World, caller: str) -> None:
    with pytest.raises(NotAllowed, match="only hive-model may do this"):
        world.call(caller, "reserve_model", agent=world.uuid("a"), alias="sonnet", wire="chat",
                   bytes=1, out_most=1)  # fmt: skip
    with pytest.raises(NotAllowed):
        world.call(caller, "settle_model", reservation="x", status="done")


@for_each(
    "operation, params",
    [
        ("whoami", {}), ("list_agents", {}), ("send", {"to": "a", "body": "x"}),
        ("get_agent", {"agent": "a"}), ("stop", {"agent": "a"}), ("recv", {}),
        ("spawn", {"name": "new", "parent": ""}), ("list_events", {}), ("status", {}),
        ("allocate_budget", {"agent": "a", "kind": "tokens", "amount": 1}),
    ],
)  # fmt: skip
def test_hive_model_may_do_nothing_else(
    world: World, operation: str, params: dict[str, object]
) -> None:
    with pytest.raises((NotAllowed, NotFound)):
        proxy(world, operation, **params)


def test_an_agent_called_model_has_no_right_of_hive_model(world: World) -> None:
    world.grow("root/model")
    assert world.fault("model", "note_model", reservation="x") == "NotAllowed"
    assert world.call("model", "whoami")["name"] == "model"


def test_a_model_is_called_by_agents_that_may_use_it(world: World) -> None:
    with pytest.raises(NotAllowed, match="cannot call opus for a: it may use sonnet"):
        reserve(world, "a", alias="opus")
    refusal = world.events()[-1]
    assert (refusal["kind"], refusal["operation"], refusal["rule"]) == (
        "refusal", "reserve_model", "model",
    )  # fmt: skip
    assert fields(refusal)["target_name"] == "a"
    with pytest.raises(NotFound, match="no model gpt: a may use sonnet"):
        reserve(world, "a", alias="gpt")
    world.call("operator", "grant_capability", agent="a", capability="model:opus")
    assert reserve(world, "a", alias="opus")
    with pytest.raises(NotFound):
        reserve(world, "a", agent="00000000-0000-4000-8000-000000000000")


def test_a_quarantined_branch_calls_no_model(world: World) -> None:
    world.call("operator", "quarantine", agent="a", reason="odd")
    with pytest.raises(NotAllowed, match="cannot call a model for a1"):
        reserve(world, "a1")
    assert reserve(world, "b")


# What is held and charged


def test_without_budgets_a_call_is_measured_and_recorded_once(world: World) -> None:
    """Rows Q39 and Q43."""
    id_ = reserve(world, "a")
    assert proxy(world, "note_model", reservation=id_, tokens_out=5) == {"open": True}
    first = finish(world, id_, ttft_ms=7, latency_ms=9, prefix="ab" * 32, cache_read=40)
    assert (first["tokens_in"], first["tokens_out"], first["cost"]) == (90, 30, 420)
    assert finish(world, id_, tokens_in=1) == first
    (event,) = model_events(world)
    assert (event["caller"], event["operation"], event["target"]) == ("a", "call", "")
    assert fields(event) == {
        "caller_name": "a", "alias": "sonnet", "model": "sonnet", "wire": "chat",
        "reservation": id_, "tokens_in": 90, "tokens_out": 30, "cost": 420, "source": "measured",
        "status": "done", "ttft_ms": 7, "latency_ms": 9, "prefix": "ab" * 32, "cache_read": 40,
    }  # fmt: skip
    assert sums(world, "tokens_in") == {("a", "measured"): 90}
    assert sums(world, "money") == {("a", "measured"): 420}
    by_model = rows(world.call("operator", "get_usage", by="model")["sums"])
    assert ("sonnet", 30) in [(row["key"], row["amount"]) for row in by_model]


def test_what_is_held_is_not_free_until_the_call_is_settled(world: World) -> None:
    give(world, "a", 1000)
    give(world, "a", 10_000, "money")
    id_ = reserve(world, "a1")
    assert budget(world, "a") == (850, 150, 0, 0)
    assert budget(world, "a", "money") == (9400, 600, 0, 0)  # 100 * 2 + 50 * 8
    with pytest.raises(InvalidArgument):
        reserve(world, "a1", bytes=-1)
    finish(world, id_)
    assert budget(world, "a") == (880, 0, 120, 0)
    assert budget(world, "a", "money") == (9580, 0, 420, 0)
    assert world.ledger.models.holds() == []


def test_the_prices_of_the_proxy_come_before_those_of_the_file(world: World) -> None:
    give(world, "a", 10_000, "money")
    reserve(world, "a", price_in=1.0, price_out=0.5)
    assert budget(world, "a", "money") == (9875, 125, 0, 0)


def test_calls_at_the_same_time_cannot_all_take_the_last_token(world: World) -> None:
    give(world, "a", 260)
    first = reserve(world, "a1")
    second = reserve(world, "a2")
    assert budget(world, "a") == (0, 260, 0, 0)
    with pytest.raises(LimitReached) as refusal:
        reserve(world, "a1")
    assert refusal.value.fields["rule"] == "budget"
    assert refusal.value.fields["budget"] == "a"
    assert "has 0 tokens left (260 are held by calls in progress)" in refusal.value.reason
    finish(world, first)
    finish(world, second)
    assert budget(world, "a") == (20, 0, 240, 0)


def test_an_input_that_does_not_fit_is_refused_with_whose_budget_and_who_gives_more(
    world: World,
) -> None:
    give(world, "a", 99)
    with pytest.raises(LimitReached, match="no model call for a1: the token budget of a has 99"
                       " tokens left, and the input of this call needs about 100; operator can"
                       " give more"):  # fmt: skip
        reserve(world, "a1")
    world.call("a", "report_usage", tokens_in=99)
    with pytest.raises(LimitReached, match="the token budget of a is used up"):
        reserve(world, "a1")
    assert budget(world, "a") == (0, 0, 99, 0)


def test_what_an_answer_takes_beyond_its_hold_is_owed(world: World) -> None:
    give(world, "a", 150)
    id_ = reserve(world, "a")
    finish(world, id_, tokens_in=100, tokens_out=500)
    assert budget(world, "a") == (0, 0, 150, 450)
    shortages = world.ledger.budgets.shortages()
    assert [shortage.kind for shortage in shortages] == [BudgetKind.TOKENS]


def test_a_call_that_counts_tokens_needs_no_budget(world: World) -> None:
    give(world, "a", 1)
    world.call("a", "report_usage", tokens_in=1)
    id_ = reserve(world, "a", bytes=0, out_most=0)
    finish(world, id_, tokens_in=0, tokens_out=0, cost=0.0)
    assert budget(world, "a") == (0, 0, 1, 0)


def test_an_error_of_the_provider_costs_nothing(world: World) -> None:
    give(world, "a", 1000)
    finish(world, reserve(world, "a"), status="error", tokens_in=0, tokens_out=0, cost=0.0)
    assert budget(world, "a") == (1000, 0, 0, 0)


def test_a_budget_of_a_tier_holds_and_pays_too(world: World) -> None:
    give(world, "a", 1000)
    world.call("operator", "allocate_budget", agent="root", kind="tokens", tier="operational",
               amount=120)  # fmt: skip
    id_ = reserve(world, "a")
    tier = world.ledger.budgets.get(world.uuid("root"), BudgetKind.TOKENS, "operational")
    assert tier is not None
    assert (tier.free, tier.held) == (0, 120)
    assert budget(world, "a") == (850, 150, 0, 0)
    finish(world, id_, tokens_in=50, tokens_out=10)
    tier = world.ledger.budgets.get(world.uuid("root"), BudgetKind.TOKENS, "operational")
    assert tier is not None
    assert (tier.free, tier.held, tier.spent) == (60, 0, 60)


def test_absurd_numbers_of_a_provider_are_charged_as_far_as_sums_can_count(world: World) -> None:
    give(world, "a", 100_000)
    for _ in range(2):
        finish(world, reserve(world, "b"), tokens_in=1 << 40, tokens_out=1 << 40, cost=1e6)
    assert sums(world, "tokens_in") == {("b", "measured"): 1 << 40}
    finish(world, reserve(world, "a"), tokens_in=1 << 40)
    assert budget(world, "a")[3] > 0


# Tasks


def assign(world: World, **more: object) -> str:
    task = world.call("operator", "assign_task", agent="a", description="x", **more)
    return str(task["task"])


def test_a_task_pays_from_its_own_budget(world: World) -> None:
    give(world, "root", 5000)
    task = assign(world, budget={"tokens": 400})
    id_ = reserve(world, "a", task=task)
    fund = world.ledger.budgets.funds.get(task, BudgetKind.TOKENS)
    assert fund is not None
    assert (fund.budget.free, fund.budget.held) == (250, 150)
    finish(world, id_)
    fund = world.ledger.budgets.funds.get(task, BudgetKind.TOKENS)
    assert fund is not None
    assert (fund.budget.free, fund.budget.held, fund.budget.spent) == (280, 0, 120)
    assert budget(world, "root") == (4600, 0, 0, 0)


def test_a_task_that_is_used_up_has_one_call_without_tools(world: World) -> None:
    """Row Q24."""
    give(world, "root", 5000)
    task = assign(world, budget={"tokens": 150})
    finish(world, reserve(world, "a", task=task), tokens_in=100, tokens_out=50)
    with pytest.raises(LimitReached, match="report now what you have") as refusal:
        reserve(world, "a", task=task)
    assert refusal.value.fields["budget"] == f"task {task}"
    for not_without in ({"tools": False}, {"hand_back": True}):
        with pytest.raises(LimitReached):
            reserve(world, "a", task=task, **not_without)
    lost = reserve(world, "a", task=task, **HAND_BACK)
    finish(world, lost, status="error", tokens_in=0, tokens_out=0, cost=0.0)
    last = reserve(world, "a", task=task, **HAND_BACK)
    with pytest.raises(LimitReached):
        reserve(world, "a", task=task, **HAND_BACK)
    finish(world, last)
    with pytest.raises(LimitReached):
        reserve(world, "a", task=task, **HAND_BACK)
    assert fields(model_events(world)[-1])["hand_back"] is True


def test_a_caller_that_leaves_its_call_beyond_the_budget_has_no_other(world: World) -> None:
    task = assign(world, caps={"tokens": 100})
    finish(world, reserve(world, "a", task=task))
    left = reserve(world, "a", task=task, **HAND_BACK)
    finish(world, left, status="gone", tokens_in=0, tokens_out=0, cost=0.0)
    with pytest.raises(LimitReached):
        reserve(world, "a", task=task, **HAND_BACK)


def test_another_attempt_of_a_task_has_a_call_beyond_the_budget_again(world: World) -> None:
    task = assign(world, caps={"tokens": 100})
    finish(world, reserve(world, "a", task=task))
    finish(world, reserve(world, "a", task=task, **HAND_BACK))
    stored = world.ledger.tasks.require(task)
    hand_backs = world.ledger.models.has_handed_back
    assert hand_backs(task, stored.attempt)
    assert not hand_backs(task, stored.attempt + 1)
    world.call("operator", "cancel_task", task=task)
    world.advance(15)
    assert not hand_backs(task, stored.attempt)


def test_a_task_at_a_cap_has_one_call_without_tools(world: World) -> None:
    """Row Q24."""
    task = assign(world, caps={"tokens": 100})
    finish(world, reserve(world, "a", task=task))
    with pytest.raises(LimitReached, match=f"task {task} has used 120 of 100 tokens"):
        reserve(world, "a", task=task)
    finish(world, reserve(world, "a", task=task, **HAND_BACK))
    with pytest.raises(LimitReached):
        reserve(world, "a", task=task, **HAND_BACK)


def test_a_task_whose_result_waits_pays_for_its_judge(world: World) -> None:
    """Row Q44: the assigner calls, for this task alone and until the verdict."""
    give(world, "root", 1000)
    task = str(world.call(
        "root", "assign_task", agent="a", description="x", budget={"tokens": 400},
        criteria={"text": "It closes."},
    )["task"])  # fmt: skip
    world.call("a", "begin_task", task=task)
    with pytest.raises(NotAllowed, match="it is not a task of the agent"):
        reserve(world, "root", task=task)
    world.call("a", "finish_task", task=task, status="success", summary="closed")
    finish(world, reserve(world, "root", task=task))
    (fund,) = rows(world.call("root", "get_task", task=task)["budget"])
    assert fund["spent"] == 120
    with pytest.raises(NotAllowed):
        reserve(world, "b", task=task)
    world.call("root", "judge_task", task=task, verdict="accept")
    with pytest.raises(NotAllowed):
        reserve(world, "root", task=task)


def test_a_task_of_others_pays_for_nothing(world: World) -> None:
    task = assign(world)
    with pytest.raises(NotAllowed, match="it is not a task of the agent"):
        reserve(world, "b", task=task)
    with pytest.raises(NotAllowed):
        reserve(world, "b", task="none")


def test_a_task_that_ends_gives_back_what_its_calls_hold(world: World) -> None:
    give(world, "root", 5000)
    task = assign(world, budget={"tokens": 400})
    id_ = reserve(world, "a", task=task)
    world.call("operator", "cancel_task", task=task)
    world.advance(15)
    assert budget(world, "root") == (5000, 0, 0, 0)
    finish(world, id_)
    assert budget(world, "root") == (4880, 0, 120, 0)
