"""stream_turn and watch_turn: text of running turns, in memory only."""

from __future__ import annotations

from pathlib import Path

import pytest
from each import for_each
from fixtures.machines import end_machine, start_machines
from fixtures.world import Reply, World, rows

from hive_core.errors import LimitReached

WATCHERS = {
    "a1": "", "a": "", "root": "", "operator": "", "a11": "NotAllowed", "a2": "NotAllowed",
    "b1": "NotFound",
}  # fmt: skip


def write(world: World, text: str, turn: int = 1, agent: str = "a1") -> Reply:
    return world.call(agent, "stream_turn", conversation="main", turn=turn, text=text)


def texts(reply: Reply) -> list[object]:
    return [part["text"] for part in rows(reply["parts"])]


@for_each("caller, error", WATCHERS.items())
def test_who_may_watch(world: World, caller: str, error: str) -> None:
    assert world.fault(caller, "watch_turn", agent="a1") == error


def test_the_operator_has_no_turns(world: World) -> None:
    assert world.fault("operator", "stream_turn", conversation="m", turn=1, text="x") == "Conflict"
    assert world.fault("operator", "watch_turn") == "InvalidArgument"


def test_text_comes_to_those_who_watch_as_it_is_written(world: World) -> None:
    write(world, "one ")
    watching = world.ask("a", "watch_turn", agent="a1", more=True)
    write(world, "two")
    world.call("a1", "keep_turn", conversation="main", turn=1, status="done", text="one two")
    assert [texts(page) for page in watching.pages] == [["one "], ["two"], [""]]
    assert rows(watching.pages[-1]["parts"])[0]["ended"] is True
    assert watching.pending
    write(world, "next turn", 2)
    assert texts(watching.result()) == ["next turn"]


def test_who_comes_later_gets_the_text_of_the_turns_that_still_run(world: World) -> None:
    write(world, "over", 1)
    world.call("a1", "keep_turn", conversation="main", turn=1, status="done")
    write(world, "runs", 2)
    reply = world.call("operator", "watch_turn", agent="a1")
    assert texts(reply) == ["runs"]
    assert texts(world.call("a", "watch_turn", agent="a1", after=reply["next"])) == []


def test_a_wait_without_a_stream_ends_with_text_or_its_time(world: World) -> None:
    waiting = world.ask("a", "watch_turn", agent="a1", wait=5.0)
    assert waiting.pending
    write(world, "here")
    assert texts(waiting.result()) == ["here"]
    after = waiting.result()["next"]
    late = world.ask("a", "watch_turn", agent="a1", after=after, wait=5.0)
    world.advance(5)
    assert late.result() == {"parts": [], "next": after}


def test_nothing_of_it_is_written_down(world: World, tmp_path: Path) -> None:
    before = world.ledger.events.last
    write(world, "a secret of the moment")
    world.call("operator", "watch_turn", agent="a1")
    assert world.ledger.events.last == before
    world.restart()
    assert texts(world.call("operator", "watch_turn", agent="a1")) == []
    files = [path for path in world.folder.rglob("*") if path.is_file()]
    assert files
    assert not any(b"secret of the moment" in path.read_bytes() for path in files)
    del tmp_path


def test_an_agent_writes_four_times_a_second(world: World) -> None:
    for _ in range(8):
        write(world, "x")
    with pytest.raises(LimitReached, match=r"too often, try again in 0\.25 s"):
        write(world, "x")
    write(world, "x", agent="a2")  # another agent has its own rate
    world.advance(1)
    for _ in range(4):
        write(world, "y")
    assert world.fault("a1", "stream_turn", conversation="main", turn=1, text="z") == "LimitReached"


def test_a_text_is_bounded(world: World) -> None:
    write(world, "x" * 16_384)
    for bad in ("x" * 16_385, "☃" * 5_462):
        fault = world.fault("a1", "stream_turn", conversation="main", turn=1, text=bad)
        assert fault == "InvalidArgument"
    for conversation, turn in (("", 1), ("two words", 1), ("main", -1)):
        fault = world.fault("a1", "stream_turn", conversation=conversation, turn=turn, text="x")
        assert fault == "InvalidArgument"


def test_a_secret_is_not_shown(world: World) -> None:
    world.call("operator", "set_secret", agent="a1", key="token", value="hunter2hunter2")
    write(world, "it is hunter2hunter2!")
    assert texts(world.call("operator", "watch_turn", agent="a1")) == ["it is ***!"]


def test_it_goes_with_the_machine(world: World) -> None:
    start_machines(world, "a1")
    write(world, "half a sent")
    watching = world.ask("a", "watch_turn", agent="a1", more=True)
    end_machine(world, "a1", 1)
    assert texts(world.call("a", "watch_turn", agent="a1")) == []
    assert watching.pending
    world.call("a", "destroy", agent="a1", recursive=True)
    assert world.ledger.live.bytes == 0


def test_a_watcher_that_may_not_see_the_agent_any_more_gets_nothing(world: World) -> None:
    watching = world.ask("a", "watch_turn", agent="a1", more=True)
    world.call("operator", "move", agent="a1", parent="b")
    write(world, "for b only")
    assert "parameters" in watching.replies[-1]
    assert "for b only" not in str(watching.replies)
    assert not watching.pending
