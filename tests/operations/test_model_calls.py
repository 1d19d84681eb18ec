"""Calls of models: who may, what they hold, what is charged, and what happens to lost ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.world import Reply, World, fields, rows, world

from hive_core.errors import InvalidArgument, LimitReached, NotAllowed, NotFound
from hive_core.model.config.limits import ModelSettings
from hive_core.model.config.models import parse_models
from hive_core.model.config.settings import Settings
from hive_core.model.work.budget import BudgetKind

MODELS = parse_models("""
[providers.one]
base_url = "https://one.example/v1"
[models.opus]
provider = "one"
name = "big"
price_in = 10.0
price_out = 50.0
[models.sonnet]
provider = "one"
name = "middle"
price_in = 2
price_out = 8
""")
TIERS = ModelSettings(strategic="opus", tactical="sonnet", operational="sonnet")
MODEL = "model"


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(Settings(models=TIERS), "root/a", "a/a1", "a/a2", "root/b", models=MODELS) as made:
        yield made


def proxy(world: World, operation: str, /, **params: object) -> Reply:
    """A call of hive-model."""
    return world.ask_as(MODEL, operation, params).result()


def reserve(world: World, name: str, **more: object) -> str:
    """400 bytes, so 100 tokens of input; at most 50 of output."""
    params: dict[str, object] = {
        "agent": world.uuid(name), "alias": "sonnet", "wire": "chat", "bytes": 400, "out_most": 50,
    }  # fmt: skip
    return str(proxy(world, "reserve_model", **{**params, **more})["reservation"])


def finish(world: World, id_: str, **more: object) -> Reply:
    params: dict[str, object] = {
        "reservation": id_, "status": "done", "model": "sonnet", "tokens_in": 90, "tokens_out": 30,
        "cost": 0.00042,
    }  # fmt: skip
    return proxy(world, "settle_model", **{**params, **more})


def give(world: World, name: str, amount: int, kind: str = "tokens") -> None:
    world.call("operator", "allocate_budget", agent=name, kind=kind, amount=amount)


def budget(world: World, name: str, kind: str = "tokens") -> tuple[int, int, int, int]:
    """What is free, held, spent and owed."""
    held = world.ledger.budgets.get(world.uuid(name), BudgetKind(kind))
    assert held is not None
    return held.free, held.held, held.spent, held.over


def sums(world: World, kind: str) -> dict[tuple[object, object], object]:
    """The usage of one kind by agent and source."""
    found_rows = rows(world.call("operator", "get_usage")["sums"])
    return {(row["key"], row["source"]): row["amount"] for row in found_rows if row["kind"] == kind}


def model_events(world: World) -> list[Reply]:
    return [event for event in world.events() if event["kind"] == "model"]


def notices(world: World, name: str) -> list[object]:
    return [letter["body"] for letter in world.mail(name) if letter["kind"] == "budget"]


# Who may


@pytest.mark.parametrize("caller", ["a", "operator", "root"])
def test_only_hive_model_accounts_for_calls(world: World, caller: str) -> None:
    with pytest.raises(NotAllowed, match="only hive-model may do this"):
        world.call(caller, "reserve_model", agent=world.uuid("a"), alias="sonnet", wire="chat",
                   bytes=1, out_most=1)  # fmt: skip
    with pytest.raises(NotAllowed):
        world.call(caller, "settle_model", reservation="x", status="done")


@pytest.mark.parametrize(
    ("operation", "params"),
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
    lost = reserve(world, "a", task=task, tools=False)
    finish(world, lost, status="error", tokens_in=0, tokens_out=0, cost=0.0)
    last = reserve(world, "a", task=task, tools=False)
    with pytest.raises(LimitReached):
        reserve(world, "a", task=task, tools=False)
    finish(world, last)
    with pytest.raises(LimitReached):
        reserve(world, "a", task=task, tools=False)
    assert fields(model_events(world)[-1])["hand_back"] is True


def test_a_task_at_a_cap_has_one_call_without_tools(world: World) -> None:
    """Row Q24."""
    task = assign(world, caps={"tokens": 100})
    finish(world, reserve(world, "a", task=task))
    with pytest.raises(LimitReached, match=f"task {task} has used 120 of 100 tokens"):
        reserve(world, "a", task=task)
    assert reserve(world, "a", task=task, tools=False)


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


# Rates


def test_a_bound_of_tokens_an_hour_is_a_rate(world: World) -> None:
    """Row K23."""
    world.call("operator", "allocate_budget", agent="a", kind="tokens_per_hour", amount=120)
    finish(world, reserve(world, "a1"))
    with pytest.raises(LimitReached, match="bound of tokens an hour of a is reached") as refusal:
        reserve(world, "a2")
    assert refusal.value.fields["rule"] == "rate"
    wait = refusal.value.fields["retry_after"]
    assert isinstance(wait, float)
    assert 0 < wait <= 3700
    world.advance(wait + 1)
    assert reserve(world, "a2")


# Lost calls, restarts, and the end of agents


def test_a_call_without_notes_is_charged_as_estimated(world: World) -> None:
    give(world, "a", 1000)
    id_ = reserve(world, "a")
    world.advance(50)
    proxy(world, "note_model", reservation=id_, tokens_out=20)
    world.advance(50)
    assert budget(world, "a") == (850, 150, 0, 0)
    world.advance(11)
    assert budget(world, "a") == (880, 0, 120, 0)
    assert sums(world, "tokens_out") == {("a", "estimated"): 20}
    (event,) = model_events(world)
    assert (fields(event)["status"], fields(event)["source"]) == ("lost", "estimated")
    assert proxy(world, "note_model", reservation=id_, tokens_out=30) == {"open": False}


def test_a_late_settlement_replaces_the_estimate(world: World) -> None:
    give(world, "a", 130)
    give(world, "a", 10_000, "money")
    id_ = reserve(world, "a")
    proxy(world, "note_model", reservation=id_, tokens_out=40)
    world.advance(61)
    assert budget(world, "a") == (0, 0, 130, 10)
    result = finish(world, id_, tokens_in=70, tokens_out=20, cost=0.0003)
    assert budget(world, "a") == (40, 0, 90, 0)
    assert budget(world, "a", "money") == (9700, 0, 300, 0)
    assert finish(world, id_) == result
    assert sums(world, "tokens_in") == {("a", "estimated"): 0, ("a", "measured"): 70}
    assert world.ledger.budgets.shortages() == []
    assert fields(model_events(world)[-1])["replaces_estimate"] is True


def test_reservations_outlive_the_daemon(world: World) -> None:
    give(world, "a", 1000)
    id_, lost = reserve(world, "a"), reserve(world, "a")
    world.kill(off=5.0)
    assert budget(world, "a") == (700, 300, 0, 0)
    finish(world, id_)
    world.restart(off=100.0)
    world.advance(0)
    assert budget(world, "a") == (780, 0, 220, 0)
    finish(world, lost)
    assert budget(world, "a") == (760, 0, 240, 0)


def test_no_call_holds_anything_for_ever(world: World) -> None:
    give(world, "a", 1000)
    id_ = reserve(world, "a")
    for _ in range(72):
        proxy(world, "note_model", reservation=id_, tokens_out=1)
        world.advance(50)
    assert budget(world, "a") == (899, 0, 101, 0)


def test_the_call_of_a_destroyed_agent_is_paid_by_what_paid_for_it(world: World) -> None:
    give(world, "a", 1000)
    inherited, own = reserve(world, "a1"), reserve(world, "a2")
    give(world, "a2", 300)
    third = reserve(world, "a2")
    assert budget(world, "a2") == (150, 150, 0, 0)
    for name in ("a1", "a2"):
        world.call("operator", "destroy", agent=name)
    assert budget(world, "a") == (700, 300, 0, 0)
    for id_ in (inherited, own, third):
        finish(world, id_)
    assert budget(world, "a") == (640, 0, 360, 0)
    assert world.ledger.models.holds() == []


def test_a_budget_that_is_closed_meanwhile_goes_up_whole(world: World) -> None:
    give(world, "root", 1000)
    give(world, "a", 500)
    id_ = reserve(world, "a")
    world.call("operator", "allocate_budget", agent="a", kind="tokens", close=True)
    assert budget(world, "root") == (1000, 0, 0, 0)
    finish(world, id_)
    assert budget(world, "root") == (880, 0, 120, 0)


def test_what_is_held_can_be_neither_taken_back_nor_given_away(world: World) -> None:
    give(world, "root", 150)
    reserve(world, "a")
    assert world.fault("operator", "allocate_budget", agent="b", kind="tokens", amount=1) == (
        "LimitReached"
    )
    taken = world.call("operator", "allocate_budget", agent="root", kind="tokens", amount=-100)
    assert taken["moved"] == 0


def test_an_unknown_reservation_is_told(world: World) -> None:
    with pytest.raises(NotFound, match="no reservation x"):
        finish(world, "x")
    with pytest.raises(NotFound):
        proxy(world, "note_model", reservation="x", tokens_out=1)


# The notice after a refusal


def test_a_refused_agent_is_told_once_when_its_budget_has_room_again(world: World) -> None:
    give(world, "root", 99)
    with pytest.raises(LimitReached):
        reserve(world, "a1")
    with pytest.raises(LimitReached):
        reserve(world, "a1")
    assert notices(world, "a1") == []
    give(world, "root", 1)
    world.advance(0)
    (text,) = notices(world, "a1")
    assert "have room again: continue" in str(text)
    give(world, "root", 100)
    world.advance(1000)
    assert len(notices(world, "a1")) == 1


def test_a_call_that_ends_makes_room_too(world: World) -> None:
    give(world, "a", 150)
    id_ = reserve(world, "a")
    with pytest.raises(LimitReached):
        reserve(world, "a1")
    world.kill()
    finish(world, id_, status="error", tokens_in=0, tokens_out=0, cost=0.0)
    world.advance(0)
    assert len(notices(world, "a1")) == 1


def test_a_topped_up_task_wakes_its_agent(world: World) -> None:
    give(world, "root", 5000)
    task = assign(world, budget={"tokens": 50})
    with pytest.raises(LimitReached):
        reserve(world, "a", task=task)
    world.call("operator", "fund_task", task=task, tokens=100)
    world.advance(0)
    assert any("have room again" in str(text) for text in notices(world, "a"))


def test_an_agent_that_calls_again_by_itself_gets_no_notice(world: World) -> None:
    give(world, "a", 99)
    with pytest.raises(LimitReached):
        reserve(world, "a")
    assert reserve(world, "a", bytes=40)
    give(world, "a", 1000)
    world.advance(1000)
    assert notices(world, "a") == []


def test_only_a_change_of_the_budget_that_was_short_makes_the_daemon_look(world: World) -> None:
    """Else each call of anybody would cost a look at all who wait."""
    give(world, "a", 99)
    with pytest.raises(LimitReached):
        reserve(world, "a1")
    due = world.ledger.models.next_look()
    assert due is not None
    assert due > world.clock.now() + 200
    give(world, "b", 1000)
    finish(world, reserve(world, "b"))
    assert world.ledger.models.next_look() == due
    world.call("operator", "move", agent="a1", parent="b")
    world.advance(301)  # a new payer is seen at the next look by itself
    assert len(notices(world, "a1")) == 1
