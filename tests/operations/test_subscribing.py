"""subscribe and note_event: the log for agents (rows K29, K30, Q39)."""

from __future__ import annotations

import json
from base64 import b64encode
from urllib.parse import quote

import pytest
from fixtures.world import Reply, World, names, rows
from hypothesis import given
from hypothesis import strategies as st

from hive_core.errors import NotFound
from hive_core.ledger.audit.events import AuditEntry
from hive_core.operations.audit.event_filter import SCAN


def events_behind(world: World, who: str, after: int, **given_: object) -> list[Reply]:
    return rows(world.call(who, "subscribe", after=str(after), **given_)["events"])


def test_without_a_number_only_what_comes_from_now_on_is_told(world: World) -> None:
    """K29: 0 = now."""
    last = str(world.ledger.events.last)
    for given_ in ({}, {"after": "0"}):
        reply = world.call("a", "subscribe", **given_)
        assert (reply["events"], reply["next"]) == ([], last)


def test_an_agent_follows_only_itself_and_its_descendants(world: World) -> None:
    """Q39."""
    start = world.ledger.events.last
    for who, to in (("a1", "a2"), ("b1", "b"), ("a", "a1"), ("root", "b")):
        world.call(who, "send", to=to, body="x")
    assert [(entry["caller"], entry["target"]) for entry in events_behind(world, "a", start)] == [
        ("a1", "a2"), ("a", "a1"),
    ]  # fmt: skip
    assert names(events_behind(world, "a1", start), "caller") == ["a1", "a"]
    assert names(events_behind(world, "b1", start), "caller") == ["b1"]
    assert len(events_behind(world, "operator", start)) == 4


def test_no_agent_that_the_reader_does_not_see_is_shown(world: World) -> None:
    world.call("operator", "allow", agent="b1", other="a1")
    start = world.ledger.events.last
    world.call("b1", "send", to="a1", body="x")
    world.fault("a1", "stop", agent="b1")
    first, second = events_behind(world, "a", start)
    assert (first["caller"], first["target"], first["reason"]) == ("", "a1", "")
    assert (second["caller"], second["target"], second["allowed"]) == ("a1", "", False)
    text = str((first, second))
    assert "b1" not in text
    assert world.uuid("b1") not in text


def test_agents_and_kinds_can_be_chosen_below_oneself_only(world: World) -> None:
    start = world.ledger.events.last
    world.call("a1", "note_event", kind="step", text="one")
    world.call("a2", "note_event", kind="step", text="two")
    world.call("a2", "send", to="a1", body="x")
    assert names(events_behind(world, "a", start, agents=["a2"], kinds=["own.*"]), "kind") == [
        "own.step"
    ]
    assert len(events_behind(world, "a", start, kinds=["record", "own.step"])) == 3
    assert events_behind(world, "a", start, kinds=["own.other"]) == []
    for strange in ("b1", "root", "nobody"):
        with pytest.raises(NotFound, match="below you"):
            events_behind(world, "a", start, agents=[strange])
        assert world.fault("a", "subscribe", agents=[strange]) == "NotFound"


def test_a_stream_tells_its_place_and_then_every_event_once(world: World) -> None:
    """K29: resume from any number."""
    stream = world.ask("a", "subscribe", more=True)
    (first,) = stream.pages
    assert first["events"] == []
    for number in range(5):
        world.call("a1", "note_event", kind="step", text=str(number))
        world.call("b1", "note_event", kind="other")
    entries = [event for page in stream.pages for event in rows(page["events"])]
    assert [fields_of(event)["text"] for event in entries] == ["0", "1", "2", "3", "4"]
    stream.close()
    again = events_behind(world, "a", int(str(first["next"])))
    assert again == entries


def fields_of(row: Reply) -> Reply:
    fields = row["fields"]
    assert isinstance(fields, dict)
    return fields


def fill(world: World, count: int) -> None:
    entry = AuditEntry("noise", "x", "y", "", None, "", "", "", "", world.clock.now())
    with world.ledger.transaction():
        for _ in range(count):
            world.ledger.events.append(entry)


def test_a_long_stretch_of_others_events_is_passed_in_bounded_steps(world: World) -> None:
    start = world.ledger.events.last
    fill(world, 2 * SCAN)
    world.call("a1", "note_event", kind="step")
    after, turns = start, 0
    while not (reply := world.call("a", "subscribe", after=str(after)))["events"]:
        after, turns = int(str(reply["next"])), turns + 1
    assert turns == 2
    stream = world.ask("a", "subscribe", more=True, after=str(start))
    assert [len(rows(page["events"])) for page in stream.pages] == [0, 0, 1]
    stream.close()


def test_a_late_reader_is_told_what_was_removed(world: World) -> None:
    """K29: a slow reader gets a record of the gap."""
    fill(world, 50)
    with world.ledger.transaction():
        world.ledger.events.prune(world.ledger.events.last - 9)
    base = world.ledger.events.base
    reply = world.call("a", "subscribe", after="3")
    assert reply["gap"] == {"from": 4, "to": base}
    assert world.call("a", "subscribe", after=str(base)).get("gap") is None
    listed = world.call("operator", "list_events", after="3")
    assert listed["gap"] == {"from": 4, "to": base}
    assert names(listed["events"], "seq") == list(range(base + 1, base + 11))
    stream = world.ask("operator", "list_events", more=True, after="3")
    assert [page.get("gap") is not None for page in stream.pages] == [True]
    stream.close()


KINDS = st.from_regex(r"\A(own\.)?[a-z][a-z0-9_.-]{0,20}\Z")


def test_an_agent_cannot_forge_an_event_of_the_daemon(world: World) -> None:
    """K29: whatever it calls it, the kind begins with `own.` and the caller is itself."""

    @given(
        KINDS, st.dictionaries(st.text("abcdelrs_", min_size=1), st.text(max_size=4), max_size=4)
    )
    def note(kind: str, more: dict[str, str]) -> None:
        world.call("a1", "note_event", kind=kind, fields={"caller": "root", **more})
        event = newest(world)
        assert str(event["kind"]).startswith("own.")
        assert (event["caller"], event["caller_uuid"]) == ("a1", world.uuid("a1"))
        assert (event["operation"], event["allowed"]) == ("note_event", True)

    note()
    assert world.fault("a1", "note_event", kind="Own.x") == "InvalidArgument"


def newest(world: World) -> Reply:
    return rows(world.call("operator", "list_events", last=1)["events"])[-1]


def test_a_note_is_bounded(world: World) -> None:
    assert world.fault("a1", "note_event", kind="x", text="y" * 4097) == "InvalidArgument"
    assert world.fault("a1", "note_event", kind="x", fields={"y": "z" * 5000}) == "InvalidArgument"
    many = {f"k{number}": 1 for number in range(33)}
    assert world.fault("a1", "note_event", kind="x", fields=many) == "InvalidArgument"
    assert world.fault("a1", "note_event", kind="x", task="feedfeedfeed") == "NotFound"


def test_events_of_a_task_and_of_its_parts_bear_one_trace(world: World) -> None:
    """K30: per task, not per agent."""
    whole = world.call("root", "assign_task", agent="a", description="all")["task"]
    part = world.call("a", "assign_task", agent="a1", description="a part")["task"]
    other = world.call("root", "assign_task", agent="a2", description="other")["task"]
    world.call("a1", "note_event", kind="step", task=part)
    traces: dict[object, set[object]] = {}
    for event in world.events():
        result = fields_of(event)
        if result.get("task"):
            traces.setdefault(result["task"], set()).add(result.get("trace"))
    assert traces.keys() == {whole, part, other}
    assert traces[whole] == traces[part] != traces[other]
    (trace,) = traces[whole]
    assert len(str(trace)) == 32


def test_the_operator_chooses_by_kind_agent_and_time(world: World) -> None:
    world.call("a1", "note_event", kind="early")
    uuid = world.uuid("a1")
    world.advance(100)
    now = world.clock.now()
    world.call("a1", "note_event", kind="late")
    world.call("b1", "note_event", kind="late")

    def event_kinds(**given_: object) -> list[object]:
        return names(world.call("operator", "list_events", **given_)["events"], "kind")

    assert event_kinds(kinds=["own.*"]) == ["own.early", "own.late", "own.late"]
    assert event_kinds(kinds=["own.*"], since=now) == ["own.late", "own.late"]
    assert event_kinds(kinds=["own.*"], agents=["a1"]) == ["own.early", "own.late"]
    world.call("operator", "destroy", agent="a1")
    assert event_kinds(kinds=["own.*"], agents=[uuid]) == ["own.early", "own.late"]


def test_a_registered_secret_stands_in_no_event(world: World) -> None:
    """K29: in any field, of any caller, as plain text or encoded."""
    secret = "correct horse/battery"  # noqa: S105 - that is what it is
    world.call("operator", "set_secret", agent="a1", key="k", value=secret)
    coded = b64encode(f"user:{secret}".encode()).decode()
    world.grow("a1/will:worker")
    for text in (secret, json.dumps(secret), coded, quote(secret, safe="")):
        world.call("a1", "note_event", kind="x", text=f"it is {text}!", fields={text[:40]: text})
        world.call("will", "use_tool", tool="bash", argument=["curl", "-u", text])
        world.fault("a1", "stop", agent=text[:64])
    world.ledger.checkpoint()
    disk = b"".join(path.read_bytes() for path in world.folder.glob("hive.db*"))
    result = json.dumps(world.events(), ensure_ascii=False)
    for text in (secret, coded[8:20], quote(secret, safe="")):
        assert text not in result
        assert text.encode() not in disk
    assert world.ledger.events.verify() is None
