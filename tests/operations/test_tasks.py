"""Tasks: who assigns them, their delivery, their order, and who sees them."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.tasks import finish, give, phase, state, take
from fixtures.world import World, names, rows, texts

from hive_core.errors import Conflict, NotFound

WHO = {"a": "", "root": "", "operator": "", "a1": "NotAllowed", "a2": "NotAllowed",
       "a11": "NotAllowed", "b": "NotFound", "b1": "NotFound"}  # fmt: skip


@for_each("caller, error", WHO.items())
def test_an_ancestor_of_an_agent_gives_it_tasks(world: World, caller: str, error: str) -> None:
    """Rows K14 and T9."""
    assert world.fault(caller, "assign_task", agent="a1", description="x") == error


def test_the_text_comes_with_its_data_and_its_id(world: World) -> None:
    """Row Q20: never one without the other."""
    task = world.call("a", "assign_task", agent="a1", description="Count", data={"n": 3})["task"]
    (letter,) = take(world, "a1")
    assert (letter["kind"], letter["from_uuid"]) == ("task", "daemon")
    head, text, data = str(letter["body"]).split("\n\n")
    assert head.splitlines()[:3] == [f"task: {task}", "attempt: 1", "from: a"]
    assert (text, data) == ("Count", 'data:\n{\n "n": 3\n}')


def test_the_same_key_makes_one_task(world: World) -> None:
    """Row Q42."""
    params = {"agent": "a1", "description": "once", "idempotency_key": "k"}
    first, again = (world.call("a", "assign_task", **params) for _ in range(2))
    assert first == again
    assert len(board(world, "a")) == 1


def board(world: World, caller: str, **more: object) -> list[dict[str, object]]:
    return rows(world.call(caller, "list_tasks", **more)["tasks"])


def test_what_there_is_no_room_for_waits_by_priority_and_age(world: World) -> None:
    """Row K14: at most `parallel` at once."""
    world.call("operator", "spawn", name="narrow", parent="a", parallel=1)
    ids = [
        str(world.call("a", "assign_task", agent="narrow", description="x", priority=item)["task"])
        for item in (2, 2, 3, 0)
    ]
    began = []
    while any(not item["ended"] for item in board(world, "a")):
        (letter,) = take(world, "narrow")
        began.append(str(letter["body"]).split()[1])
        assert sum(state(world, id_) == "in_progress" for id_ in ids) == 1
        finish(world, "narrow", began[-1])
    assert began == [ids[0], ids[3], ids[1], ids[2]]


def test_one_that_waits_is_unblocked_by_the_last_good_end(world: World) -> None:
    """Row T12."""
    first, second = give(world, "a", "a1"), give(world, "a", "a2")
    third = give(world, "a", "a2", needs=[first, second])
    assert state(world, third) == "waiting"
    finish(world, "a1", first, summary="the figure is 7")
    assert state(world, third) == "waiting"
    finish(world, "a2", second, "partial")
    assert phase(world, third) == "offered"
    (letter,) = [message for message in take(world, "a2") if message["kind"] == "task"]
    assert "the figure is 7" in str(letter["body"])


def test_a_failed_task_fails_every_task_after_it_however_long_the_chain(world: World) -> None:
    """Row T12: a failed dependency is said, and a chain of any length costs no stack."""
    chain = [give(world, "a", "a1")]
    for _ in range(500):
        chain.append(give(world, "a", "a2", needs=chain[-1:]))
    finish(world, "a1", chain[0], "failed")
    world.advance(0)
    assert {state(world, id_) for id_ in chain} == {"done"}
    last = world.ledger.tasks.require(chain[-1])
    assert last.result is not None
    assert last.result.error == f"task {chain[-2]}, which it waited for, ended as failed"


def test_nothing_can_be_made_to_wait_for_what_failed_or_is_not_there(world: World) -> None:
    """Row T12; a cycle would need the id of a task that is not made yet."""
    bad = give(world, "a", "a1")
    finish(world, "a1", bad, "failed")
    with pytest.raises(Conflict, match="ended as failed"):
        give(world, "a", "a1", needs=[bad])
    hidden = give(world, "b", "b1")
    for item in (hidden, "0" * 12):
        with pytest.raises(NotFound, match=f"no task {item}"):
            give(world, "a", "a1", needs=[item])
    assert len(board(world, "a")) == 1


def test_a_board_shows_a_subtree_and_no_other_agent(world: World) -> None:
    """Row T11."""
    mine, theirs = give(world, "root", "a1", title="mine"), give(world, "root", "b1")
    below = give(world, "a1", "a11", part_of="-")
    assert {row["id"] for row in board(world, "a")} == {mine, below}
    assert {row["id"] for row in board(world, "a", agent="a1", only=True)} == {mine}
    assert {row["id"] for row in board(world, "root")} == {mine, theirs, below}
    assert {row["id"] for row in board(world, "operator", state="in_progress")} == {
        mine, theirs, below,
    }  # fmt: skip
    assert world.fault("a", "list_tasks", agent="b1") == "NotFound"
    assert world.fault("a11", "list_tasks", agent="a1") == "NotAllowed"


def test_a_board_keeps_what_was_given_to_agents_that_are_gone(world: World) -> None:
    world.grow("root/lead:lead", "lead/kid:worker", "root/other:lead")
    tasks = [give(world, "lead", "kid") for _ in range(3)]
    world.call("lead", "destroy", agent="kid")
    for reader in ("lead", "root"):
        assert names(world.call(reader, "list_tasks")["tasks"], "id") == tasks[::-1]
        page = world.call(reader, "list_tasks", limit=1, after=tasks[1])["tasks"]
        assert names(page, "id") == tasks[:1]
    assert world.call("other", "list_tasks")["tasks"] == []
    assert world.call("lead", "list_tasks", only=True)["tasks"] == []


def test_a_board_comes_in_pages(world: World) -> None:
    ids = [give(world, "a", "a1", title=str(number)) for number in range(5)]
    result = list[object]()
    after = None
    while True:
        page = world.call("a", "list_tasks", limit=2, after=after)
        result += names(page["tasks"], "id")
        if (after := page["next"]) is None:
            break
    assert result == ids[::-1]


@for_each("operation", ["get_task", "watch_task", "cancel_task", "finish_task"])
def test_a_hidden_task_and_none_are_answered_alike(world: World, operation: str) -> None:
    hidden = give(world, "a", "a1")
    more = {"status": "success", "summary": ""} if operation == "finish_task" else {}
    for id_ in (hidden, "0" * 12):
        with pytest.raises(NotFound, match=f"^no task {id_}$"):
            world.call("b", operation, task=id_, **more)


def test_the_history_of_a_task_is_its_events(world: World) -> None:
    """Row T11."""
    task = give(world, "a", "a1", title="Sum")
    world.call("a1", "report_progress", task=task, text="half", percent=50)
    finish(world, "a1", task, summary="42")
    reply = world.call("a", "get_task", task=task)
    steps = [(row["event"], row["state"], row["by"]) for row in rows(reply["history"])]
    assert steps == [
        ("assign", "queued", "a"), ("offer", "queued", "a"), ("begin", "in_progress", "a1"),
        ("progress", "in_progress", "a1"), ("finish", "done", "a1"),
    ]  # fmt: skip
    seqs = {row["seq"] for row in world.events() if row["kind"] == "task"}
    assert {row["seq"] for row in rows(reply["history"])} == seqs


def test_a_sub_task_is_part_of_the_only_task_of_its_assigner(world: World) -> None:
    whole = give(world, "root", "a")
    part = give(world, "a", "a1")
    assert world.ledger.tasks.require(part).request.part_of == whole
    other = give(world, "root", "a")
    assert world.ledger.tasks.require(give(world, "a", "a1")).request.part_of == ""
    assert (
        world.ledger.tasks.require(give(world, "a", "a1", part_of=other)).request.part_of == other
    )
    assert world.fault("a", "assign_task", agent="a1", description="x", part_of=part) == "NotFound"


def test_too_much_is_refused(world: World) -> None:
    assert world.fault("a", "assign_task", agent="a1", description="x" * 32_769)
    big = {"text": "x" * 25_000}
    assert world.fault("a", "assign_task", agent="a1", description="x", data=big)
    assert world.fault("a", "assign_task", agent="a1", description="x", requeue=50)
    assert world.fault("a", "assign_task", agent="a1", description="x", soft=9, deadline=9)
    assert board(world, "operator") == []


def test_what_is_told_of_64_ends_is_one_message(world: World) -> None:
    """Row T8: coalesced, with the state of all."""
    world.call("operator", "spawn", name="wide", parent="b", parallel=100)
    ids = [give(world, "b", "wide", title=f"n{number}") for number in range(65)]
    take(world, "b")
    for id_ in ids[:64]:
        finish(world, "wide", id_)
    world.advance(1)
    (letter,) = [message for message in take(world, "b") if message["kind"] == "tasks"]
    body = str(letter["body"])
    assert all(f"{task} wide [n{at}] done, success" in body for at, task in enumerate(ids[:64]))
    assert f"open: 1\n{ids[64]} wide [n64] in progress" in body
    finish(world, "wide", ids[64], "failed", summary="no luck")
    (letter,) = [message for message in take(world, "b") if message["kind"] == "tasks"]
    assert str(letter["body"]) == f"changed:\n{ids[64]} wide [n64] done, failed: no luck\n\nopen: 0"


def test_an_agent_is_not_told_of_its_own_act(world: World) -> None:
    task = give(world, "a", "a1")
    world.call("a", "cancel_task", task=task)
    assert [message for message in world.mail("a") if message["kind"] == "tasks"] == []


def test_a_new_manager_delegates_first(world: World) -> None:
    """Row T5."""
    made = world.call(
        "operator", "spawn_agent_and_assign_task", parent="a", agent_role="Project Lead",
        task_description="Build it", agent_type="manager",
    )  # fmt: skip
    task, name = str(made["task_id"]), str(made["name"])
    assert made["state"] == state(world, task) == "pending_delegation"
    world.call("operator", "spawn", name="hand", parent=name, role="worker")
    part = give(world, name, "hand")
    assert state(world, task) == "in_progress"
    assert world.ledger.tasks.require(part).request.part_of == task


def test_a_new_manager_that_reports_has_begun(world: World) -> None:
    made = world.call(
        "a", "spawn_agent_and_assign_task", agent_role="Lead", task_description="x",
        agent_type="manager",
    )  # fmt: skip
    world.call(str(made["name"]), "report_progress", task=made["task_id"], text="I look around")
    assert state(world, str(made["task_id"])) == "in_progress"


def test_an_agent_and_its_task_are_made_together(world: World) -> None:
    """Row T3: ids and a free name by the daemon."""
    params = {
        "agent_role": "Software Engineer!",
        "task_description": "Mend",
        "agent_type": "worker",
    }
    made = world.call("a", "spawn_agent_and_assign_task", **params)
    name = str(made["name"])
    assert name.startswith("software-engineer-")
    assert made["agent_id"] == world.uuid(name)
    assert world.hive.topology.parent(name) == "a"
    spec = world.hive.spec(name)
    assert (spec.role.value, spec.title) == ("worker", "Software Engineer!")
    assert (made["state"], made["wait_id"]) == ("queued", None)
    (letter,) = take(world, name)
    assert str(letter["body"]).startswith(f"task: {made['task_id']}\n")
    other = world.call("a", "spawn_agent_and_assign_task", **params)
    assert other["name"] != name


def test_of_a_refused_pair_nothing_is_left(world: World) -> None:
    """Row T3: a refused task leaves no agent."""
    before = world.hive
    params = {"agent_role": "x", "task_description": "y", "agent_type": "worker"}
    assert world.fault("a", "spawn_agent_and_assign_task", **params, needs=["0" * 12]) == "NotFound"
    assert world.fault(
        "a", "spawn_agent_and_assign_task", **params, role="daemon", tier="strategic"
    )
    assert world.hive is before
    assert board(world, "operator") == []
    assert rows(world.call("operator", "list_jobs")["jobs"])[0]["operation"] == "spawn"


def test_under_a_worker_the_usual_worker_is_a_task(world: World) -> None:
    """Row K1: a worker creates tasks only."""
    world.call("operator", "spawn", name="hand", parent="a", role="worker")
    made = world.call(
        "hand", "spawn_agent_and_assign_task", agent_role="x", task_description="y",
        agent_type="worker",
    )  # fmt: skip
    assert world.hive.spec(str(made["name"])).role.value == "task"


def test_with_wait_the_reply_comes_at_once_with_the_id_of_the_wait(world: World) -> None:
    """Row T4."""
    made = world.call(
        "a", "spawn_agent_and_assign_task", agent_role="x", task_description="y",
        agent_type="worker", wait=True,
    )  # fmt: skip
    assert texts([made["wait_id"]]) != [""]
    take(world, str(made["name"]))
    finish(world, str(made["name"]), str(made["task_id"]))
    assert any(str(made["wait_id"]) in str(message["body"]) for message in take(world, "a"))
