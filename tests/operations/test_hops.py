"""Hops: mail that follows from mail comes to an end (attack 44)."""

from __future__ import annotations

import pytest
from fixtures.machines import start_machines
from fixtures.world import Reply, World, rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long import times

from hive_core.errors import NotAllowed
from hive_core.operations.mail.hops import HOPS_MOST

SESSION, TOOL = 0, 1000  # uids in the container


def newest(world: World, agent: str, *, ack: bool = True) -> Reply:
    """Take the newest message of an agent."""
    letters = rows(world.call(agent, "recv", max=100)["messages"])
    if ack:
        world.call(agent, "ack", ids=[letter["id"] for letter in letters])
    return max(letters, key=lambda letter: str(letter["id"]))


def chain(world: World, length: int, agents: tuple[str, str] = ("a1", "a2")) -> Reply:
    """A message with so many hops: two agents send each other's mail on. It is with the last."""
    world.call("operator", "send", to=agents[0], body="go")
    letter = newest(world, agents[0])
    for number in range(length):
        here, there = agents[number % 2], agents[(number + 1) % 2]
        world.advance(0.2)
        world.call(here, "send", to=there, body="on", in_turn_of=letter["id"])
        letter = newest(world, there)
    return letter


def test_each_message_in_the_turn_of_another_has_one_hop_more(world: World) -> None:
    world.call("operator", "send", to="a1", body="go")
    first = newest(world, "a1")
    assert first["hops"] == 0
    world.call("a1", "send", to="a2", body="x", in_turn_of=first["id"])
    second = newest(world, "a2")
    assert second["hops"] == 1
    world.call("a2", "send", to="a1", body="x", reply_to=second["id"])
    assert newest(world, "a1")["hops"] == 2


def test_what_an_agent_sends_of_its_own_accord_has_none(world: World) -> None:
    world.call("a1", "send", to="a2", body="x")
    assert newest(world, "a2")["hops"] == 0


@pytest.fixture(name="session")
def _session(world: World) -> World:
    """`s` has a runtime; its tools run as another uid of its container than its session."""
    world.call("operator", "spawn", name="s", parent="a", runtime="builtin")
    start_machines(world, "s")
    return world


def send_by(world: World, uid: int, **params: object) -> int:
    """Hops of what a process of `s` sends to a1."""
    return int(str(letter_by(world, uid, **params)["hops"]))


def letter_by(world: World, uid: int, **params: object) -> Reply:
    """What a process of `s` sends to a1, as a1 receives it."""
    message = {"to": "a1", "body": "x", **params}
    base = world.ledger.ranges.base(world.uuid("s"))
    assert base
    world.ask_as(world.uuid("s"), "send", message, uid=base + uid).result()
    return newest(world, "a1")


def test_the_ninth_of_a_model_is_refused_with_the_reason_and_recorded(session: World) -> None:
    letter = chain(session, HOPS_MOST)
    session.call(str(letter["to"]), "send", to="s", body="on", in_turn_of=letter["id"])
    last = newest(session, "s")
    assert last["hops"] == HOPS_MOST  # a program is not refused, and lowers nothing
    for how in ("in_turn_of", "reply_to"):
        with pytest.raises(NotAllowed, match="cannot send to a1: it follows from 8 messages"):
            send_by(session, SESSION, **{how: last["id"]})
    event = session.events()[-1]
    assert (event["kind"], event["operation"], event["rule"]) == ("refusal", "send", "hops")
    session.call("operator", "send", to="s", body="again")  # a person begins anew
    assert send_by(session, SESSION, in_turn_of=newest(session, "s")["id"]) == 1


def test_a_model_and_a_program_that_answer_each_other_come_to_an_end(session: World) -> None:
    session.call("a1", "send", to="s", body="hello")
    for _ in range(HOPS_MOST // 2):
        session.advance(0.2)
        letter = letter_by(session, SESSION, reply_to=newest(session, "s")["id"])
        session.call("a1", "send", to="s", body="hello", reply_to=letter["id"])
    last = newest(session, "s")["id"]
    with pytest.raises(NotAllowed):
        letter_by(session, SESSION, reply_to=last)


def test_programs_that_answer_each_other_are_not_refused(world: World) -> None:
    assert chain(world, HOPS_MOST + 3)["hops"] == HOPS_MOST


def test_mail_in_hand_counts_where_the_session_names_no_message(session: World) -> None:
    letter = chain(session, 3)
    session.call(str(letter["to"]), "send", to="s", body="on", in_turn_of=letter["id"])
    assert newest(session, "s", ack=False)["hops"] == 4
    assert send_by(session, SESSION) == 5


def test_a_message_of_others_is_no_message(session: World) -> None:
    """Whether it exists is not told; the worst that the caller may work on counts."""
    session.call("operator", "send", to="b", body="not for s")
    theirs = str(session.mail("b")[0]["id"])
    session.call("operator", "send", to="s", body="go")
    assert newest(session, "s")["hops"] == 0
    for name in (theirs, "0" * 13, "nonsense"):
        assert send_by(session, SESSION, in_turn_of=name) == 1


def test_a_tool_of_a_session_cannot_choose_a_better_message(session: World) -> None:
    session.call("operator", "send", to="s", body="go")
    good = newest(session, "s")
    bad = chain(session, 5, ("a1", "a2"))
    assert (bad["to"], bad["hops"]) == ("a2", 5)
    session.call("a2", "send", to="s", body="spread this", in_turn_of=bad["id"])
    worst = newest(session, "s")  # acked before its turn, as a session does
    assert worst["hops"] == 6
    assert send_by(session, SESSION, in_turn_of=good["id"]) == 1
    assert send_by(session, SESSION) == 7  # fails closed where it names none
    assert send_by(session, TOOL) == 7
    assert send_by(session, TOOL, in_turn_of=good["id"]) == 7
    session.kill()  # a new daemon remembers
    start_machines(session, "s")
    assert send_by(session, TOOL, in_turn_of=good["id"]) == 7
    session.advance(901)
    assert send_by(session, TOOL) == 0


def test_a_wake_carries_the_hops_and_prolongs_nothing(session: World) -> None:
    letter = chain(session, 5, ("a1", "a2"))
    session.call("a2", "send", to="s", body="x", in_turn_of=letter["id"])
    newest(session, "s")
    session.advance(600)
    session.call("s", "wake", body="mine")
    assert newest(session, "s")["hops"] == 6
    session.advance(400)
    assert send_by(session, TOOL) == 0


def test_a_task_carries_the_hops_of_its_assignment(world: World) -> None:
    letter = chain(world, 3, ("a2", "a"))
    assert (letter["to"], letter["hops"]) == ("a", 3)
    start_machines(world, "a1")
    world.call("a", "assign_task", agent="a1", description="x", in_turn_of=letter["id"])
    offer = newest(world, "a1")
    assert (offer["kind"], offer["hops"]) == ("task", 4)
    world.call("a1", "send", to="a", body="x", in_turn_of=offer["id"])
    assert newest(world, "a")["hops"] == 5


def test_the_tasks_of_a_batch_carry_them_too(world: World) -> None:
    letter = chain(world, 3, ("a2", "a"))
    start_machines(world, "a1")
    world.call("a", "run_parallel_workers", tasks=["x"], agents=["a1"], in_turn_of=letter["id"])
    assert newest(world, "a1")["hops"] == 4


def test_no_task_is_assigned_above_the_limit(world: World) -> None:
    letter = chain(world, HOPS_MOST, ("a", "a1"))
    assert letter["to"] == "a"
    world.call("operator", "set_agent", agent="a", runtime="builtin")
    for operation, params in (
        ("assign_task", {"agent": "a1", "description": "x"}),
        ("spawn_agent_and_assign_task",
         {"agent_role": "x", "task_description": "x", "agent_type": "worker"}),
        ("publish", {"topic": "t", "body": "x"}),
        ("run_parallel_workers", {"tasks": ["x"]}),
    ):  # fmt: skip
        fault = world.fault("a", operation, in_turn_of=letter["id"], **params)
        assert fault == "NotAllowed"


def test_a_published_message_and_a_copy_carry_them(world: World) -> None:
    letter = chain(world, 2, ("a", "a1"))
    world.call("a1", "follow_topic", topic="t")
    world.call("a", "publish", topic="t", body="x", in_turn_of=letter["id"])
    assert newest(world, "a1")["hops"] == 3


@pytest.mark.sized
@settings(
    max_examples=times(12, 200), deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(st.lists(st.tuples(st.sampled_from(["in_turn_of", "reply_to", "tool", "nothing"]),
                          st.integers(0, 5)), min_size=1, max_size=12))  # fmt: skip
def test_a_tool_never_sends_below_the_worst_that_it_may_work_on(
    session: World, steps: list[tuple[str, int]]
) -> None:
    """Whatever it names: fails closed."""
    session.advance(1000)  # apart from the examples before
    letters: list[Reply] = []
    worst = -1
    for how, length in steps:
        session.advance(1)
        source = chain(session, length, ("a1", "a2"))
        holder = str(source["to"])
        session.call(holder, "send", to="s", body="x", in_turn_of=source["id"])
        letters.append(newest(session, "s"))
        worst = max(worst, int(str(letters[-1]["hops"])))
        best = min(letters, key=lambda letter: int(str(letter["hops"])))
        params = {"in_turn_of": best["id"]} if how in ("in_turn_of", "tool") else {}
        assert send_by(session, TOOL, **params) == worst + 1
