"""K20: pipes between a parent and its child, of 64 slots."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from each import for_each
from fixtures.world import Reply, World, names, rows, world

from hive_core.errors import Conflict, LimitReached, NotFound

SLOTS = 64


@pytest.fixture(name="piped")
def _piped() -> Iterator[World]:
    with world(None, "root/a", "a/a1", "a/a2") as made:
        yield made


def open_pipe(world: World) -> str:
    return str(world.call("a", "open_pipe", agent="a1")["pipe"])


def read(world: World, pipe: str, who: str = "a1", **more: object) -> list[object]:
    return names(world.call(who, "read_pipe", pipe=pipe, **more)["chunks"], "data")


def write(world: World, pipe: str, *data: str, who: str = "a") -> list[object]:
    return [world.call(who, "write_pipe", pipe=pipe, data=chunk)["seq"] for chunk in data]


def test_both_ends_write_and_read_in_order(piped: World) -> None:
    pipe = open_pipe(piped)
    assert write(piped, pipe, "1", "2", "3") == [1, 2, 3]
    assert write(piped, pipe, "x", who="a1") == [1]
    assert read(piped, pipe) == ["1", "2", "3"]
    assert read(piped, pipe, "a") == ["x"]


def test_the_child_is_told_of_it(piped: World) -> None:
    pipe = open_pipe(piped)
    (letter,) = piped.mail("a1")
    assert (letter["kind"], letter["from"]) == ("pipe", "daemon")
    assert json.loads(str(letter["body"]).splitlines()[0]) == {"pipe": pipe}


def test_what_did_not_arrive_is_read_again(piped: World) -> None:
    pipe = open_pipe(piped)
    write(piped, pipe, "1", "2", "3")
    assert read(piped, pipe, max=2) == ["1", "2"]
    assert read(piped, pipe, max=2) == ["1", "2"]
    assert read(piped, pipe, up_to=2) == ["3"]
    assert read(piped, pipe, up_to=3) == []


def test_a_full_pipe_is_refused_or_waited_for(piped: World) -> None:
    pipe = open_pipe(piped)
    write(piped, pipe, *map(str, range(SLOTS)))
    with pytest.raises(LimitReached, match=r"it is full \(64 chunks\)"):
        piped.call("a", "write_pipe", pipe=pipe, data="x")
    waiting = piped.ask("a", "write_pipe", pipe=pipe, data="x", wait=50)
    assert waiting.pending
    read(piped, pipe, up_to=1)
    assert waiting.result() == {"seq": SLOTS + 1}
    assert read(piped, pipe, up_to=SLOTS) == ["x"]


def test_a_wait_for_room_ends_without_writing(piped: World) -> None:
    pipe = open_pipe(piped)
    write(piped, pipe, *map(str, range(SLOTS)))
    waiting = piped.ask("a", "write_pipe", pipe=pipe, data="x", wait=10)
    piped.advance(10.1)
    assert waiting.result() == {"seq": None}
    assert len(read(piped, pipe)) == SLOTS


def test_a_reader_waits_for_what_is_written(piped: World) -> None:
    pipe = open_pipe(piped)
    waiting = piped.ask("a1", "read_pipe", pipe=pipe, wait=50)
    assert waiting.pending
    write(piped, pipe, "at last")
    assert names(waiting.result()["chunks"], "data") == ["at last"]


def test_large_chunks_come_in_answers_that_fit_a_frame(piped: World) -> None:
    """Attack 37."""
    pipe = open_pipe(piped)
    write(piped, pipe, *["\x01" * 65_536] * 5)
    numbers: list[object] = []
    last = 0
    while last < 5:
        reply = piped.call("a1", "read_pipe", pipe=pipe, up_to=last)
        numbers += names(reply["chunks"], "seq")
        last = int(str(numbers[-1]))
    assert numbers == [1, 2, 3, 4, 5]


def test_a_closed_pipe_is_read_to_its_end(piped: World) -> None:
    pipe = open_pipe(piped)
    write(piped, pipe, "1", "2")
    waiting = piped.ask("a", "read_pipe", pipe=pipe, wait=50)
    assert piped.call("a", "close_pipe", pipe=pipe) == {"unread": 0}
    assert waiting.result() == {"chunks": [], "closed": True}
    with pytest.raises(Conflict, match="is closed"):
        piped.call("a1", "write_pipe", pipe=pipe, data="x")
    reply = piped.call("a1", "read_pipe", pipe=pipe)
    assert (names(reply["chunks"], "data"), reply["closed"]) == (["1", "2"], True)
    assert piped.call("a1", "read_pipe", pipe=pipe, up_to=2) == {"chunks": [], "closed": True}
    assert piped.fault("a1", "read_pipe", pipe=pipe) == "NotFound"


def test_an_end_of_an_agent_closes_its_pipes_and_loses_nothing_written(piped: World) -> None:
    pipe = open_pipe(piped)
    write(piped, pipe, "for the child")
    write(piped, pipe, "last words", who="a1")
    piped.call("operator", "destroy", agent="a1")
    reply = piped.call("a", "read_pipe", pipe=pipe)
    assert (names(reply["chunks"], "data"), reply["closed"]) == (["last words"], True)
    piped.call("a", "read_pipe", pipe=pipe, up_to=1)
    for table in ("pipes", "chunks"):
        assert piped.ledger.connection.value(f"SELECT COUNT(*) FROM {table}") == 0  # noqa: S608


WHO = {"root": "NotAllowed", "a1": "NotAllowed", "a2": "NotAllowed", "operator": "NotAllowed"}


@for_each("caller, error", WHO.items())
def test_a_parent_opens_it(piped: World, caller: str, error: str) -> None:
    assert piped.fault(caller, "open_pipe", agent="a1") == error


@for_each(
    "caller, operation",
    [
        (caller, operation)
        for caller in ["root", "a2", "operator"]
        for operation in ["read_pipe", "write_pipe", "close_pipe"]
    ],
)
def test_no_other_agent_has_an_end_of_it(piped: World, caller: str, operation: str) -> None:
    """Another agent's pipe looks like one that does not exist (attack 41)."""
    pipe = open_pipe(piped)
    more = {"data": "x"} if operation == "write_pipe" else {}
    with pytest.raises(NotFound, match=f"^no pipe {pipe}$"):
        piped.call(caller, operation, pipe=pipe, **more)
    with pytest.raises(NotFound, match=r"^no pipe 00$"):
        piped.call(caller, operation, pipe="00", **more)


def test_a_child_that_was_moved_away_writes_no_more(piped: World) -> None:
    pipe = open_pipe(piped)
    write(piped, pipe, "before", who="a1")
    piped.call("operator", "move", agent="a1", parent="root")
    for who in ("a", "a1"):
        assert piped.fault(who, "write_pipe", pipe=pipe, data="x") == "NotFound"
    assert read(piped, pipe, "a") == ["before"]


def test_pipes_are_listed_and_bounded(piped: World) -> None:
    pipe = open_pipe(piped)
    for _ in range(31):
        open_pipe(piped)
    assert piped.fault("a", "open_pipe", agent="a2") == "LimitReached"
    write(piped, pipe, "1", "2")
    row: Reply = rows(piped.call("a1", "list_pipes")["pipes"])[0]
    assert row == {"pipe": pipe, "other": "a", "to_read": 2, "to_write": 0, "closed": False}
    piped.call("a", "close_pipe", pipe=str(rows(piped.call("a", "list_pipes")["pipes"])[1]["pipe"]))
    assert piped.fault("a", "open_pipe", agent="a2") == ""
