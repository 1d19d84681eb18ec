"""send and wake: permitted recipients, and the labels that the daemon adds."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.world import World, rows, world

from hive_core.errors import (
    Conflict,
    InboxFull,
    InvalidArgument,
    LimitReached,
    NotAllowed,
    NotFound,
)
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.model.work.budget import BudgetKind

ROUTES = {
    ("a1", "a"): "child", ("a1", "a2"): "sibling", ("a1", "a1"): "self", ("a1", "a11"): "parent",
    ("root", "a11"): "ancestor", ("a1", "operator"): "allowed", ("operator", "a11"): "operator",
    ("operator", "operator"): "operator",
    ("a11", "a"): "NotAllowed", ("a11", "root"): "NotAllowed", ("a1", "b"): "NotFound",
    ("a11", "b1"): "NotFound", ("a1", "nobody"): "NotFound", ("a", "b1"): "NotFound",
    ("a1", ""): "InvalidArgument", ("a1", "daemon"): "NotFound",
}  # fmt: skip


@pytest.mark.parametrize(("sender", "to"), ROUTES)
def test_routing_follows_the_tree(world: World, sender: str, to: str) -> None:
    """Row H12; attack 41: hidden and unknown look the same."""
    error = world.fault(sender, "send", to=to, body="hello")
    if error:
        assert error == ROUTES[sender, to]
        return
    (letter,) = world.mail(to)
    assert (letter["from"], letter["from_uuid"]) == (sender, world.uuid(sender))
    assert (letter["to"], letter["body"]) == (to, "hello")
    if to != "operator":
        assert letter["relation"] == ROUTES[sender, to]


def test_a_refusal_is_a_sentence(world: World) -> None:
    with pytest.raises(NotFound, match=r"^no such agent: b1$"):
        world.call("a1", "send", to="b1", body="x")
    with pytest.raises(NotAllowed, match=r"^cannot get logs of a: not your descendant$"):
        world.call("a1", "get_logs", agent="a")


def test_roots_are_not_siblings(world: World) -> None:
    """Row H12."""
    world.grow("one", "two")
    assert world.fault("one", "send", to="two", body="x") == "NotFound"


def test_a_task_writes_to_its_parent_only(world: World) -> None:
    """Rows H12 and K18."""
    world.grow("a/job:task")
    collected = {
        to: world.fault("job", "send", to=to, body="x") for to in ("a", "a1", "job", "root")
    }
    assert collected == {"a": "", "a1": "NotAllowed", "job": "NotAllowed", "root": "NotAllowed"}


def test_the_operator_hears_the_holders_of_the_capability(world: World) -> None:
    world.call("operator", "revoke_capability", agent="a1", capability="message.operator")
    assert world.fault("a1", "send", to="operator", body="x") == "NotAllowed"
    assert world.fault("a2", "send", to="operator", body="x") == ""


def test_the_allow_list_points_one_way(world: World) -> None:
    """Row H12: operator-owned, directed."""
    world.call("operator", "allow", agent="a11", other="b1")
    assert world.fault("a11", "send", to="b1", body="x") == ""
    assert world.mail("b1")[0]["relation"] == "allowed"
    assert world.fault("b1", "send", to="a11", body="x") == "NotFound"
    world.call("operator", "disallow", agent="a11", other="b1")
    assert world.fault("a11", "send", to="b1", body="x") == "NotFound"


def test_a_reply_always_goes_to_the_sender(world: World) -> None:
    """Row H12: also to one that the replier cannot see."""
    world.call("operator", "allow", agent="a11", other="b1")
    asked = world.call("a11", "send", to="b1", body="question")["id"]
    world.call("b1", "send", to="a11", body="answer", reply_to=asked)
    (answer,) = world.mail("a11")
    assert (answer["reply_to"], answer["thread"]) == (asked, asked)
    assert world.fault("b1", "send", to="a11", body="more") == "NotFound"


def test_only_the_recipient_of_a_message_may_answer_it(world: World) -> None:
    """Attack 43: the message of another agent gives no access, and is unknown."""
    asked = world.call("root", "send", to="a1", body="question")["id"]
    assert world.fault("a2", "send", to="root", body="x", reply_to=asked) == "NotAllowed"
    assert world.fault("a2", "send", to="a1", body="x", reply_to=asked) == "NotFound"
    assert world.fault("a2", "send", to="a1", body="x", reply_to="0" * 13) == "NotFound"


def test_an_answer_goes_only_to_the_agents_that_it_concerns(world: World) -> None:
    asked = world.call("a", "send", to="a1", body="question")["id"]
    with pytest.raises(InvalidArgument) as caught:
        world.call("a1", "send", to="a2", body="x", reply_to=asked)
    assert caught.value.field == "reply_to"


def test_an_agent_with_an_old_name_does_not_get_the_answers_of_the_old_one(world: World) -> None:
    """Attack 40."""
    asked = world.call("a1", "send", to="a2", body="question")["id"]
    world.call("operator", "destroy", agent="a1")
    world.call("a", "spawn", name="a1")
    assert world.fault("a2", "send", to="a1", body="x", reply_to=asked) == "InvalidArgument"
    assert world.mail("a1") == []


def test_no_agent_gets_into_a_thread_of_others(world: World) -> None:
    """Attack 43: thread hijack."""
    world.call("a", "send", to="a1", body="secret plan", thread="plan")
    own = world.call("a", "send", to="a1", body="other")["id"]
    for thread in ("plan", own):
        assert world.fault("a2", "send", to="a1", body="me too", thread=thread) == "InvalidArgument"
    assert world.fault("a1", "send", to="a2", body="join us", thread="plan") == ""
    assert world.fault("a2", "send", to="a1", body="thanks", thread="plan") == ""


@for_each("param", ["from", "from_uuid", "sender", "relation", "hops"])
def test_no_sender_writes_on_the_envelope(world: World, param: str) -> None:
    """Attack 43: `from` is the daemon's."""
    error = world.fault("a1", "send", to="a", body="x", **{param: "operator"})
    assert error == "InvalidParameter"


def test_a_wake_is_always_labelled_self(world: World) -> None:
    """Row H24, attack 43."""
    world.call("a1", "wake", body="remember")
    (letter,) = world.mail("a1")
    assert (letter["relation"], letter["from"], letter["body"]) == ("self", "a1", "remember")
    assert world.fault("a1", "wake", body="x", to="a") == "InvalidParameter"


def test_a_wake_says_what_caused_it_and_stays_labelled_self(world: World) -> None:
    """A watcher in the container is not a party: its label stands beside the relation."""
    world.call("a1", "wake", body="push to main", source="forge notify/2")
    world.call("a1", "wake", body="x")
    first, second = world.mail("a1")
    assert (first["relation"], first["from"], first["source"]) == ("self", "a1", "forge notify/2")
    assert second["source"] is None
    (result, _) = rows(world.call("a1", "recv")["messages"])
    assert (result["relation"], result["source"]) == ("self", "forge notify/2")
    world.call("a", "send", to="a1", body="y")
    assert rows(world.call("a1", "recv")["messages"])[0]["source"] is None


@for_each("source", ["", " ", "x" * 33, "a\nb", "a ", "\u202eoperator", "é"])
def test_the_source_of_a_wake_is_a_short_label(world: World, source: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        world.call("a1", "wake", body="x", source=source)
    assert refused.value.field == "source"
    assert world.fault("a1", "wake", body="x", source="x" * 32) == ""
    assert world.fault("a1", "send", to="a", body="x", source="y") == "InvalidParameter"


def test_a_stopped_agent_finds_its_mail_when_it_runs(world: World) -> None:
    world.call("a", "stop", agent="a1")
    world.call("a", "send", to="a1", body="for later")
    assert [row["body"] for row in world.mail("a1")] == ["for later"]


@for_each(
    "params, field",
    [
        ({"body": "x" * (64 * 1024 + 1)}, "body"), ({"body": "é" * (32 * 1024 + 1)}, "body"),
        ({"priority": 4}, "priority"), ({"priority": -1}, "priority"),
        ({"ttl": 0}, "ttl"), ({"kind": "Not a word"}, "kind"), ({"thread": ""}, "thread"),
        ({"thread": "a b"}, "thread"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_named(world: World, params: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        world.call("a1", "send", **{"to": "a", "body": "x", **params})
    assert caught.value.field == field


@for_each("body", ["", "x" * 64 * 1024, "é" * 32 * 1024, "\0\x1b[31m", "\u2028"])
def test_any_text_arrives_as_it_was(world: World, body: str) -> None:
    world.call("a", "send", to="a1", body=body)
    (letter,) = rows(world.call("a1", "recv")["messages"])
    assert letter["body"] == body


def test_kind_thread_and_priority_arrive(world: World) -> None:
    world.call("a", "send", to="a1", body="x", kind="report.daily", thread="t-1", priority=1)
    (letter,) = world.mail("a1")
    assert (letter["kind"], letter["thread"], letter["priority"]) == ("report.daily", "t-1", 1)


def test_priority_is_two_when_not_said(world: World) -> None:
    world.call("a", "send", to="a1", body="x")
    assert world.mail("a1")[0]["priority"] == 2


def test_a_message_outlives_its_ttl_as_a_dead_letter(world: World) -> None:
    world.call("a", "send", to="a1", body="x", ttl=10)
    world.advance(11)
    with world.ledger.transaction():
        world.ledger.messages.expire(world.clock.now())
    (dead,) = rows(world.call("operator", "list_messages", agent="a1", dead=True)["messages"])
    assert "time to live" in str(dead["dead_why"])
    assert [row["kind"] for row in world.mail("a")] == ["dead_letter"]


def test_a_flood_meets_a_limit_for_each_recipient(world: World) -> None:
    """Attack 37: 200 at once, then 50 a second."""
    for _ in range(200):
        world.call("a", "send", to="a1", body="x")
    with pytest.raises(LimitReached):
        world.call("a", "send", to="a1", body="x")
    world.call("a", "send", to="a2", body="x")
    world.call("root", "send", to="a1", body="x")
    world.advance(0.11)
    assert [world.fault("a", "send", to="a1", body="x") for _ in range(6)].count("") == 5


def test_waking_oneself_meets_the_same_limit(world: World) -> None:
    """Attack 37."""
    for _ in range(200):
        world.call("a1", "wake", body="x")
    assert world.fault("a1", "wake", body="x") == "LimitReached"


def test_a_full_inbox_is_said_and_empties_by_acks() -> None:
    """Row K17."""
    with world(Settings(limits=HostLimits(inbox_count=3)), "root/a") as small:
        for _ in range(3):
            small.call("root", "send", to="a", body="x")
        with pytest.raises(InboxFull):
            small.call("operator", "send", to="a", body="x")
        (letter,) = rows(small.call("a", "recv", max=1)["messages"])
        assert small.fault("root", "send", to="a", body="x") == "InboxFull"
        small.call("a", "ack", ids=[letter["id"]])
        assert small.fault("root", "send", to="a", body="x") == ""


def test_bytes_of_an_inbox_are_bounded() -> None:
    """Row K17."""
    with world(Settings(limits=HostLimits(inbox_bytes=4096)), "root/a") as small:
        small.call("root", "send", to="a", body="x" * 4000)
        assert small.fault("operator", "send", to="a", body="x" * 97) == "InboxFull"
        assert small.fault("operator", "send", to="a", body="x" * 96) == ""


def test_a_full_inbox_does_not_stop_the_tree_from_changing() -> None:
    """The daemon's own notices may be lost; the destroy may not fail by them."""
    with world(Settings(limits=HostLimits(inbox_count=1)), "root/a") as small:
        small.call("a", "wake", body="x")
        for _ in range(3):
            small.call("operator", "spawn", name="mid", parent="a")
            small.call("operator", "spawn", name="leaf", parent="mid")
            small.call("operator", "destroy", agent="mid")
            small.call("operator", "destroy", agent="leaf")


def test_a_repeated_send_is_one_message(world: World) -> None:
    """Attack 42."""
    first = world.call("a", "send", to="a1", body="x", idempotency_key="k")
    assert world.call("a", "send", to="a1", body="x", idempotency_key="k") == first
    assert len(world.mail("a1")) == 1
    with pytest.raises(Conflict):
        world.call("a", "send", to="a1", body="y", idempotency_key="k")


def test_a_repeat_gets_its_first_result_even_when_the_target_is_gone(world: World) -> None:
    """Attack 42: the key is looked up before the target."""
    first = world.call("a", "send", to="a1", body="x", idempotency_key="k")
    world.call("operator", "destroy", agent="a1")
    assert world.call("a", "send", to="a1", body="x", idempotency_key="k") == first
    with pytest.raises(NotFound):
        world.call("a", "send", to="a1", body="x")


def test_a_failed_send_does_not_use_up_its_key(world: World) -> None:
    """Attack 42: successes only."""
    assert world.fault("a1", "send", to="b", body="x", idempotency_key="k") == "NotFound"
    world.call("operator", "allow", agent="a1", other="b")
    assert world.fault("a1", "send", to="b", body="x", idempotency_key="k") == ""


def test_a_branch_fills_no_more_of_the_operators_box_by_hands_that_it_destroys() -> None:
    with world(Settings(limits=HostLimits(inbox_count=64))) as hive:
        hive.call("operator", "grant_capability", agent="root", capability="message.operator")
        hive.grow("root/boss", "root/other")
        for name in ("boss", "other"):
            hive.call("operator", "grant_capability", agent=name, capability="message.operator")
        hive.call("operator", "grant_capability", agent="boss", capability="spawn")
        for hand in ("one", "two", "three"):
            hive.call("boss", "spawn", name=hand, capabilities=["message.operator"])
            while not hive.fault(hand, "send", to="operator", body="x"):
                pass
            hive.call("boss", "destroy", agent=hand)
        assert len(hive.mail("operator")) == 23  # a third, and one letter of the last hand
        assert hive.fault("other", "send", to="operator", body="help") == ""


def test_what_does_not_fit_is_refused_before_it_is_paid_for() -> None:
    """Else the batch would run twice: a full box must not cost all who ask at the same time."""
    with world(Settings(limits=HostLimits(inbox_count=2)), "root/a", "root/b") as made:
        made.call("operator", "allocate_budget", agent="a", kind="messages", amount=9)
        faults = [made.fault("a", "send", to="b", body="x") for _ in range(4)]
        assert faults == ["", "", "InboxFull", "InboxFull"]
        assert made.broker._batches_with_savepoints == 0
        budget = made.ledger.budgets.get(made.uuid("a"), BudgetKind.MESSAGES)
        assert budget is not None
        assert budget.spent == 2
