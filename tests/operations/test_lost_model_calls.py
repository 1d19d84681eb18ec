"""Calls of models whose end is not reported, bounds an hour, and the notice after a refusal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.model_calls import (
    AGENTS,
    MODELS,
    TIERS,
    budget,
    finish,
    give,
    model_events,
    notices,
    proxy,
    reserve,
    sums,
)
from fixtures.world import World, fields, world

from hive_core.errors import LimitReached, NotFound
from hive_core.model.config.settings import Settings


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(Settings(models=TIERS), *AGENTS, models=MODELS) as made:
        yield made


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


def test_the_budget_that_admitted_a_call_pays_for_it_though_another_came_since(
    world: World,
) -> None:
    give(world, "a", 1000)
    here, lost = reserve(world, "a1"), reserve(world, "a1")
    give(world, "a1", 50)
    finish(world, here, tokens_in=90, tokens_out=400)
    assert (budget(world, "a"), budget(world, "a1")) == ((310, 150, 490, 0), (50, 0, 0, 0))
    world.call("operator", "move", agent="a1", parent="b")
    world.advance(61)
    assert budget(world, "a") == (410, 0, 590, 0)
    finish(world, lost)  # in place of the estimate
    assert budget(world, "a") == (390, 0, 610, 0)
    finish(world, reserve(world, "a2"))
    assert budget(world, "a") == (270, 0, 730, 0)


def test_a_call_that_no_budget_admitted_is_paid_by_the_one_that_came_since(world: World) -> None:
    id_ = reserve(world, "a1")
    give(world, "a", 1000)
    finish(world, id_)
    assert budget(world, "a") == (880, 0, 120, 0)


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
    answer = world.call(
        "operator", "assign_task", agent="a", description="x", budget={"tokens": 50}
    )
    task = str(answer["task"])
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
