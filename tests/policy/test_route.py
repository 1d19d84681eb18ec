"""Row H12: which agent may write to which, line by line."""

from __future__ import annotations

from each import for_each
from fixtures.topologies import hive_of, spec, uuid
from policy.naive import Question, decide

from hive_core.model.agents.agent import Role
from hive_core.policy.rules import ROUTE

#  root ── bob ── carl ── cleo        other ── oscar
#       ├─ dora ── eve
#       └─ tim (task) ── (nobody)
TREE = {
    "root": None, "bob": "root", "carl": "bob", "cleo": "carl", "dora": "root", "eve": "dora",
    "tim": "root", "other": None, "oscar": "other",
}  # fmt: skip
NEAR = "not your parent, sibling or descendant, and not on your allow-list"
TASK = "an agent of role task may write to its parent only"
HIVE = hive_of(TREE, {"tim": spec(7, Role.TASK, allow=[uuid(6)])})


@for_each(
    "sender, recipient, rule",
    [
        ("carl", "bob", "parent"),
        ("bob", "dora", "sibling"),
        ("bob", "bob", "self"),
        ("bob", "carl", "ancestor"),
        ("root", "cleo", "ancestor"),
        ("bob", "tim", "sibling"),
        ("bob", "operator", "to operator & holds(message.operator)"),
        ("operator", "cleo", "operator"),
        ("operator", "operator", "operator"),
        ("tim", "root", "parent"),
    ],
)
def test_these_may_write(sender: str, recipient: str, rule: str) -> None:
    decision = decide(ROUTE, Question(HIVE, sender, "send", recipient))
    assert (decision.allowed, decision.rule) == (True, rule)


@for_each(
    "sender, recipient, reason",
    [
        ("cleo", "bob", NEAR),
        ("carl", "root", NEAR),
        ("tim", "bob", TASK),
        ("tim", "tim", TASK),
        ("tim", "operator", TASK),
        ("tim", "eve", TASK),
        ("carl", "eve", "no such agent"),
        ("carl", "dora", "no such agent"),
        ("root", "other", "no such agent"),
        ("oscar", "cleo", "no such agent"),
        ("carl", "nobody", "no such agent"),
    ],
)
def test_these_may_not(sender: str, recipient: str, reason: str) -> None:
    decision = decide(ROUTE, Question(HIVE, sender, "send", recipient))
    assert (decision.allowed, decision.reason) == (False, reason)
    assert decision.visible == (reason != "no such agent")


def test_roots_are_not_siblings() -> None:
    assert not decide(ROUTE, Question(HIVE, "other", "send", "root")).allowed


def test_the_operator_gets_mail_from_every_holder_of_the_capability() -> None:
    mute = HIVE.with_spec("bob", spec(2, capabilities=()))
    decision = decide(ROUTE, Question(mute, "bob", "send", "operator"))
    assert decision.reason == "you do not hold the capability message.operator"


def test_the_allow_list_points_one_way_and_follows_the_agent_and_not_its_name() -> None:
    """Attack 40: a name that is used again does not inherit its writers."""
    hive = HIVE.with_spec("carl", spec(3, allow=[uuid(9)]))
    assert decide(ROUTE, Question(hive, "carl", "send", "oscar")).rule == "allow-list"
    assert not decide(ROUTE, Question(hive, "oscar", "send", "carl")).visible
    again = hive.without("oscar").with_agent("oscar", "other", spec(10))
    assert not decide(ROUTE, Question(again, "carl", "send", "oscar")).visible
    heir = hive.without("carl").with_agent("carl", "bob", spec(11))
    assert not decide(ROUTE, Question(heir, "carl", "send", "oscar")).visible


@for_each("sender", ["carl", "tim", "other"])
def test_a_received_message_may_always_be_answered(sender: str) -> None:
    reply = frozenset({"reply"})
    decision = decide(ROUTE, Question(HIVE, sender, "send", "eve", facts=reply))
    assert (decision.allowed, decision.rule) == (True, "reply")
    gone = decide(ROUTE, Question(HIVE, sender, "send", "nobody", facts=reply))
    assert (gone.allowed, gone.visible) == (False, False)
