"""K18: how urgent mail may be, and copies of what siblings write to each other."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from each import for_each
from fixtures.world import World, world

from hive_core.errors import InvalidArgument
from hive_core.model.config.settings import Settings

COPIED = Settings.model_validate({"queues": {"copies": "low"}, "limits": {"inbox_count": 40}})
MOST = {
    ("operator", "a1"): 0, ("a", "a1"): 1, ("root", "a1"): 1, ("a1", "a1"): 1,
    ("a1", "a"): 2, ("a1", "a2"): 2, ("a1", "operator"): 2, ("a", "b1"): 2,
}  # fmt: skip


@for_each("sender, to", MOST)
def test_mail_is_at_most_as_urgent_as_its_sender_may_be(world: World, sender: str, to: str) -> None:
    world.call("operator", "allow", agent="a", other="b1")
    for wanted in range(4):
        sent = world.call(sender, "send", to=to, body="x", priority=wanted)
        assert sent["priority"] == max(wanted, MOST[sender, to])
        assert world.mail(to)[-1]["priority"] == sent["priority"]


@pytest.fixture(name="copied")
def _copied() -> Iterator[World]:
    with world(COPIED, "root/a", "a/a1", "a/a2") as made:
        yield made


def test_a_parent_gets_a_copy_when_the_operator_wants_that(copied: World) -> None:
    sent = copied.call("a1", "send", to="a2", body="hello", kind="note", thread="t")
    (copy,) = copied.mail("a")
    head, _, body = str(copy["body"]).partition("\n")
    assert json.loads(head) == {"copy": sent["id"], "to": "a2", "kind": "note", "thread": "t"}
    assert body == "hello"
    assert (copy["from"], copy["relation"], copy["kind"], copy["priority"]) == (
        "a1", "child", "copy", 3,
    )  # fmt: skip


def test_there_are_no_copies_without_the_setting(world: World) -> None:
    world.call("a1", "send", to="a2", body="hello")
    assert world.mail("a") == []


def test_only_mail_between_siblings_is_copied_and_a_copy_never_again(copied: World) -> None:
    """Roots have no parent, and the operator is not a sibling."""
    copied.grow("other", "a1/a11")
    for sender, to in (("a1", "a"), ("a", "a1"), ("a1", "a1"), ("a1", "operator"), ("a", "a2")):
        copied.call(sender, "send", to=to, body="x")
    copied.call("operator", "send", to="a1", body="x")
    copied.call("a1", "send", to="a2", body="copied")
    kinds = {name: [row["kind"] for row in copied.mail(name)] for name in ("a", "root", "operator")}
    assert kinds == {"a": ["message", "copy"], "root": [], "operator": ["message"]}


def test_copies_leave_most_of_the_inbox_and_stop_no_mail(copied: World) -> None:
    for _ in range(30):
        copied.call("a1", "send", to="a2", body="x")
        copied.call("a2", "ack", ids=[row["id"] for row in copied.mail("a2")])
    assert len(copied.mail("a")) == 14  # a third is the share of one sender


def test_a_copy_that_dies_is_nobodys_news(copied: World) -> None:
    copied.call("a1", "send", to="a2", body="x")
    (copy,) = copied.mail("a")
    copied.call("a", "recv")
    copied.call("a", "nack", ids=[copy["id"]], dead=True)
    assert copied.mail("a1") == []


@pytest.mark.parametrize("kind", ["copy", "topic"])
def test_no_agent_forges_what_the_daemon_makes(world: World, kind: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        world.call("a1", "send", to="a", body="x", kind=kind)
    assert caught.value.field == "kind"
