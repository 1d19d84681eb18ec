"""What a definition says of plans, turns, budgets, depth and network counts, whoever uses it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.world import Reply, World, rows, world

from hive_core.errors import InvalidArgument, LimitReached, NotAllowed
from hive_core.model.config.settings import Settings


def spawn_from_definition(world: World, **agent: object) -> str:
    """An agent `rita` below `a`, made from a definition that says this."""
    agent = {"role": "worker", **agent}
    world.call("operator", "set_definition", name="kind", agent=agent)
    world.call("a", "spawn", name="rita", definition="kind")
    return "rita"


def task(world: World, id_: object) -> Reply:
    (result,) = rows([world.call("operator", "get_task", task=id_)["task"]])
    return result


def test_what_always_needs_a_plan_executes_nothing_before_one_is_approved(world: World) -> None:
    """Also when who gives the task did not ask for one; the task says so."""
    name = spawn_from_definition(world, require_plan=True)
    id_ = world.call("a", "assign_task", agent=name, description="dig")["task"]
    assert task(world, id_)["plan_required"] is True
    with pytest.raises(NotAllowed, match="needs an approved plan first"):
        world.call(name, "use_tool", tool="bash", argument=["true"], task=id_)
    plan = world.call(name, "create_plan", task=id_, steps=[{"title": "dig"}])["plan"]
    world.call("a", "approve_plan", task=id_, plan=plan)
    world.call(name, "use_tool", tool="bash", argument=["true"], task=id_)


def test_a_plan_is_needed_of_each_task_however_it_is_given(world: World) -> None:
    name = spawn_from_definition(world, require_plan=True)
    world.call("a", "run_parallel_workers", tasks=["dig"], agents=[name])
    made = world.call(
        "a", "spawn_agent_and_assign_task", agent_role="Digger", task_description="dig",
        agent_type="worker", definition="kind",
    )  # fmt: skip
    assert task(world, made["task_id"])["plan_required"] is True
    result = rows(world.call("operator", "list_tasks", agent=name)["tasks"])
    assert [entry["plan_required"] for entry in result] == [True]


@pytest.mark.parametrize(("asked", "bound"), [(None, 2), ({"iterations": 9}, 2),
                                              ({"iterations": 1}, 1)])  # fmt: skip
def test_more_turns_than_the_kind_may_take_are_refused(
    world: World, asked: Reply | None, bound: int
) -> None:
    name = spawn_from_definition(world, max_turns=2)
    id_ = world.call("a", "assign_task", agent=name, description="dig", caps=asked)["task"]
    for turn in range(bound):
        entries = [entry for entry in world.mail(name) if entry["kind"] == "budget"]
        assert entries == [], turn
        world.call(name, "report_usage", task=id_, iterations=1)
    (letter,) = [entry for entry in world.mail(name) if entry["kind"] == "budget"]
    assert f"has used {bound} of {bound} iterations" in str(letter["body"])
    with pytest.raises(LimitReached, match="iterations"):
        world.call(name, "use_tool", tool="bash", argument=["true"], task=id_)


def test_an_agent_begins_with_a_budget_out_of_its_creator_s(world: World) -> None:
    world.call("operator", "allocate_budget", agent="a", kind="money", amount=9_000_000)
    name = spawn_from_definition(world, funds={"usd": 5})
    budgets = rows(world.call("operator", "get_usage")["budgets"])
    left = {budget["agent"]: budget["left"] for budget in budgets}
    assert left == {"a": 4_000_000, name: 5_000_000}
    with pytest.raises(LimitReached, match="4000000 left"):
        world.call("a", "spawn", name="rob", definition="kind")
    assert "rob" not in world.hive.specs
    assert len(rows(world.call("operator", "get_usage")["budgets"])) == 2


def test_an_agent_that_may_give_no_budget_makes_no_agent_with_one(world: World) -> None:
    world.call("operator", "allocate_budget", agent="a", kind="tokens", amount=100)
    world.call("operator", "revoke_capability", agent="a", capability="budget")
    with pytest.raises(NotAllowed, match="cannot give rita a budget: you do not hold"):
        spawn_from_definition(world, funds={"tokens": 5})
    assert "rita" not in world.hive.specs


@pytest.fixture
def euros() -> Iterator[World]:
    settings = Settings.model_validate({"budgets": {"currency": "EUR"}})
    with world(settings, "root/a") as made:
        yield made


def test_dollars_are_refused_where_something_else_is_counted(euros: World) -> None:
    with pytest.raises(InvalidArgument, match="counts money in EUR"):
        spawn_from_definition(euros, funds={"usd": 5})
    assert spawn_from_definition(euros, funds={"tokens": 5})


def test_no_agent_is_deeper_below_another_than_its_limit_of_levels(world: World) -> None:
    world.call("operator", "set_definition", name="flat", agent={"role": "lead", "max_depth": 1})
    world.call("a", "spawn", name="lee", definition="flat")
    world.call("lee", "spawn", name="kid", role="lead")
    with pytest.raises(LimitReached, match=r"max_depth \(1\) of lee reached"):
        world.call("kid", "spawn", name="grandkid")
    with pytest.raises(LimitReached, match=r"max_depth \(1\) of lee reached"):
        world.call("a", "move", agent="a1", parent="lee")
    world.call("a", "move", agent="a2", parent="lee")


@pytest.mark.parametrize(
    ("network", "error"),
    [("none", ""), ("egress-allowlist", "NotAllowed"), ("host", "NotAllowed")],
)
def test_a_network_is_given_by_the_operator(world: World, network: str, error: str) -> None:
    agent = {"role": "worker", "network": network}
    assert world.fault("operator", "set_definition", name="kind", agent=agent) == ""
    assert world.fault("operator", "spawn", name="rita", network=network) == ""
    assert world.fault("a", "spawn", name="rob", network=network) == error
    assert world.fault("a", "spawn", name="ron", definition="kind") == error


def test_an_agent_gives_the_network_that_it_has_and_no_more(world: World) -> None:
    world.call("operator", "grant_capability", agent="a", capability="network:host")
    world.call("operator", "set_agent", agent="a", egress=["PyPI.org.:443"])
    assert world.fault("a", "spawn", name="rob", network="host") == "NotAllowed"
    world.call("a", "spawn", name="ron", network="egress-allowlist")
    spec = world.hive.spec("ron")
    assert "network:egress-allowlist" in spec.capabilities
    assert spec.egress == ("pypi.org:443",)


def test_an_unknown_network_is_refused(world: World) -> None:
    assert world.fault("operator", "spawn", name="x", network="lan") == "InvalidParameter"
