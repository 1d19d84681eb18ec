"""What an approval shows, and to whom."""

from __future__ import annotations

import pytest
from fixtures.approvals import (
    ONE,
    THREE,
    TWO,
    approval_fields,
    approve,
    ask,
    judge,
    line,
    row,
    show,
    waits,
)
from fixtures.world import Reply, World, names, rows

from hive_core.errors import Internal, InvalidArgument
from hive_core.model.config.approval import Effect
from hive_core.model.wire.record import OPERATOR


def test_the_requester_reads_it_and_an_ancestor_sees_that_there_is_one(world: World) -> None:
    """H9, attack 41."""
    id_ = judge(world, ask(world), lines=[line("secret plan")])
    mine = show(world, id_, "a")
    assert mine["whole"]
    assert "secret plan" in str(mine)
    assert approval_fields(mine)["message"] == "better words"
    for above in ("root", "a1"):
        seen = show(world, id_, above)
        assert (seen["whole"], seen["lines"], seen["marks"]) == (False, [], [])
        assert (approval_fields(seen)["id"], approval_fields(seen)["message"]) == (id_, "")
    for other in ("a2", "a11", "b"):
        assert world.fault(other, "get_approval", id=id_) == "NotFound"
        assert world.fault(other, "get_approval", id="0" * 12) == "NotFound"


def test_a_listing_has_what_its_caller_may_see(world: World) -> None:
    ids = [
        waits(world, "a", "a1"), waits(world, "b", "b1", commit=TWO),
        waits(world, "a11", "a11", commit=THREE),
    ]  # fmt: skip
    world.call(OPERATOR, "deny", id=ids[2], why="no")

    def approval_ids(caller: str, **more: object) -> list[object]:
        return names(world.ask_as(
            world.uuid(caller), "list_approvals", dict(more)
        ).result()["approvals"], "id")  # fmt: skip

    assert approval_ids(OPERATOR) == [ids[1], ids[0]]
    assert approval_ids(OPERATOR, all=True) == ids[::-1]
    assert approval_ids("root", all=True) == ids[::-1]
    assert approval_ids("a1", all=True) == [ids[2], ids[0]]
    assert approval_ids("b") == [ids[1]]
    assert approval_ids("a2", all=True) == []


def test_the_status_counts_what_waits_for_the_operator(world: World) -> None:
    waits(world)
    second = waits(world, commit=TWO)
    ask(world, commit=THREE)
    assert world.call(OPERATOR, "status")["waiting"] == 2
    approve(world, second, TWO)
    assert world.call(OPERATOR, "status")["waiting"] == 1


def test_the_status_counts_what_todo_lists(world: World) -> None:
    """`todo` had six rows while `status` said `waiting: 0`."""
    waits(world)
    world.call("root", "send", to=OPERATOR, body="look")
    world.call("root", "ask", to=OPERATOR, items=[{"prompt": "Which?"}])
    rows_ = rows(world.call(OPERATOR, "todo")["todo"])
    assert len(rows_) == 3
    assert world.call(OPERATOR, "status")["waiting"] == len(rows_)


def test_a_listing_has_pages(world: World) -> None:
    ids = [waits(world, OPERATOR, commit=f"{number:040x}") for number in range(5)]
    result, after = [], None
    while True:
        page = world.call(OPERATOR, "list_approvals", limit=2, after=after)
        result += names(page["approvals"], "id")
        after = page["next"]
        if after is None:
            break
    assert result == ids[::-1]
    streamed = world.ask(OPERATOR, "list_approvals", more=True, limit=2)
    assert [name for page in streamed.pages for name in names(page["approvals"], "id")] == result


def test_what_is_asked_for_is_shown_with_marks_effect_and_figures(world: World) -> None:
    id_ = judge(
        world, ask(world), {"capabilities": ["spawn", "budget"], "boot": True},
        effect=Effect.RESTART,
    )  # fmt: skip
    result = show(world, id_)
    assert result["review"] == {"files": 3, "bytes": 120, "changed": 1}
    assert approval_fields(result)["effect"] == "restart"
    held = set(world.hive.spec("a1").capabilities)
    red = {mark["name"] for mark in rows(result["marks"]) if mark["gives"]}
    assert red == {"boot"} | ({"spawn", "budget"} - held)
    lost = {mark["name"] for mark in rows(result["marks"]) if mark["after"] == "taken"}
    assert lost == held - {"spawn", "budget"}


def test_the_models_are_those_that_the_agent_may_use_once_it_is_granted(world: World) -> None:
    asked_for = {"capabilities": ["model:hive-small"], "model": "hive-small"}
    id_ = judge(world, ask(world), asked_for)
    result = show(world, id_)
    assert result["models"] == ["hive-small"]
    red = {(mark["kind"], mark["name"]) for mark in rows(result["marks"]) if mark["gives"]}
    assert red == {("model", "hive-small"), ("model", "model")}


def pages(world: World, id_: str, **more: object) -> list[Reply]:
    asked = world.ask_as(OPERATOR, "get_approval", {"id": id_, **more}, more=True)
    return asked.pages


def texts(result: list[Reply]) -> list[str]:
    """The lines as they were, parts put together."""
    whole, rest = list[str](), ""
    for item in (entry for page in result for entry in rows(page["lines"])):
        rest += str(item["text"])
        if not item["part"]:
            whole.append(rest)
            rest = ""
    return whole


def test_attack_22_a_difference_is_shown_to_its_last_line_whatever_its_size(world: World) -> None:
    """Never folded: pages follow each other, and a line larger than a frame goes in parts."""
    lines = ["short", '"' * 700_000, "é" * 500_000, *(f"line {n}" for n in range(5000)), ""]
    id_ = judge(world, ask(world), lines=[line(entry) for entry in lines])
    result = pages(world, id_)
    assert texts(result) == [*lines, "the end"]
    assert len(result) > 3
    assert result[-1]["next"] is None
    assert texts(pages(world, id_, limit=700)) == [*lines, "the end"]


def test_attack_22_what_acts_on_a_terminal_is_not_even_handed_on(world: World) -> None:
    """A job spells it out; one that was taken over does not, and then nothing is shown."""
    for odd in ("\x1b[2J", "a\rb", "a\u202eb", "a\u200bb", "\x9b1m"):
        id_ = judge(world, ask(world, OPERATOR, commit=f"{ord(odd[-2]):040x}"), lines=[line(odd)])
        with pytest.raises(Internal, match="deny this"):
            show(world, id_)


@pytest.mark.parametrize("odd", [b"{}\n", b'{"path": "a", "sign": "+", "text": "x"', b"[" * 99])
def test_a_difference_that_is_damaged_is_never_shown_as_whole(world: World, odd: bytes) -> None:
    id_ = waits(world)
    file = world.folder / "applied" / f"{world.uuid('a1')}.git" / "hive" / f"{id_}.diff"
    file.write_bytes(b"")
    assert texts(pages(world, id_)) == []
    file.write_bytes(b'{"path": "a", "sign": "+", "text": "x"}\n')
    assert texts(pages(world, id_)) == ["x"]
    file.write_bytes(file.read_bytes() + odd)
    with pytest.raises((Internal, InvalidArgument)):
        pages(world, id_)


def test_what_can_still_be_approved_is_not_shown_without_its_lines(world: World) -> None:
    id_ = waits(world)
    file = world.folder / "applied" / f"{world.uuid('a1')}.git" / "hive" / f"{id_}.diff"
    file.unlink()
    assert world.fault(OPERATOR, "get_approval", id=id_) == "NotFound"
    world.call(OPERATOR, "deny", id=id_, why="no")
    assert show(world, id_)["lines"] == []
    file.symlink_to("/etc/passwd")
    other = waits(world, commit=TWO)
    file.with_name(f"{other}.diff").unlink()
    file.with_name(f"{other}.diff").symlink_to("/etc/passwd")
    assert world.fault(OPERATOR, "get_approval", id=other) == "Internal"


def test_attack_41_a_caller_that_lost_sight_of_the_agent_learns_nothing_of_what_it_holds_now(
    world: World,
) -> None:
    id_ = judge(world, ask(world, "a", "a11"), {"capabilities": ["spawn"]})
    assert show(world, id_, "a")["marks"]
    world.call(OPERATOR, "move", agent="a1", parent="b")
    assert (show(world, id_, "a")["marks"], show(world, id_, "a")["whole"]) == ([], True)
    assert show(world, id_)["marks"]


def test_attack_41_an_ancestor_sees_numbers_and_no_words_of_the_commit(world: World) -> None:
    id_ = waits(world)
    result = row(world, id_)
    with world.ledger.transaction():
        world.ledger.approvals.record_review(
            id_, result.binding, Effect.LIVE, {}, {"files": 3, "warnings": ["secret plan"]}
        )
    assert show(world, id_, "root")["review"] == {"files": 3}
    assert "secret plan" in str(show(world, id_, "a")["review"])


def test_attack_41_a_listing_has_no_trace_of_what_its_caller_may_not_see(world: World) -> None:
    mine = [waits(world, "b", "b1", commit=ONE)]
    others = [waits(world, "a", "a1", commit=f"{number:040x}") for number in range(3)]
    mine.append(waits(world, "b", "b1", commit=TWO))
    first = world.call("b", "list_approvals", limit=1)
    second = world.call("b", "list_approvals", limit=1, after=first["next"])
    collected = [*names(first["approvals"], "id"), *names(second["approvals"], "id")]
    assert (collected, first["next"], second["next"]) == (mine[::-1], mine[1], None)
    assert world.call("a2", "list_approvals", limit=1) == {"approvals": [], "next": None}
    for unseen in (others[0], "0" * 12):
        assert world.fault("b", "list_approvals", after=unseen) == "NotFound"


def test_a_requester_reads_no_more_once_it_is_destroyed(world: World) -> None:
    id_ = waits(world, "a1", "a1")
    world.call(OPERATOR, "move", agent="a1", parent="b")
    assert show(world, id_, "a1")["whole"]
    assert world.fault("a", "get_approval", id=id_) == "NotFound"
    assert show(world, id_, "b")["whole"] is False


def test_agents_learn_that_the_operator_decided_and_not_which_one(world: World) -> None:
    id_ = waits(world)
    world.call(OPERATOR, "deny", id=id_, why="no")
    assert approval_fields(show(world, id_, "a"))["decided_by"] == OPERATOR
    assert approval_fields(show(world, id_))["decided_by"] == "uid:0"


@pytest.mark.parametrize(
    ("uuid", "approval"), [("../../etc", "0" * 12), ("0" * 36, "../../passwd"), ("", "")]
)
def test_no_name_leads_out_of_the_folder_of_differences(
    world: World, uuid: str, approval: str
) -> None:
    """Attack 10: names are ours, whoever wrote them down."""
    with pytest.raises(Internal):
        world.loop.run_until_complete(world.reads.diff(uuid, approval, 0))


def test_a_folder_in_the_place_of_a_difference_is_not_read(world: World) -> None:
    id_ = waits(world)
    file = world.folder / "applied" / f"{world.uuid('a1')}.git" / "hive" / f"{id_}.diff"
    file.unlink()
    file.mkdir()
    assert world.fault(OPERATOR, "get_approval", id=id_) == "Internal"
