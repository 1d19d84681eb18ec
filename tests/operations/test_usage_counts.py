"""What the daemon counts by itself: cheap, and exact whatever ends the daemon (row K25)."""

from __future__ import annotations

from operations.world import World, rows


def counted(world: World, agent: str, kind: str) -> int:
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
    assert (counted(world, "a", "messages"), counted(world, "a", "calls")) == (5, 5)


def test_what_was_written_down_is_not_counted_again(world: World) -> None:
    for _ in range(3):
        world.call("a", "send", to="a1", body="note")
        world.advance(2)
    world.restart()
    world.kill()
    assert (counted(world, "a", "messages"), counted(world, "a", "calls")) == (3, 3)


def test_reads_are_counted_at_the_latest_with_the_end_of_the_daemon(world: World) -> None:
    for _ in range(4):
        world.call("b", "whoami")
    assert counted(world, "b", "calls") == 4
    world.restart()
    assert counted(world, "b", "calls") == 4


def test_a_call_that_is_repeated_under_its_key_is_no_other_call(world: World) -> None:
    for _ in range(3):
        world.call("a", "send", to="a1", body="note", idempotency_key="one")
    world.kill()
    assert (counted(world, "a", "messages"), counted(world, "a", "calls")) == (1, 1)


def test_a_refused_message_is_a_call_and_no_message(world: World) -> None:
    world.call("operator", "allocate_budget", agent="a", kind="messages", amount=1)
    for _ in range(3):
        world.fault("a", "send", to="a1", body="note")
    assert (counted(world, "a", "messages"), counted(world, "a", "calls")) == (1, 3)


def test_sums_are_forgotten_when_they_were_kept_long_enough(world: World) -> None:
    world.call("a", "report_usage", tokens_in=5)
    world.call("operator", "destroy", agent="a", recursive=True)
    usage = world.ledger.budgets.usage
    kept = world.settings.budgets.kept
    for later, left in ((kept - 86_400, 5), (kept + 2 * 86_400, 0)):
        for _ in range(4):  # one level of the tree of the departed each time
            with world.ledger.transaction():
                usage.prune(world.clock.now() + later, kept)
        assert sum(each.amount for each in usage.since(0) if each.kind == "tokens_in") == left
    assert usage.departed() == {}
