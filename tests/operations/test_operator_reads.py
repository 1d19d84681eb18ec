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


def test_a_paced_stream_of_events_waits_between_pages(world: World) -> None:
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
