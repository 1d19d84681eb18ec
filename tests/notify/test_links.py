"""Links of notices: what they offer, through hived as it is and a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from each import for_each
from fixtures.approvals import row as approval_row
from fixtures.approvals import waits
from fixtures.logins import LoginClient
from fixtures.notify_source import WorldSource
from fixtures.tasks import finish, give
from fixtures.world import World, names, world

from hive_core.errors import Conflict, NotFound
from hive_core.model.config.notify import NotifyRoute
from hive_core.notify.items import event_item, todo_items
from hive_core.notify.links import (
    LinkedThing,
    approval_links,
    cancel_links,
    linked_thing,
    plan_links,
    question_links,
    stop_links,
)
from hive_core.notify.notices import (
    Notice,
    NoticeLink,
    RouteState,
    decide_notices,
    hold_events,
)
from hive_core.notify.outcomes import SettledItem
from hive_core.notify.senders import ACTIONS_MOST, ntfy_message

FULL = NotifyRoute(type="ntfy", url="https://x.example", topic="t", text="full")
ENDING = ("cancelled", "stopping")
TITLE = FULL.model_copy(update={"text": "title"})


def notice(kind: str, id_: str, sent: str = "new") -> Notice:
    return Notice.model_validate({
        "kind": sent, "key": f"{kind}:{id_}", "notice_class": "needs-input", "title": "x",
        "item": (kind, id_), "agent": "ann",
    })  # fmt: skip


@for_each(
    "kind, id_, sent, route, thing",
    [
        ("question", "q1", "new", FULL, LinkedThing("question", "q1", "ann")),
        ("question", "q1", "new", TITLE, None),
        ("approval", "a1", "reminder", TITLE, LinkedThing("approval", "a1", "ann")),
        ("approval", "a1", "settled", TITLE, None),
        ("escalation", "q2", "new", TITLE, LinkedThing("escalation", "q2", "ann")),
        ("parked", "ann", "new", TITLE, LinkedThing("parked", "ann", "ann")),
        ("failed", "ann", "settled", FULL, None),
        ("plan", "t1", "new", TITLE, LinkedThing("plan", "t1", "ann", "t1")),
        ("judgement", "t1", "reminder", TITLE, LinkedThing("judgement", "t1", "ann", "t1")),
        ("quarantine", "ann", "new", FULL, None),
        ("task ended", "t1", "new", FULL, None),
        ("", "", "digest", FULL, None),
    ],
)
def test_only_what_waits_has_links_and_answers_only_where_text_may_leave(
    kind: str, id_: str, sent: str, route: NotifyRoute, thing: LinkedThing | None
) -> None:
    assert linked_thing(route, notice(kind, id_, sent)) == thing


def test_a_question_offers_its_first_answers_and_one_of_several_items_none() -> None:
    item = {"prompt": "?", "options": ["red", "green\x1b[2J", "blue"]}
    links = question_links({"items": [item]}, "q1")
    assert [link["label"] for link in links] == ["red", "green⟨U+001B⟩[2J"]
    assert links[1]["parameters"] == {"question": "q1", "answers": ["green\x1b[2J"]}
    assert question_links({"items": [item, item]}, "q1") == []
    assert question_links({"items": [{"prompt": "?", "options": []}]}, "q1") == []


def test_no_link_says_yes() -> None:
    wishes = [
        *approval_links("a1"), *plan_links("t1", "p1"), *stop_links("ann"), *cancel_links("t1"),
    ]  # fmt: skip
    operations = [wish["operation"] for wish in wishes]
    assert operations == ["deny", "reject_plan", "stop", "cancel_task"]
    assert cancel_links("") == []


def test_three_buttons_are_the_most() -> None:
    links = tuple(NoticeLink(label=str(number), url="https://x") for number in range(5))
    message = ntfy_message(
        "t", notice("question", "q1").model_copy(update={"links": links}), "https://d"
    )
    actions = message["actions"]
    assert isinstance(actions, list)
    assert len(actions) == ACTIONS_MOST
    assert actions[0]["label"] == "Open"


@pytest.fixture(name="made")
def _made() -> Iterator[World]:
    with world(None, "root/ann:lead") as made:
        yield made


def test_hived_makes_the_links_and_one_of_them_answers_a_question(made: World) -> None:
    item = {"prompt": "which colour?", "options": ["red", "green"]}
    id_ = str(made.call("root", "ask_user", items=[item])["question"])
    source = WorldSource(made)
    (row,) = [row for row in asyncio.run(source.todo()) if row["kind"] == "question"]
    assert row["id"] == id_
    red, green = asyncio.run(source.links(LinkedThing("question", id_, "ann")))
    assert (red.label, green.label) == ("red", "green")
    LoginClient(made).call("use_link", secret=green.url.rpartition("/")[2])
    details = made.call("operator", "get_question", question=id_)
    assert names(details["items"], "answer") == ["green"]
    late = LoginClient(made).refusal("use_link", secret=red.url.rpartition("/")[2])
    assert isinstance(late, Conflict)


def test_hived_makes_the_links_that_deny_and_reject_and_each_works_once(made: World) -> None:
    source = WorldSource(made)
    approval = waits(made, "root", "ann")
    task = give(made, "root", "ann", plan_required=True)
    plan = made.call("ann", "create_plan", task=task, steps=[{"title": "one"}])["plan"]
    things = {row["kind"]: str(row["id"]) for row in asyncio.run(source.todo())}
    assert things["approval"] == approval
    things["plan"] = task
    for kind, operation in (("approval", "deny"), ("plan", "reject_plan")):
        (link,) = asyncio.run(source.links(LinkedThing(kind, things[kind], "ann")))
        secret = {"secret": link.url.rpartition("/")[2]}
        phone = LoginClient(made)  # it has no login
        assert phone.call("show_link", **secret)["is_current"] is True
        assert phone.call("use_link", **secret)["operation"] == operation
        assert isinstance(phone.refusal("use_link", **secret), NotFound)
    assert approval_row(made, approval).state.value == "denied"
    assert made.call("operator", "get_plan", plan=plan)["state"] == "rejected"


def test_a_link_stops_the_agent_that_escalates_or_failed(made: World) -> None:
    source, phone = WorldSource(made), LoginClient(made)
    made.call("operator", "start", agent="root")
    raised = made.call("root", "escalate", issue="the disk is full", severity="critical")
    rows = asyncio.run(source.todo())
    (item,) = [item for item in todo_items(rows) if item.kind == "escalation"]
    (sent,), _ = decide_notices(TITLE, RouteState(), [item], 1000.0)
    thing = linked_thing(TITLE, sent)
    assert thing == LinkedThing("escalation", str(raised["escalation"]), "root")
    (link,) = asyncio.run(source.links(thing))
    assert link.label == "Stop"
    secret = {"secret": link.url.rpartition("/")[2]}
    shown = phone.call("show_link", **secret)
    assert (shown["operation"], shown["subject"], shown["is_current"]) == ("stop", "root", True)
    phone.call("use_link", **secret)
    assert wanted_state(made, "root") == "stopped"

    made.call("operator", "start", agent="ann")
    (link,) = asyncio.run(source.links(LinkedThing("parked", "ann", "ann")))
    phone.call("use_link", secret=link.url.rpartition("/")[2])
    assert wanted_state(made, "ann") == "stopped"


def use(made: World, link: NoticeLink) -> None:
    """What the reader of a notice does with its button."""
    LoginClient(made).call("use_link", secret=link.url.rpartition("/")[2])


def test_a_link_cancels_the_task_of_a_plan_or_of_a_result_that_waits(made: World) -> None:
    source = WorldSource(made)
    planned = give(made, "operator", "ann", plan_required=True)
    made.call("ann", "create_plan", task=planned, steps=[{"title": "one"}])
    delivered = give(made, "operator", "root", criteria={"text": "It closes."})
    finish(made, "root", delivered)
    items = {item.kind: item for item in todo_items(asyncio.run(source.todo()))}
    for kind, labels in (("plan", ["Reject", "Cancel task"]), ("judgement", ["Cancel task"])):
        (sent,), _ = decide_notices(TITLE, RouteState(), [items[kind]], 1000.0)
        thing = linked_thing(TITLE, sent)
        assert thing is not None
        links = asyncio.run(source.links(thing))
        assert [link.label for link in links] == labels
        use(made, links[-1])
        assert task_state(made, items[kind].id) in ENDING
        item = SettledItem(kind, thing.task, thing.agent, 0.0)
        assert asyncio.run(source.outcome(item)) == "cancelled by a link"


def test_a_link_cancels_the_task_whose_own_budget_is_used_up(made: World) -> None:
    source = WorldSource(made)
    made.call("operator", "start", agent="ann")
    _, cursor = asyncio.run(source.events(None))
    task = give(made, "operator", "ann", budget={"tokens": 10})
    made.call("ann", "report_usage", task=task, tokens_in=10)
    events, _ = asyncio.run(source.events(cursor))
    items = [item for event in events if (item := event_item(event)) and item.task]
    state = hold_events(RouteState(), TITLE, items[-1:])
    (sent,), _ = decide_notices(TITLE, state, [], 1000.0)
    thing = linked_thing(TITLE, sent)
    assert thing == LinkedThing("budget", "ann", "ann", task)
    cancel, stop = asyncio.run(source.links(thing))
    assert (cancel.label, stop.label) == ("Cancel task", "Stop")
    use(made, cancel)
    assert task_state(made, task) in ENDING
    made.call("ann", "finish_task", task=task, status="failed", summary="x")
    assert [link.label for link in asyncio.run(source.links(thing))] == ["Stop"]


def task_state(made: World, task: str) -> str:
    return made.ledger.tasks.require(task).state.value


def wanted_state(made: World, agent: str) -> str:
    run = made.ledger.runs.get(made.uuid(agent))
    assert run is not None
    return str(run.wanted)


def test_events_begin_at_the_first_start_and_tell_of_ended_tasks(made: World) -> None:
    source = WorldSource(made)
    _, cursor = asyncio.run(source.events(None))
    task = made.call("operator", "assign_task", agent="ann", title="t", description="d")["task"]
    made.call("ann", "begin_task", task=task)
    made.call("ann", "finish_task", task=task, status="success", summary="ok")
    events, after = asyncio.run(source.events(cursor))
    items = [item for event in events if (item := event_item(event)) is not None]
    assert [(item.key, item.notice_class, item.agent) for item in items] == [
        (f"task:{task}", "done", "ann")
    ]
    assert asyncio.run(source.events(after)) == ([], after)
