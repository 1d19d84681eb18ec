"""Mail of a sub-agent: with its parent only, in an inbox of its own (Z4, Z14)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.model_calls import AGENTS, MODELS, TIERS
from fixtures.subagents import (
    allow_subagents,
    close_sub,
    open_sub,
    party,
)
from fixtures.world import World, rows, world

from hive_core.errors import NotAllowed, NotFound
from hive_core.model.config.settings import Settings


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(Settings(models=TIERS), *AGENTS, models=MODELS) as made:
        allow_subagents(made, "a", "b")
        yield made


def test_it_writes_to_its_parent_only_and_reads_its_own_inbox(world: World) -> None:
    opened = open_sub(world, "a")
    caller = party("a", opened)
    world.call(caller, "send", to="a", body="from inside")
    (letter,) = rows(world.call("a", "recv")["messages"])
    assert (letter["from"], letter["relation"]) == (opened["inbox"], "subagent")
    assert letter["from_uuid"] == opened["party"]
    world.call("a", "ack", ids=[letter["id"]])
    for other in ("root", "a1", "operator", "b", "a/nobody", f"b/{opened['id']}"):
        with pytest.raises(NotAllowed, match="a sub-agent talks to its parent only"):
            world.call(caller, "send", to=other, body="x")
    world.call("a", "send", to=opened["inbox"], body="go on")
    world.call("a", "send", to="a", body="a note of the agent")
    (order,) = rows(world.call(caller, "recv")["messages"])
    assert (order["body"], order["relation"], order["from"]) == ("go on", "parent", "a")
    assert world.call(caller, "ack", ids=[order["id"]]) == {"acked": 1}


def test_nobody_else_writes_to_it(world: World) -> None:
    opened = open_sub(world, "a")
    other = party("a", open_sub(world, "a"))
    for caller in ("root", "a1", "b", "operator"):
        assert world.fault(caller, "send", to=opened["inbox"], body="x") == "NotFound", caller
    assert world.fault(other, "send", to=opened["inbox"], body="x") == "NotAllowed"
    assert world.fault("a", "send", to="a/nobody", body="x") == "NotFound"


def test_it_cannot_read_or_ack_the_mail_of_its_agent_or_of_another_one(world: World) -> None:
    first, second = open_sub(world, "a"), open_sub(world, "a")
    for to in ("a", first["inbox"]):
        world.call("a", "send", to=to, body="private")
    (mine,) = rows(world.call("a", "recv")["messages"])
    caller = party("a", second)
    assert rows(world.call(caller, "recv")["messages"]) == []
    assert world.call(caller, "ack", ids=[mine["id"]]) == {"acked": 0}
    with pytest.raises(NotAllowed, match="its own inbox only"):
        world.call(caller, "list_messages", agent="a")
    assert rows(world.call(caller, "list_messages")["messages"]) == []
    assert world.fault(caller, "wait_reply", id=mine["id"]) == "NotFound"


def test_mail_that_a_closed_sub_agent_did_not_read_comes_back(world: World) -> None:
    opened = open_sub(world, "a")
    waiting = world.ask(party("a", opened), "recv", wait=30.0)
    assert waiting.pending
    close_sub(world, "a", opened["id"])
    with pytest.raises(NotFound):
        waiting.result()
    another = open_sub(world, "a")
    world.call("a", "send", to=another["inbox"], body="late")
    close_sub(world, "a", another["id"])
    (letter,) = rows(world.call("a", "recv")["messages"])
    assert letter["kind"] == "dead_letter"
    assert "was closed" in str(letter["body"])
