"""What the daemon counts by itself: cheap, and exact whatever ends the daemon (row K25)."""

from __future__ import annotations

import pytest
from fixtures.tasks import give
from fixtures.world import World, rows

from hive_core.errors import InvalidArgument
from hive_core.model.work.budget import AMOUNT_MOST, Budget, BudgetKind
from hive_core.operations.budgets.spending import DAY_MOST


def counted_calls(world: World, agent: str, kind: str) -> int:
    sums = rows(world.call("operator", "get_usage")["sums"])
    return sum(
        int(str(row["amount"])) for row in sums if (row["key"], row["kind"]) == (agent, kind)
    )


def test_recorded_calls_are_counted_once_over_kills(world: World) -> None:
    for number in range(5):
        world.call("a", "send", to="a1", body=f"note {number}")
        if number % 2:
            world.kill()
    for _ in range(3):
        world.kill()
    assert (counted_calls(world, "a", "messages"), counted_calls(world, "a", "calls")) == (5, 5)


def test_what_was_written_down_is_not_counted_again(world: World) -> None:
    for _ in range(3):
        world.call("a", "send", to="a1", body="note")
        world.advance(2)
    world.restart()
    world.kill()
    assert (counted_calls(world, "a", "messages"), counted_calls(world, "a", "calls")) == (3, 3)


def test_reads_are_counted_at_the_latest_with_the_end_of_the_daemon(world: World) -> None:
    for _ in range(4):
        world.call("b", "whoami")
    assert counted_calls(world, "b", "calls") == 4
    world.restart()
    assert counted_calls(world, "b", "calls") == 4


def test_a_call_that_is_repeated_under_its_key_is_no_other_call(world: World) -> None:
    for _ in range(3):
        world.call("a", "send", to="a1", body="note", idempotency_key="one")
    world.kill()
    assert (counted_calls(world, "a", "messages"), counted_calls(world, "a", "calls")) == (1, 1)


def test_a_refused_message_is_a_call_and_no_message(world: World) -> None:
    world.call("operator", "allocate_budget", agent="a", kind="messages", amount=1)
    for _ in range(3):
        world.fault("a", "send", to="a1", body="note")
    assert (counted_calls(world, "a", "messages"), counted_calls(world, "a", "calls")) == (1, 3)


def test_sums_are_forgotten_when_they_were_kept_long_enough(world: World) -> None:
    world.call("a", "report_usage", tokens_in=5)
    gone = [world.uuid(name) for name in ("a", "a1", "a11", "a2")]
    world.call("operator", "destroy", agent="a", recursive=True)
    usage, departed = world.ledger.budgets.usage, world.ledger.budgets.rollups
    assert {item.name for item in departed.of(gone).values()} == {"a", "a1", "a11", "a2"}
    saved = world.settings.budgets.kept
    for later, left in ((saved - 86_400, 5), (saved + 2 * 86_400, 0)):
        for _ in range(4):  # one level of the tree of the departed each time
            with world.ledger.transaction():
                usage.prune(world.clock.now() + later, saved)
                departed.prune(world.clock.now() + later - saved)
        assert usage.sums("", 0)["", "tokens_in", "reported"] == left
    assert departed.of(gone) == {}


# What cannot be counted.


def report(world: World, **words: object) -> str:
    """The field that is refused; empty: it is counted."""
    try:
        world.call("a", "report_usage", **words)
    except InvalidArgument as error:
        return error.field
    return ""


def test_what_would_make_sums_inexact_is_refused_by_the_name_of_its_field(world: World) -> None:
    assert report(world, tokens_in=DAY_MOST - 5) == ""
    assert report(world, tokens_in=5) == ""
    assert report(world, tokens_in=1) == "tokens_in"
    assert report(world, tokens_out=1, cost=DAY_MOST + 1) == "cost"
    assert counted_calls(world, "a", "tokens_in") == DAY_MOST
    assert counted_calls(world, "a", "tokens_out") == 0, "all of a report counts, or nothing"
    world.advance(86_400)
    assert report(world, tokens_in=1) == ""


def test_a_task_s_last_report_is_refused_likewise(world: World) -> None:
    task = give(world, "root", "a")
    words = {"task": task, "status": "success", "summary": "x"}
    world.call("a", "report_usage", cost=DAY_MOST)
    with pytest.raises(InvalidArgument, match="cannot report 1 money") as caught:
        world.call("a", "finish_task", cost=1, tokens=1, **words)
    assert caught.value.field == "cost"
    world.call("a", "finish_task", tokens=1, **words)


def test_a_purse_holds_no_more_than_every_reader_keeps_exact(world: World) -> None:
    words = {"agent": "a", "kind": "tokens"}
    with world.ledger.transaction():
        full = Budget(world.uuid("a"), BudgetKind.TOKENS, free=AMOUNT_MOST - 10)
        world.ledger.budgets.save(full)
    with pytest.raises(InvalidArgument, match="a budget is at most") as caught:
        world.call("operator", "allocate_budget", amount=11, **words)
    assert caught.value.field == "amount"
    assert world.call("operator", "allocate_budget", amount=10, **words)["left"] == AMOUNT_MOST


def test_what_is_owed_by_a_purse_stays_exact_too(world: World) -> None:
    with world.ledger.transaction():
        owing = Budget(world.uuid("a"), BudgetKind.TOKENS, over=AMOUNT_MOST - 1)
        world.ledger.budgets.save(owing)
    assert report(world, tokens_in=1) == ""
    assert report(world, tokens_out=1) == "tokens"
    assert counted_calls(world, "a", "tokens_out") == 0
