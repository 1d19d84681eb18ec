"""get_logs: what an agent wrote."""

from __future__ import annotations

from each import for_each
from fixtures.world import World, names, rows

from hive_core.varlink import FRAME_LIMIT, encode

MAY = {
    ("a1", None): "", ("a1", "a1"): "", ("a", "a1"): "", ("root", "a11"): "", ("operator", "a"): "",
    ("a1", "a"): "NotAllowed", ("a1", "a2"): "NotAllowed", ("a", "b"): "NotAllowed",
    ("a", "b1"): "NotFound", ("a", "nobody"): "NotFound", ("operator", "nobody"): "NotFound",
}  # fmt: skip


def write(world: World, name: str, *texts: str) -> None:
    for text in texts:
        world.reads.journal.write(world.uuid(name), text, f"hive-agent@{name}.service")
    world.run()


@for_each("caller, agent", MAY)
def test_itself_an_ancestor_or_the_operator(world: World, caller: str, agent: str | None) -> None:
    """Row H10; attack 41."""
    assert world.fault(caller, "get_logs", agent=agent) == MAY[caller, agent]


def test_a_line_says_when_where_and_what(world: World) -> None:
    write(world, "a1", "hello")
    (line,) = rows(world.call("a", "get_logs", agent="a1")["lines"])
    assert line == {
        "time": line["time"], "unit": "hive-agent@a1.service", "text": "hello",
    }  # fmt: skip


def test_the_newest_lines_are_given_oldest_first(world: World) -> None:
    write(world, "a1", "1", "2", "3")
    reply = world.call("a", "get_logs", agent="a1", lines=2)
    assert names(reply["lines"], "text") == ["2", "3"]


def test_lines_are_chosen_by_time_and_text(world: World) -> None:
    journal, uuid = world.reads.journal, world.uuid("a1")
    journal.write(uuid, "old error", time=10.0)
    journal.write(uuid, "new error", time=20.0)
    journal.write(uuid, "new word", time=20.0)
    reply = world.call("a", "get_logs", agent="a1", since=15, grep="error")
    assert names(reply["lines"], "text") == ["new error"]


def test_lines_of_others_never_show(world: World) -> None:
    """Attack 45: by the identity the journal vouches for, not by text or name."""
    write(world, "a2", "I am a1")
    assert world.call("a", "get_logs", agent="a1")["lines"] == []


def test_a_reused_name_shows_no_line_of_its_former_owner(world: World) -> None:
    """Attack 40."""
    write(world, "a1", "old secret")
    world.call("operator", "destroy", agent="a1")
    world.call("b", "spawn", name="a1")
    assert world.call("b", "get_logs", agent="a1")["lines"] == []


def test_following_gives_what_there_is_and_then_what_comes(world: World) -> None:
    write(world, "a1", "1", "2")
    asked = world.ask("a", "get_logs", agent="a1", more=True)
    assert asked.pending
    write(world, "a1", "3")
    write(world, "a1", "4")
    entries = [text for page in asked.pages for text in names(page["lines"], "text")]
    assert entries == ["1", "2", "3", "4"]
    asked.close()


def test_following_begins_with_nothing_when_nothing_is_wanted_of_the_past(world: World) -> None:
    asked = world.ask("a", "get_logs", agent="a1", more=True)
    assert not asked.replies
    write(world, "a1", "first")
    assert names(asked.pages[0]["lines"], "text") == ["first"]
    asked.close()


def test_a_huge_log_comes_in_answers_that_fit_a_frame(world: World) -> None:
    """Attack 37: a small question costs a bounded answer; what does not fit is the oldest."""
    write(world, "a1", *["\x01" * 20_000] * 30, "last")
    reply = world.call("a", "get_logs", agent="a1", lines=1000)
    assert len(encode({"parameters": reply})) <= FRAME_LIMIT
    assert names(reply["lines"], "text")[-1] == "last"
