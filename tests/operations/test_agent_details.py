"""get_agent, set_agent and clear_dead_letters, and what status says of failed agents."""

from __future__ import annotations

import pygit2
from each import for_each
from fixtures.world import World, fields, rows

from hive_core.model.agents.machine import State
from hive_core.operations.host.todo import DEAD_SHOWN


@for_each(
    "operation, params, caller",
    [
        (*case, caller)
        for case in [("get_agent", {}), ("set_agent", {"title": "x"}), ("clear_dead_letters", {})]
        for caller in ["root", "a", "a1"]
    ],
)
def test_they_are_for_the_operator_alone(
    world: World, operation: str, params: dict[str, object], caller: str
) -> None:
    before = world.hive
    assert world.fault(caller, operation, agent="a1", **params) == "NotAllowed"
    assert world.hive is before


def test_an_agent_is_shown_with_its_place_spec_and_state(world: World) -> None:
    world.call("operator", "grant_capability", agent="a1", capability="secret:KEY")
    world.call("operator", "allow", agent="a1", other="b1")
    row = world.call("operator", "get_agent", agent="a1")
    assert (row["path"], row["parent"], row["children"]) == (["root", "a"], "a", ["a11"])
    assert (row["uuid"], row["allow"]) == (world.uuid("a1"), ["b1"])
    assert "secret:KEY" in str(row["capabilities"])
    assert (row["state"], row["wanted"], row["why"]) == ("running", "running", "")
    assert (row["last_end"], row["restart_needed"], row["tasks"]) == (None, False, 0)


def test_a_stopped_agent_says_why(world: World) -> None:
    world.call("operator", "kill", agent="a1", reason="too loud")
    row = world.call("operator", "get_agent", agent="a1")
    assert (row["state"], row["wanted"], row["why"]) == ("stopped", "stopped", "too loud")


def test_an_unknown_agent_is_not_found(world: World) -> None:
    assert world.fault("operator", "get_agent", agent="nobody") == "NotFound"
    assert world.fault("operator", "set_agent", agent="nobody", title="x") == "NotFound"


def test_a_change_is_one_commit_that_names_what_changed(world: World) -> None:
    before = world.hive.spec("a1")
    reply = world.call(
        "operator", "set_agent", agent="a1", title="Tester", command=["sleep", "9"],
        limits={"memory_max": 64 << 20},
    )  # fmt: skip
    assert reply["changed"] == ["title", "command", "limits"]
    assert reply["restart_needed"] is True
    commit = pygit2.Repository(str(world.folder / "meta")).head.peel(pygit2.Commit)
    assert commit.message.startswith("set title, command, limits of a1\n")
    spec = world.hive.spec("a1")
    assert (spec.title, spec.command, spec.limits.memory_max) == (
        "Tester",
        ("sleep", "9"),
        64 << 20,
    )
    assert (spec.uuid, spec.capabilities) == (before.uuid, before.capabilities)


def test_what_is_absent_stays_and_null_takes_the_default(world: World) -> None:
    world.call(
        "operator", "set_agent", agent="a1", limits={"memory_max": 64 << 20, "tasks_max": 99}
    )
    world.call("operator", "set_agent", agent="a1", limits={"memory_max": None})
    limits = world.hive.spec("a1").limits
    assert (limits.memory_max, limits.tasks_max) == (None, 99)


def test_no_change_makes_no_commit(world: World) -> None:
    before = world.hive
    reply = world.call("operator", "set_agent", agent="a1", title=before.spec("a1").title)
    assert (reply["changed"], reply["restart_needed"]) == ([], False)
    assert world.hive is before


def test_a_title_and_a_stopped_agent_need_no_restart(world: World) -> None:
    assert world.call("operator", "set_agent", agent="a1", title="T")["restart_needed"] is False
    world.call("operator", "stop", agent="a1")
    changed = world.call("operator", "set_agent", agent="a1", command=["true"])
    assert changed["restart_needed"] is False


def test_a_limit_out_of_bounds_changes_nothing(world: World) -> None:
    before = world.hive
    assert world.fault("operator", "set_agent", agent="a1", limits={"memory_max": 1})
    assert world.fault("operator", "set_agent", agent="a1", command=["\0"])
    assert world.hive is before


def test_dead_letters_are_cleared_and_leave_the_list_by_themselves(world: World) -> None:
    def kinds() -> list[object]:
        return [row["kind"] for row in rows(world.call("operator", "todo")["todo"])]

    def dead() -> None:
        sent = world.call("operator", "send", to="a1", body="x")
        world.call("a1", "recv")
        world.call("a1", "nack", ids=[sent["id"]], dead=True)

    dead()
    assert "dead_letters" in kinds()
    refused = world.fault("operator", "clear_dead_letters", agent="a1", as_of="x")
    assert refused == "InvalidArgument"
    assert world.call("operator", "clear_dead_letters", agent="a1")["cleared"] == 1
    (event,) = [row for row in world.events() if row["operation"] == "clear_dead_letters"]
    assert (event["target"], fields(event)["cleared"]) == ("a1", 1)
    assert world.call("operator", "clear_dead_letters", agent="a1")["cleared"] == 0
    assert "dead_letters" not in kinds()
    assert world.call("operator", "list_messages", agent="a1", dead=True)["messages"] == []
    dead()
    world.advance(DEAD_SHOWN + 1)
    assert "dead_letters" not in kinds()
    assert (
        len(rows(world.call("operator", "list_messages", agent="a1", dead=True)["messages"])) == 1
    )


def test_an_agent_cannot_keep_its_dead_letters_from_being_cleared_by_others_that_die_meanwhile(
    world: World,
) -> None:
    """Those that became dead letters later stay, also where they were sent before."""
    early, counted, late = (
        world.call("operator", "send", to="a1", body=body)["id"] for body in ("x", "y", "z")
    )
    world.call("a1", "recv")
    world.call("a1", "nack", ids=[counted], dead=True)
    (row,) = [row for row in rows(world.call("operator", "todo")["todo"]) if row["as_of"]]
    clear = {"agent": "a1", "as_of": row["as_of"]}
    world.call("a1", "nack", ids=[early], dead=True)
    world.restart()
    world.advance(1)
    assert world.call("operator", "clear_dead_letters", **clear)["cleared"] == 1
    assert world.call("operator", "clear_dead_letters", **clear)["cleared"] == 0
    (left,) = rows(world.call("operator", "list_messages", agent="a1", dead=True)["messages"])
    assert left["id"] == early
    assert world.call("operator", "clear_dead_letters", agent="a1")["cleared"] == 1
    world.call("a1", "recv")
    world.call("a1", "nack", ids=[late], dead=True)
    assert world.call("operator", "clear_dead_letters", **clear)["cleared"] == 0
    (last,) = rows(world.call("operator", "list_messages", agent="a1", dead=True)["messages"])
    assert last["id"] == late


def test_what_dies_after_the_page_was_drawn_stays_also_where_the_clock_went_back_before_a_start(
    world: World,
) -> None:
    counted, late = (world.call("operator", "send", to="a1", body=body)["id"] for body in "xy")
    world.call("a1", "recv")
    world.call("a1", "nack", ids=[counted], dead=True)
    (row,) = [row for row in rows(world.call("operator", "todo")["todo"]) if row["as_of"]]
    world.restart(off=-3600.0)
    world.call("a1", "recv")
    world.call("a1", "nack", ids=[late], dead=True)
    clear = {"agent": "a1", "as_of": row["as_of"]}
    assert world.call("operator", "clear_dead_letters", **clear)["cleared"] == 1
    (left,) = rows(world.call("operator", "list_messages", agent="a1", dead=True)["messages"])
    assert left["id"] == late


def test_status_names_failed_agents_and_counts_tasks(world: World) -> None:
    world.seen.states[world.uuid("a1")] = State.FAILED
    world.call("operator", "assign_task", agent="b1", description="do it")
    status = world.call("operator", "status")
    assert [(row["agent"], row["state"]) for row in rows(status["failed"])] == [("a1", "failed")]
    assert sum(dict(status["tasks"]).values()) == 1  # type: ignore[call-overload]
