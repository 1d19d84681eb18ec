"""K20: topics, and messages to their followers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from each import for_each
from fixtures.world import World, world

from hive_core.errors import LimitReached
from hive_core.model.config.settings import Settings

SMALL = Settings.model_validate(
    {"queues": {"follows": 2, "followers": 2}, "limits": {"inbox_count": 2}}
)


@pytest.fixture(name="small")
def _small() -> Iterator[World]:
    with world(SMALL, "root/a", "a/a1", "a/a2", "a/a3") as made:
        yield made


def follow(world: World, *who: str) -> None:
    for name in who:
        world.call(name, "follow_topic", topic="builds")


def recipients(world: World, *who: str) -> set[str]:
    return {name for name in who if any(row["kind"] == "topic" for row in world.mail(name))}


def test_descendants_that_follow_it_get_it_as_mail(world: World) -> None:
    follow(world, "a1", "a11", "b1", "root", "a")
    assert world.call("a", "publish", topic="builds", body="green") == {
        "delivered": 2, "missed": 0,
    }  # fmt: skip
    assert recipients(world, "a1", "a11", "a2", "b1", "root", "a") == {"a1", "a11"}
    (letter,) = world.mail("a11")
    head, _, body = str(letter["body"]).partition("\n")
    assert (json.loads(head), body) == ({"topic": "builds"}, "green")
    assert (letter["from"], letter["relation"], letter["kind"]) == ("a", "ancestor", "topic")


def test_with_broadcast_it_reaches_all_followers(world: World) -> None:
    follow(world, "a1", "b1", "root", "a2")
    world.call("operator", "grant_capability", agent="a1", capability="broadcast")
    assert world.call("a1", "publish", topic="builds", body="x")["delivered"] == 3
    assert recipients(world, "a1", "b1", "root", "a2") == {"b1", "root", "a2"}
    (letter,) = world.mail("b1")
    assert letter["relation"] == "allowed"
    assert world.fault("b1", "send", to="a1", body="thanks", reply_to=letter["id"]) == ""


def test_a_task_reaches_its_parent_at_most(world: World) -> None:
    """K18: a topic does not lift `task -> parent only`."""
    world.grow("a1/job:task")
    follow(world, "a1", "a", "a11", "root")
    assert world.call("job", "publish", topic="builds", body="x")["delivered"] == 0
    world.call("operator", "grant_capability", agent="job", capability="broadcast")
    assert world.call("job", "publish", topic="builds", body="x")["delivered"] == 1
    assert recipients(world, "a1", "a", "a11", "root") == {"a1"}


def test_it_is_as_urgent_as_its_publisher_may_be(world: World) -> None:
    follow(world, "a1")
    world.call("a", "publish", topic="builds", body="x", priority=0)
    world.call("operator", "publish", topic="builds", body="x", priority=0)
    assert [row["priority"] for row in world.mail("a1")] == [1, 0]


def test_an_agent_that_unfollows_or_is_destroyed_gets_no_more(world: World) -> None:
    follow(world, "a1", "a2")
    assert world.call("a1", "unfollow_topic", topic="builds") == {"topics": []}
    uuid = world.uuid("a2")
    world.call("operator", "destroy", agent="a2")
    assert world.call("a", "publish", topic="builds", body="x") == {"delivered": 0, "missed": 0}
    assert world.ledger.queues.follows.of(uuid) == []


def test_what_one_follows_is_listed_and_bounded(small: World) -> None:
    follow(small, "a1", "a1")
    small.call("a1", "follow_topic", topic="releases")
    assert small.call("a1", "list_topics") == {"topics": ["builds", "releases"]}
    with pytest.raises(LimitReached):
        small.call("a1", "follow_topic", topic="more")
    assert small.fault("a1", "follow_topic", topic="builds") == ""


def test_a_full_inbox_misses_it_and_delays_no_other_inbox(small: World) -> None:
    follow(small, "a1", "a2")
    for _ in range(2):
        small.call("a", "send", to="a1", body="x")
    assert small.call("a", "publish", topic="builds", body="x") == {"delivered": 1, "missed": 1}
    assert recipients(small, "a2") == {"a2"}


def test_more_than_so_many_are_not_reached_at_once(small: World) -> None:
    """Attack 37: one call makes a bounded number of messages."""
    follow(small, "a1", "a2", "a3")
    with pytest.raises(LimitReached):
        small.call("a", "publish", topic="builds", body="x")
    assert recipients(small, "a1", "a2", "a3") == set()


def test_a_flood_meets_the_limit_for_each_recipient(world: World) -> None:
    """Attack 37: published and sent together."""
    follow(world, "a1")
    for _ in range(199):
        world.call("a", "publish", topic="builds", body="x")
    world.call("a", "send", to="a1", body="x")
    assert world.call("a", "publish", topic="builds", body="x") == {"delivered": 0, "missed": 1}
    assert world.fault("a", "send", to="a1", body="x") == "LimitReached"


@for_each("topic", ["", "Builds", "a b", "x" * 65, "1a"])
def test_a_topic_is_a_word(world: World, topic: str) -> None:
    assert world.fault("a", "publish", topic=topic, body="x") == "InvalidArgument"
