"""Reads for a dashboard (row Q39): events backwards, the chain in slices, mail, settings."""

from __future__ import annotations

import pytest
from fixtures.world import World, names, rows

from hive_core.operations.audit import check_chain


def numbers(world: World, **params: object) -> list[object]:
    return names(world.call("operator", "list_events", **params)["events"], "seq")


def assign(world: World, agent: str, description: str) -> str:
    task = world.call("a", "assign_task", agent=agent, title="t", description=description)["task"]
    return str(task)


def test_events_before_a_number_come_newest_first_and_page_to_the_beginning(world: World) -> None:
    forward = numbers(world, limit=1000)
    before, backward = str(world.ledger.events.last + 1), list[object]()
    while True:
        page = world.call("operator", "list_events", before=before, limit=3)
        backward += names(page["events"], "seq")
        if page["next"] is None:
            break
        before = str(page["next"])
    assert backward == forward[::-1]


@pytest.mark.parametrize("more", [{"after": "1"}, {"last": 1}])
def test_a_page_backwards_has_one_position(world: World, more: dict[str, object]) -> None:
    assert world.fault("operator", "list_events", before="9", **more) == "InvalidArgument"


def test_events_about_one_task_are_those_that_name_it(world: World) -> None:
    task = world.call("a", "assign_task", agent="a1", title="t", description='"task":"x"')["task"]
    other = world.call("a", "assign_task", agent="a2", title="t", description=f"like {task}")[
        "task"
    ]
    world.call("a1", "begin_task", task=task)
    world.call("a1", "note_event", kind="step", task=task, fields={"task": other})
    events = rows(world.call("operator", "list_events", task=task, limit=1000)["events"])
    operations = [event["operation"] for event in events]
    assert "begin" in operations
    assert "own.step" in [event["kind"] for event in events]
    assert not any(event["target_uuid"] == world.uuid("a2") for event in events)


@pytest.mark.parametrize("more", [0.0, 0.0004, 0.0006])
def test_a_paced_stream_of_events_waits_between_pages(world: World, more: float) -> None:
    world.advance(1 - world.clock.time % 1 + more)  # between two milliseconds
    stream = world.ask("operator", "list_events", more=True, last=0, every=2.0)
    before = len(stream.pages)
    world.advance(2)
    world.call("operator", "send", to="a", body="1")
    assert len(stream.pages) == before + 1
    world.call("operator", "send", to="a", body="2")
    world.call("operator", "send", to="a", body="3")
    assert len(stream.pages) == before + 1
    world.advance(2)
    assert len(rows(stream.result()["events"])) == 2


def test_of_a_flood_of_mail_a_stream_lists_the_newest_and_tells_of_the_others(
    world: World,
) -> None:
    """What is no mail is listed whole, and so is mail that was refused."""
    stream = world.ask("operator", "list_events", more=True, last=0, every=0.5, mail_rate=4)
    world.advance(0.5)
    before = len(stream.pages)
    world.call("operator", "send", to="a", body="first")
    for body in "12345":
        world.call("a1", "send", to="a2", body=body)
    world.fault("a1", "send", to="b1", body="hidden")
    world.call("operator", "stop", agent="b")
    world.call("root", "send", to="a", body="last")
    world.advance(0.5)
    first, flood = stream.pages[before:]
    assert (first["skipped"], len(rows(first["events"]))) == (None, 1)
    operations = [event["operation"] for event in rows(flood["events"])]
    assert operations == ["send", "send", "stop", "send"]
    assert [event["allowed"] for event in rows(flood["events"])][1] is False
    assert flood["skipped"] == {"count": 4, "parties": ["a1", "a2"]}


@pytest.mark.parametrize(("every", "listed"), [(0.5, 2), (1.0, 4), (8.0, 4)])
def test_the_rate_of_mail_holds_for_the_time_since_the_last_page_and_a_second_at_most(
    world: World, every: float, listed: int
) -> None:
    stream = world.ask("operator", "list_events", more=True, last=0, every=every, mail_rate=4)
    world.advance(every)
    world.call("operator", "send", to="a", body="first")
    for number in range(9):
        world.call("operator", "send", to="a", body=str(number))
    world.advance(every)
    page = stream.result()
    assert (len(rows(page["events"])), page["skipped"]) == (
        listed, {"count": 9 - listed, "parties": ["a", "operator"]},
    )  # fmt: skip


def test_a_full_page_tells_only_of_mail_before_its_end(world: World) -> None:
    """The next page tells of the others."""
    start = len(numbers(world, limit=1000))
    for body in "123":
        world.call("operator", "send", to="a", body=body)
        world.call("operator", "stop", agent="a1")
    stream = world.ask(
        "operator", "list_events", more=True, after=str(start), every=1.0, mail_rate=1, limit=2
    )
    listed = [event["operation"] for page in stream.pages for event in rows(page["events"])]
    assert listed == ["stop", "stop", "send", "stop"]
    assert [page["skipped"] for page in stream.pages] == [
        {"count": 2, "parties": ["a", "operator"]}, None,
    ]  # fmt: skip


def test_a_rate_of_mail_needs_a_paced_stream(world: World) -> None:
    assert world.fault("operator", "list_events", mail_rate=5) == "InvalidArgument"
    assert world.fault("operator", "list_events", mail_rate=5, every=1.0) == "InvalidArgument"


def test_the_chain_is_checked_in_slices_to_its_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_chain, "SLICE", 3)
    pages = world.ask("operator", "check_events", more=True).pages
    assert len(pages) > 2
    assert all(page["broken_at"] is None for page in pages)
    assert sum(int(str(page["checked"])) for page in pages) == len(numbers(world, limit=1000))
    assert pages[-1]["next"] is None


def test_a_changed_event_breaks_the_chain_at_its_number(world: World) -> None:
    with world.ledger.transaction():
        world.ledger.connection.run("UPDATE events SET body = replace(body, 'spawn', 'spawm')"
                                    " WHERE seq = 3")  # fmt: skip
    assert world.call("operator", "check_events")["broken_at"] == 3
    with world.ledger.transaction():
        world.ledger.connection.run("UPDATE events SET body = replace(body, 'spawm', 'spawn')"
                                    " WHERE seq = 3")  # fmt: skip
    assert world.call("operator", "check_events")["broken_at"] is None


def test_the_operator_sees_what_an_agent_sent_and_what_it_acknowledged(world: World) -> None:
    for number in range(5):
        world.call("a", "send", to="a1", body=f"{number}")
    letters = rows(world.call("a1", "recv")["messages"])
    world.call("a1", "ack", ids=[letters[0]["id"]])
    sent = world.call("operator", "list_messages", agent="a", sent=True, limit=2)
    assert names(sent["messages"], "body") == ["0", "1"]
    rest = world.call("operator", "list_messages", agent="a", sent=True, after=sent["next"])
    assert names(rest["messages"], "body") == ["2", "3", "4"]
    assert rest["next"] is None
    done = world.call("operator", "list_messages", agent="a1", done=True)
    assert names(done["messages"], "body") == ["0"]
    assert world.fault("a1", "list_messages", done=True) == "NotAllowed"
    assert world.fault("operator", "list_messages", agent="a", done=True, sent=True) == (
        "InvalidArgument"
    )


def test_settings_have_their_values_and_defaults(world: World) -> None:
    listed = {row["key"]: row for row in rows(world.call("operator", "get_settings")["settings"])}
    assert listed["limits.depth"] == {
        "key": "limits.depth", "value": 32, "default": 32, "changed": False,
    }  # fmt: skip
    assert world.fault("a", "get_settings") == "NotAllowed"
