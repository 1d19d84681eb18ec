"""K23: tokens of an hour and the size of a context, as agents report them, have bounds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.tasks import end, give, phase, state
from fixtures.world import World, rows, world

from hive_core.errors import LimitReached
from hive_core.model.config.limits import BudgetSettings
from hive_core.model.config.settings import Settings

HOUR = 3600


def set_bound(world: World, agent: str, amount: int, kind: str = "tokens_per_hour") -> None:
    world.call("operator", "allocate_budget", agent=agent, kind=kind, amount=amount)


def use(world: World, agent: str, tokens: int) -> None:
    world.call(agent, "report_usage", tokens_in=tokens)


def context(world: World, agent: str, tokens: int) -> None:
    world.call(agent, "report_usage", context=tokens)


def budget_notices(world: World, agent: str) -> list[str]:
    mail = [letter for letter in world.mail(agent) if letter["kind"] == "budget"]
    return [str(letter["body"]).splitlines()[0] for letter in mail]


def budget_events(world: World) -> list[object]:
    return [event["operation"] for event in world.events() if event["kind"] == "budget"]


def row(world: World, agent: str, kind: str = "tokens_per_hour") -> tuple[object, ...]:
    budgets = rows(world.call("operator", "get_usage", agent=agent)["budgets"])
    budget = next(budget for budget in budgets if budget["kind"] == kind)
    return budget["agent"], budget["left"], budget["spent"], budget["owed"], budget["source"]


def is_refused(world: World, agent: str) -> bool:
    """Whether it gets no new task now."""
    fault = world.fault("root", "assign_task", agent=agent, description="x")
    return fault == "LimitReached"


# Tokens of an hour.


def test_all_below_count_towards_the_bound_and_are_held_by_it(world: World) -> None:
    set_bound(world, "a", 100)
    for agent in ("a", "a1", "a11"):
        use(world, agent, 34)
    assert row(world, "a2") == ("a", 0, 100, 2, "reported")
    assert [is_refused(world, name) for name in ("a", "a2", "b")] == [True, True, False]
    with pytest.raises(
        LimitReached, match=r"a is reached \(102 of 100 tokens an hour, as reported\); try again in"
    ) as caught:
        world.call("root", "assign_task", agent="a2", description="x")
    assert caught.value.fields["retry_after"] == HOUR + 60


def test_its_agent_is_warned_then_work_waits_and_its_payer_is_asked(world: World) -> None:
    set_bound(world, "root", 1000)
    set_bound(world, "a", 100)
    running = give(world, "root", "a1", deadline=0.0)
    use(world, "a1", 85)
    near = "the bound of tokens an hour of a is nearly reached: 85 of 100 tokens an hour"
    assert budget_notices(world, "a") == budget_notices(world, "root") == [f"{near}, as reported"]
    use(world, "a1", 20)
    assert "new tasks wait and tools are refused" in str(world.mail("a1")[-1]["body"])
    (question,) = rows(world.call("root", "list_questions")["questions"])
    assert "105 of 100 tokens an hour, as reported" in str(question)
    world.advance(120)
    assert state(world, running) == "in_progress", "nobody is stopped for it"
    world.call("root", "answer", question=question["id"], answers=["50"])
    assert row(world, "a")[:3] == ("a", 45, 105)
    assert not is_refused(world, "a1")
    assert budget_events(world) == ["low", "used_up", "filled"]


def test_work_goes_on_by_itself_when_the_hour_is_over(world: World) -> None:
    set_bound(world, "a", 100)
    first, *others = (give(world, "root", "a1", deadline=0.0) for _ in range(6))
    use(world, "a1", 100)
    end(world, first)
    assert state(world, others[-1]) == "queued"
    world.advance(HOUR)
    assert state(world, others[-1]) == "queued", "not before the whole of the hour is over"
    world.advance(120)
    assert phase(world, others[-1]) == "offered"
    assert rows(world.call("operator", "list_questions")["questions"]) == []


def test_no_hour_has_more_than_the_bound_and_old_tokens_count_no_more(world: World) -> None:
    set_bound(world, "a", 100)
    for _ in range(30):
        use(world, "a", 9)
        world.advance(600)
        assert not is_refused(world, "b")
    assert row(world, "a")[2] == 54
    assert budget_events(world) == []


def test_what_was_said_is_known_after_a_kill(world: World) -> None:
    set_bound(world, "a", 100)
    use(world, "a", 100)
    world.kill()
    assert is_refused(world, "a")
    world.kill(off=HOUR + 120)
    world.advance(0)
    assert not is_refused(world, "a")


@pytest.mark.parametrize("years", [10, -10])
def test_a_clock_that_jumps_neither_frees_nor_holds_anybody(world: World, years: int) -> None:
    set_bound(world, "a", 100)
    use(world, "a", 100)
    world.set_clock(years * 365 * 86_400)
    assert is_refused(world, "a")
    world.advance(HOUR + 120)
    assert not is_refused(world, "a")
    use(world, "a", 10)
    assert row(world, "a")[2] == 10


def test_what_is_kept_of_it_does_not_grow(world: World) -> None:
    set_bound(world, "a", 10**9)
    for _ in range(150):
        use(world, "a", 1)
        world.advance(50)
    held = world.ledger.connection.rows("SELECT counts FROM token_hours")
    assert [len(text) < 400 for (text,) in held] == [True]
    world.call("operator", "destroy", agent="a", recursive=True)
    assert world.ledger.connection.rows("SELECT * FROM token_hours") == []


def test_without_a_bound_nothing_of_it_is_kept(world: World) -> None:
    use(world, "a", 10**9)
    assert world.ledger.connection.rows("SELECT * FROM token_hours") == []


def test_a_bound_that_is_taken_away_lets_all_go_on(world: World) -> None:
    set_bound(world, "a", 100)
    use(world, "a", 100)
    world.call("operator", "allocate_budget", agent="a", kind="tokens_per_hour", close=True)
    assert not is_refused(world, "a")
    assert rows(world.call("operator", "list_questions")["questions"]) == []


@pytest.mark.parametrize("kind", ["tokens_per_hour", "context"])
def test_no_bound_is_above_the_next_one_up(world: World, kind: str) -> None:
    set_bound(world, "root", 100, kind)
    with pytest.raises(LimitReached, match="root has 100"):
        world.call("root", "allocate_budget", agent="a", kind=kind, amount=101)


# The size of a context.


def test_a_context_that_is_too_big_gets_no_work_until_it_is_smaller(world: World) -> None:
    set_bound(world, "a", 1000, "context")
    context(world, "a1", 850)
    near = "the bound of tokens of context of a1 is nearly reached: 850 of 1000 tokens of context"
    assert budget_notices(world, "a1") == [f"{near}, as reported"]
    context(world, "a1", 1100)
    assert [is_refused(world, name) for name in ("a1", "a")] == [True, False], "each has its own"
    assert row(world, "a1", "context") == ("a", 0, 1000, 100, "reported")
    context(world, "a1", 200)
    assert not is_refused(world, "a1")
    assert budget_events(world) == ["low", "used_up", "filled"]


def test_tools_are_refused_too(world: World) -> None:
    world.grow("a/w:worker")
    set_bound(world, "a", 1000, "context")
    context(world, "w", 1000)
    assert world.fault("w", "use_tool", tool="command", argument=["true"]) == "LimitReached"
    context(world, "w", 10)
    assert world.fault("w", "use_tool", tool="command", argument=["true"]) == ""


def test_contexts_are_shown_as_they_are_now(world: World) -> None:
    context(world, "a1", 850)
    context(world, "a1", 300)
    sums = rows(world.call("operator", "get_usage")["sums"])
    assert {"key": "a1", "kind": "context", "source": "reported", "amount": 300} in sums


# The settings of the host.


@pytest.fixture(name="bounded")
def _bounded() -> Iterator[World]:
    settings = Settings(budgets=BudgetSettings(tokens_per_hour=100, context=1000))
    with world(settings, "root/a", "a/a1") as made:
        yield made


def test_a_host_bounds_each_agent_that_no_budget_bounds(bounded: World) -> None:
    use(bounded, "a", 99)
    use(bounded, "a1", 100)
    context(bounded, "a", 1000)
    assert [is_refused(bounded, name) for name in ("a", "a1")] == [True, True]
    assert row(bounded, "a", "context")[:3] == ("(host)", 0, 1000)
    context(bounded, "a", 10)
    assert [is_refused(bounded, name) for name in ("a", "a1")] == [False, True]


def test_no_agent_gives_more_than_the_host_s_settings_and_the_operator_does(
    bounded: World,
) -> None:
    words = {"agent": "a", "kind": "tokens_per_hour", "amount": 101}
    assert bounded.fault("root", "allocate_budget", **words) == "LimitReached"
    assert bounded.fault("operator", "allocate_budget", **words) == ""


def test_an_answer_adds_to_what_the_settings_give(bounded: World) -> None:
    use(bounded, "a1", 100)
    (question,) = rows(bounded.call("operator", "list_questions")["questions"])
    bounded.call("operator", "answer", question=question["id"], answers=["50"])
    assert row(bounded, "a1")[:3] == ("a1", 50, 100)
    assert not is_refused(bounded, "a1")


# Bounds that become others.


def test_a_context_above_a_bound_that_is_lowered_gets_no_work_until_it_is_raised(
    world: World,
) -> None:
    set_bound(world, "a", 1000, "context")
    for agent, tokens in (("a1", 700), ("a2", 100)):
        context(world, agent, tokens)
    set_bound(world, "a", -500, "context")
    assert [is_refused(world, name) for name in ("a1", "a2", "a")] == [True, False, False]
    assert row(world, "a1", "context")[:4] == ("a", 0, 500, 200)
    set_bound(world, "a", 500, "context")
    assert not is_refused(world, "a1")
    assert budget_events(world) == ["used_up", "filled"]


def test_an_hour_above_a_bound_that_is_lowered_holds_work_until_it_is_over(world: World) -> None:
    set_bound(world, "a", 1000)
    use(world, "a1", 700)
    set_bound(world, "a", -500)
    assert [is_refused(world, name) for name in ("a", "a1", "b")] == [True, True, False]
    set_bound(world, "a", 100)
    world.advance(HOUR)
    assert is_refused(world, "a1"), "not before the whole of the hour is over"
    world.advance(120)
    assert not is_refused(world, "a1")
    assert budget_events(world) == ["used_up", "filled"]


def test_a_bound_is_near_when_it_is_lowered_so_far(world: World) -> None:
    for kind, say in (("tokens_per_hour", use), ("context", context)):
        set_bound(world, "a", 1000, kind)
        say(world, "a", 450)
        set_bound(world, "a", -500, kind)
    assert [text.partition(": ")[2] for text in budget_notices(world, "a")] == [
        "450 of 500 tokens an hour, as reported", "450 of 500 tokens of context, as reported",
    ]  # fmt: skip
    assert not is_refused(world, "a")


@pytest.mark.parametrize("kind", ["tokens_per_hour", "context"])
@pytest.mark.parametrize("said", [0, 1])
def test_a_bound_of_nothing_lets_no_work_through_until_there_is_one_of_something(
    world: World, kind: str, said: int
) -> None:
    set_bound(world, "a", 100, kind)
    first, *others = (give(world, "root", "a1", deadline=0.0) for _ in range(6))
    if said:
        world.call("a1", "report_usage", tokens_in=said, context=said)
    set_bound(world, "a", -100, kind)
    end(world, first)
    world.advance(2 * HOUR)
    assert [is_refused(world, name) for name in ("a1", "b")] == [True, False]
    assert state(world, others[-1]) == "queued"
    set_bound(world, "a", 100, kind)
    assert phase(world, others[-1]) == "offered"
    assert not is_refused(world, "a1")


def test_a_bound_that_is_put_where_there_is_more_already_holds(bounded: World) -> None:
    context(bounded, "a1", 900)
    set_bound(bounded, "a", 500, "context")
    assert [is_refused(bounded, name) for name in ("a1", "a")] == [True, False]
    bounded.call("operator", "allocate_budget", agent="a", kind="context", close=True)
    assert not is_refused(bounded, "a1")
    set_bound(bounded, "a", 2000, "context")
    context(bounded, "a1", 1500)
    assert not is_refused(bounded, "a1")
    bounded.call("operator", "allocate_budget", agent="a", kind="context", close=True)
    assert is_refused(bounded, "a1")
