"""loose_ends of an agent and those below it, and todo: what waits for the operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from each import for_each
from fixtures import approvals as asked
from fixtures.questions import ask, escalate
from fixtures.world import Reply, World, rows, world

from hive_core.model.agents.machine import FailureHistory, State


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(None, "root/a", "a/a1", "a1/a11", "a/a2", "root/b") as made:
        yield made


def ends(world: World, caller: str, **more: object) -> list[Reply]:
    return rows(world.call(caller, "loose_ends", **more)["ends"])


def some(world: World, caller: str, *kinds: str, **more: object) -> list[tuple[object, ...]]:
    return [
        (end["agent"], end["kind"], end["id"], end["who"])
        for end in ends(world, caller, **more)
        if end["kind"] in kinds
    ]


def test_nothing_is_open_in_a_quiet_hive(world: World) -> None:
    assert ends(world, "a") == []


def test_questions_are_loose_ends_of_both_sides(world: World) -> None:
    """H21."""
    id_, burns = ask(world, "a11"), escalate(world, "a1", "error")
    kinds = ("question_asked", "question_to_answer", "escalation_asked", "escalation_to_answer")
    assert some(world, "a", *kinds) == [
        ("a", "escalation_to_answer", burns, "a1"),
        ("a1", "question_to_answer", id_, "a11"),
        ("a1", "escalation_asked", burns, "a"),
        ("a11", "question_asked", id_, "a1"),
    ]
    assert some(world, "a11", *kinds) == [("a11", "question_asked", id_, "a1")]
    assert some(world, "a", *kinds, recursive=False) == [("a", "escalation_to_answer", burns, "a1")]


def test_tasks_are_loose_ends_of_assigner_and_assignee(world: World) -> None:
    task = world.call("a", "assign_task", agent="a1", description="sweep the floor")["task"]
    assert some(world, "a", "task", "task_given") == [
        ("a", "task_given", task, "a1"), ("a1", "task", task, "a"),
    ]  # fmt: skip
    (row,) = [end for end in ends(world, "a1") if end["kind"] == "task"]
    assert row["text"] == "sweep the floor"


def test_a_plan_waits_for_the_assigner(world: World) -> None:
    task = world.call("a", "assign_task", agent="a1", description="x", plan_required=True)["task"]
    world.call("a1", "recv")
    plan = world.call("a1", "create_plan", task=task, steps=[{"title": "one"}])["plan"]
    assert some(world, "a", "plan_to_decide") == [("a", "plan_to_decide", plan, "a1")]
    world.call("a", "approve_plan", task=task, plan=plan)
    assert some(world, "a", "plan_to_decide") == []


def test_waits_reminders_mail_and_approvals_are_there_with_their_ages(world: World) -> None:
    world.call("a1", "wait_for")
    world.call("a1", "remind", body="later\nor never", **{"in": 600.0})
    world.call("a", "send", to="a1", body="x")
    approval = asked.waits(world, "a1", "a1")
    world.advance(5)
    collected = {str(end["kind"]): end for end in ends(world, "a1", recursive=False)}
    assert collected["reminder"]["text"] == "later or never"
    assert collected["approval"]["id"] == approval
    assert (collected["mail"]["state"], collected["mail"]["age"]) == ("1", 5.0)
    assert collected["reminder"]["due"] == world.clock.now() + 595


def test_dead_letters_are_counted(world: World) -> None:
    world.call("a", "send", to="a1", body="x", ttl=1)
    world.advance(2)
    with world.ledger.transaction():
        world.ledger.messages.expire(world.clock.now())
    (row,) = [end for end in ends(world, "a1") if end["kind"] == "dead_letters"]
    assert row["state"] == "1"


WHO = {"a1": "", "a": "", "root": "", "operator": "", "a11": "NotAllowed", "a2": "NotAllowed",
       "b": "NotFound"}  # fmt: skip


@for_each("caller, fault", WHO.items())
def test_one_s_own_and_those_of_descendants_and_no_others(
    world: World, caller: str, fault: str
) -> None:
    assert world.fault(caller, "loose_ends", agent="a1") == fault


def test_a_long_list_comes_in_pages_that_end_behind_an_agent(world: World) -> None:
    for name in ("a", "a1", "a11", "a2"):
        for _ in range(3):
            ask(world, name)
    whole = ends(world, "a")
    paged: list[Reply] = []
    after = None
    while True:
        page = world.call("a", "loose_ends", limit=2, after=after)
        paged += rows(page["ends"])
        if (after := page["next"]) is None:
            break
    assert paged == whole
    assert world.fault("a", "loose_ends", after="b") == "NotFound"


def test_of_too_many_tasks_the_others_are_counted(world: World) -> None:
    for _ in range(52):
        world.call("a", "assign_task", agent="a1", description="x")
    entries = [end for end in ends(world, "a1", recursive=False) if end["kind"] == "task"]
    assert len(entries) == 51
    assert (entries[-1]["id"], entries[-1]["state"]) == ("", "2")


def test_the_list_is_the_same_after_a_restart(world: World) -> None:
    ask(world, "a11")
    escalate(world, "a1")
    world.call("a", "assign_task", agent="a1", description="x")
    before = ends(world, "a")
    world.restart()
    assert ends(world, "a") == before


def todo(world: World) -> list[tuple[object, object]]:
    return [(entry["kind"], entry["id"]) for entry in rows(world.call("operator", "todo")["todo"])]


def test_everything_that_waits_for_the_operator_is_one_list(world: World) -> None:
    """What the operator has to decide or read is in one list."""
    assert todo(world) == []
    question = ask(world, "root")
    warn, burns = escalate(world, "root", "warning"), escalate(world, "root", "critical")
    approval = asked.waits(world, "a", "a1")
    task = world.call("operator", "assign_task", agent="a", description="x", plan_required=True)
    world.call("a", "recv")
    world.call("a", "create_plan", task=task["task"], steps=[{"title": "one"}])
    world.seen.states[world.uuid("b")] = State.PARKED
    world.seen.states[world.uuid("a2")] = State.FAILED
    world.seen.warnings.append("the disk is nearly full")
    world.seen.parked.append(("ab" * 20, "no tree"))
    world.call("root", "send", to="operator", body="done")
    assert todo(world) == [
        ("alarm", ""), ("escalation", burns), ("escalation", warn), ("question", question),
        ("plan", task["task"]), ("approval", approval), ("parked", "b"), ("failed", "a2"),
        ("refused_commit", "ab" * 20), ("mail", "operator"),
    ]  # fmt: skip


def test_a_parked_or_failed_root_has_one_row(world: World) -> None:
    """Its alarm was a row too, beside that of the agent; the reason is in the one row now."""
    root, other = world.uuid("root"), world.uuid("a2")
    world.seen.states.update({root: State.FAILED, other: State.PARKED})
    world.seen.agent_warnings.update({
        root: "root failed and stays down", other: "a2 is parked: ended with 7",
        world.uuid("b"): "b failed 3 times in a row",
    })  # fmt: skip
    world.seen.warned_agents["b failed 3 times in a row"] = "b"
    listed = rows(world.call("operator", "todo")["todo"])
    assert [(entry["kind"], entry["agent"], entry["text"]) for entry in listed] == [
        ("alarm", "b", "b failed 3 times in a row"),
        ("parked", "a2", "a2 is parked: ended with 7"),
        ("failed", "root", "root failed and stays down"),
    ]
    status = world.call("operator", "status")
    assert (status["waiting"], len(rows(status["alarms"]))) == (3, 3)


def test_a_failed_agent_has_the_reason_that_status_has(world: World) -> None:
    uuid = world.uuid("a2")
    with world.ledger.transaction():
        history = FailureHistory(
            (1.0,), 1.0, parked=False, exit_seen="i", nonce=1, why="ended with 3"
        )
        world.ledger.starts.put(uuid, history)
    world.seen.states[uuid] = State.FAILED
    (item,) = rows(world.call("operator", "todo")["todo"])
    assert (item["kind"], item["text"]) == ("failed", "a2 is failed: ended with 3")
    (failed,) = rows(world.call("operator", "status")["failed"])
    assert failed["why"] == "ended with 3"


def test_mail_about_what_is_on_the_list_is_not_on_it_once_more(world: World) -> None:
    ask(world, "root")
    escalate(world, "root")
    assert {kind for kind, _ in todo(world)} == {"question", "escalation"}
    world.call("root", "send", to="operator", body="done")
    (row,) = [entry for entry in rows(world.call("operator", "todo")["todo"])
              if entry["kind"] == "mail"]  # fmt: skip
    assert row["text"] == "1 in your inbox"


def test_what_is_settled_is_no_more_on_the_list(world: World) -> None:
    question = ask(world, "root")
    assert ("question", question) in todo(world)
    world.call("operator", "answer", question=question, answers=["x"])
    assert ("question", question) not in todo(world)


def test_the_list_is_the_operator_s(world: World) -> None:
    assert world.fault("root", "todo") == "NotAllowed"


def test_a_list_that_does_not_fit_says_how_many_are_left_out(world: World) -> None:
    world.seen.warnings += ["x" * 290] * 600
    reply = world.call("operator", "todo")
    assert len(rows(reply["todo"])) + int(str(reply["more"])) == 600
    assert int(str(reply["more"])) > 0
