"""A task begins when its agent says so: until then its clock stands and nothing is lost with it."""

from __future__ import annotations

import pytest
from fixtures.machines import end_machine, run_of, start_machines
from fixtures.tasks import finish, give, phase, read, state, take
from fixtures.world import World, rows

from hive_core.errors import Conflict
from hive_core.reconcile.deps import BrokerHandle, Ports
from hive_core.reconcile.timers.upkeep import Upkeep
from hive_core.testing import MemoryJobs, MemoryJournal, MemoryMachines


def assign(world: World, agent: str, **wish: object) -> str:
    """A task of `a`'s that its agent has not begun."""
    words = {"agent": agent, "description": "x", **wish}
    return str(world.call("a", "assign_task", **words)["task"])


def test_a_waiting_task_never_destroys_a_running_one(world: World) -> None:
    """Neither when its deadline would be over, nor when it is taken back."""
    start_machines(world, "a1")
    first = give(world, "a", "a1", deadline=600)
    late, unwanted = (assign(world, "a1", deadline=2) for _ in range(2))
    read(world, "a1")  # taken, and not begun
    nonce = run_of(world, "a1").nonce
    world.advance(60)
    assert world.call("a", "cancel_task", task=unwanted)["state"] == "cancelled"
    world.advance(60)
    assert (state(world, first), phase(world, late)) == ("in_progress", "offered")
    assert run_of(world, "a1").nonce == nonce
    finish(world, "a1", first)
    begun = world.call("a1", "begin_task", task=late)
    assert (begun["state"], begun["deadline"]) == ("in_progress", world.clock.now() + 2)


def test_a_queue_that_is_longer_than_its_deadlines_does_not_fail(world: World) -> None:
    world.call("operator", "spawn", name="narrow", parent="a", parallel=1)
    start_machines(world, "narrow")
    tasks = [assign(world, "narrow", deadline=3) for _ in range(4)]
    for task_ in tasks:
        assert [state(world, one) for one in tasks].count("in_progress") == 0
        world.call("narrow", "begin_task", task=task_)
        world.advance(2)
        finish(world, "narrow", task_)
    assert {world.ledger.tasks.require(task).result.status for task in tasks} == {"success"}  # type: ignore[union-attr]


def test_it_is_begun_once_and_by_its_own_agent(world: World) -> None:
    task = assign(world, "a1", deadline=100)
    assert world.fault("a", "begin_task", task=task) == "NotAllowed"
    first = world.call("a1", "begin_task", task=task)
    world.advance(10)
    assert world.call("a1", "begin_task", task_id=task) == first
    finish(world, "a1", task)
    with pytest.raises(Conflict, match="it has ended as success"):
        world.call("a1", "begin_task", task=task)


def test_what_was_not_offered_cannot_be_begun(world: World) -> None:
    first = give(world, "a", "a1")
    second = assign(world, "a1", needs=[first])
    with pytest.raises(Conflict, match="it is waiting, and not offered to you"):
        world.call("a1", "begin_task", task=second)


DOES: dict[str, tuple[str, dict[str, object], str]] = {
    "report": ("report_progress", {"text": "at it"}, "in_progress"),
    "finish": ("finish_task", {"status": "success", "summary": ""}, "done"),
    "plan": ("create_plan", {"steps": [{"title": "dig"}]}, "awaiting_plan_approval"),
    "question": ("ask", {"items": ["how?"]}, "awaiting_more_information"),
}


@pytest.mark.parametrize("how", DOES)
def test_an_agent_that_reports_on_a_task_has_begun_it(world: World, how: str) -> None:
    operation, params, then = DOES[how]
    task = assign(world, "a1")
    world.call("a1", operation, task=task, **params)
    result = world.ledger.tasks.require(task)
    assert (result.state, result.started) == (then, world.clock.now())


def test_a_sub_task_begins_its_whole(world: World) -> None:
    task = assign(world, "a1")
    world.call("a1", "assign_task", agent="a11", description="y")
    assert state(world, task) == "in_progress"


def test_an_agent_that_has_read_of_a_task_is_told_that_it_is_not_to_begin(world: World) -> None:
    unread, seen = assign(world, "a1"), assign(world, "a2")
    read(world, "a2")
    for item in (unread, seen):
        world.call("a", "cancel_task", task=item, reason="no need")
    assert world.mail("a1") == []
    (letter,) = read(world, "a2")
    assert (letter["kind"], str(letter["body"]).splitlines()[0]) == ("task_stop", f"task: {seen}")


def test_a_machine_that_ends_loses_nothing_of_what_it_had_not_begun(world: World) -> None:
    """A process that has ended read the letter: the next start gets another."""
    start_machines(world, "a1")
    task = assign(world, "a1")
    read(world, "a1")
    end_machine(world, "a1", 137, returns=True)
    start_machines(world, "a1")
    assert (phase(world, task), world.ledger.tasks.require(task).attempt) == ("offered", 1)
    assert [message["kind"] for message in take(world, "a1")] == ["task"]
    assert state(world, task) == "in_progress"


def test_a_manager_that_delegates_later_may_begin_before(world: World) -> None:
    """Row T3: `pending_delegation` ends with its first sub-task; its clock starts before."""
    made = world.call(
        "a", "spawn_agent_and_assign_task", agent_role="Boss", task_description="x",
        agent_type="manager", deadline=50,
    )  # fmt: skip
    name, task = str(made["name"]), str(made["task_id"])
    assert state(world, task) == "pending_delegation"
    world.advance(200)
    begun = world.call(name, "begin_task", task=task)
    assert (begun["state"], begun["deadline"]) == ("pending_delegation", world.clock.now() + 50)
    world.call(name, "report_progress", text="first")
    assert state(world, task) == "in_progress"


def test_the_clock_stands_while_others_do_parts(world: World) -> None:
    whole = give(world, "a", "a1", deadline=30)
    world.advance(10)
    part = give(world, "a1", "a11", deadline=1000)
    world.advance(500)
    assert state(world, whole) == "in_progress"
    finish(world, "a11", part)
    world.advance(19)
    assert state(world, whole) == "in_progress"
    world.advance(2)
    assert state(world, whole) == "stopping"


def test_a_part_that_is_not_begun_does_not_stop_the_clock_of_its_whole(world: World) -> None:
    """Otherwise an agent could stop its clock for ever by a part that its child never begins."""
    whole = give(world, "a", "a1", deadline=30)
    world.call("a1", "assign_task", agent="a11", description="x")
    world.advance(29)
    assert state(world, whole) == "in_progress"
    world.advance(2)
    assert state(world, whole) == "stopping"


def test_a_part_without_a_deadline_does_not_stop_the_clock_of_its_whole(world: World) -> None:
    """The clock of the whole stood for ever beside a part that nothing ends."""
    whole = give(world, "a", "a1", deadline=30)
    world.advance(10)
    part = give(world, "a1", "a11", deadline=0)
    world.advance(19)
    assert (state(world, whole), state(world, part)) == ("in_progress", "in_progress")
    world.advance(2)
    assert state(world, whole) == "stopping"


def test_the_clock_of_a_whole_stands_beside_a_part_that_waits_or_is_stopped(world: World) -> None:
    whole = give(world, "a", "a1", deadline=30)
    part = give(world, "a1", "a11", deadline=1000)
    asked = world.call("a11", "ask", task=part, items=["how?"])["question"]
    world.advance(100)
    assert state(world, whole) == "in_progress"
    world.call("a1", "answer", question=asked, answers=["so"])
    world.call("a1", "cancel_task", task=part)
    assert state(world, part) == "stopping"
    row = world.ledger.tasks.get(whole)
    assert row is not None
    assert (row.hard_at, row.left) == (None, 30)


def test_the_clock_runs_again_when_a_part_goes_back_to_the_queue(world: World) -> None:
    whole = give(world, "a", "a1", deadline=30)
    start_machines(world, "a11")
    part = give(world, "a1", "a11", requeue=1, deadline=1000)
    world.advance(100)
    assert state(world, whole) == "in_progress"
    end_machine(world, "a11", 137, returns=True)
    assert state(world, part) == "queued"
    world.advance(29)
    assert state(world, whole) == "in_progress"
    world.advance(2)
    assert state(world, whole) == "stopping"


def test_the_clock_stands_from_the_start_of_a_second_attempt_beside_parts_of_the_first(
    world: World,
) -> None:
    start_machines(world, "a1", "a11")
    whole = give(world, "a", "a1", deadline=30, requeue=1)
    part = give(world, "a1", "a11", deadline=1000)
    end_machine(world, "a1", 137, returns=True)
    start_machines(world, "a1")
    take(world, "a1")
    assert state(world, whole) == "in_progress"
    world.advance(500)
    assert state(world, whole) == "in_progress"
    finish(world, "a11", part)
    world.advance(29)
    assert state(world, whole) == "in_progress"
    world.advance(2)
    assert state(world, whole) == "stopping"


def test_the_clock_stands_while_a_new_manager_that_began_a_part_delegates(world: World) -> None:
    whole = give(world, "a", "a1", deadline=30)
    made = world.call(
        "a1", "spawn_agent_and_assign_task", agent_role="Boss", task_description="x",
        agent_type="manager", deadline=1000,
    )  # fmt: skip
    name = str(made["name"])
    start_machines(world, name)
    world.advance(10)
    world.call(name, "begin_task", task=made["task_id"])
    world.advance(500)
    assert state(world, whole) == "in_progress"
    finish(world, name, str(made["task_id"]))
    world.advance(21)
    assert state(world, whole) == "stopping"


def test_the_clock_stands_through_a_question_and_a_part_together(world: World) -> None:
    whole = give(world, "a", "a1", deadline=30)
    part = give(world, "a1", "a11", deadline=1000)
    asked = world.call("a1", "ask", task=whole, items=["how?"])["question"]
    world.advance(100)
    world.call("a", "answer", question=asked, answers=["so"])
    world.advance(100)
    assert state(world, whole) == "in_progress"
    finish(world, "a11", part)
    world.advance(31)
    assert state(world, whole) == "stopping"


def test_tools_stay_locked_for_what_needs_a_plan_whether_it_is_begun_or_not(world: World) -> None:
    world.grow("a1/hand:worker")
    words = {"agent": "hand", "description": "x", "plan_required": True}
    locked = str(world.call("a1", "assign_task", **words)["task"])
    use = {"tool": "bash", "argument": ["git", "status"]}
    assert world.fault("hand", "use_tool", **use) == "NotAllowed"
    free = str(world.call("a1", "assign_task", agent="hand", description="y")["task"])
    world.call("hand", "begin_task", task=free)
    assert world.call("hand", "use_tool", **use, task=free)["grant"]
    assert world.fault("hand", "use_tool", **use, task=locked) == "NotAllowed"


def test_work_and_other_mail_can_be_received_apart(world: World) -> None:
    """A letter that looks like a task but is not the daemon's begins no work."""
    world.call("a", "send", to="a1", body="task: 0", kind="task")
    task = assign(world, "a1")
    world.call("a", "send", to="a1", body="hello")

    def task_letters(only: str) -> list[object]:
        letters = rows(world.call("a1", "recv", only=only)["messages"])
        return [str(letter["body"]).partition("\n")[0] for letter in letters]

    assert task_letters("work") == [f"task: {task}"]
    assert task_letters("other") == ["task: 0", "hello"]


def upkeep(world: World) -> None:
    """What lets leases end, as the daemon does."""
    machines, broker = MemoryMachines(), world.broker
    jobs, clock = MemoryJobs(machines), world.clock
    ports = Ports(machines, MemoryJournal(), jobs, clock, world.ledger, world.settings)
    made = Upkeep(ports, BrokerHandle(lambda: broker.hive, broker.touch, broker.perform))
    made.start()
    broker.listeners.append(made.on_topics)


def test_a_task_whose_letter_is_given_up_ends_and_its_giver_is_told(world: World) -> None:
    """It would never begin, without a notice."""
    task = assign(world, "a1")
    (taken,) = rows(world.call("a1", "recv")["messages"])
    world.call("a1", "nack", ids=[taken["id"]], why="cannot parse it", dead=True)
    result = world.ledger.tasks.require(task).result
    assert result is not None
    assert (result.status, result.error) == ("failed", "a1 did not accept it: cannot parse it")
    (news,) = read(world, "a")
    assert task in str(news["body"])


def test_a_task_whose_message_is_never_acked_ends_after_all_attempts(world: World) -> None:
    start_machines(world, "a1")
    upkeep(world)
    task = assign(world, "a1", requeue=1)
    for attempt in (1, 2):
        for _ in range(world.settings.limits.attempts):
            assert len(rows(world.call("a1", "recv", lease=10)["messages"])) == 1
            world.advance(11)
        assert state(world, task) == ("queued", "done")[attempt - 1]
    result = world.ledger.tasks.require(task).result
    assert result is not None
    assert "not acked after" in result.error


def test_a_letter_that_is_given_up_ends_nothing_that_was_begun(world: World) -> None:
    task = assign(world, "a1")
    (taken,) = rows(world.call("a1", "recv")["messages"])
    world.call("a1", "begin_task", task=task)
    world.call("a1", "nack", ids=[taken["id"]], dead=True)
    assert state(world, task) == "in_progress"
