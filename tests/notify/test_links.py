"""Links of notices: what they offer, through hived as it is and a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.approvals import row as approval_row
from fixtures.approvals import waits
from fixtures.logins import LoginClient, open_login
from fixtures.tasks import give
from fixtures.world import World, names, world
from typing_extensions import override

from hive_core.errors import Conflict, NotFound
from hive_core.model.config.notify import NotifyRoute
from hive_core.notify.items import event_item
from hive_core.notify.links import approval_links, linked_thing, plan_links, question_links
from hive_core.notify.notices import Notice, NoticeLink
from hive_core.notify.senders import ACTIONS_MOST, ntfy_message
from hive_core.notify.source import LoginSource
from hive_core.varlink import Message

FULL = NotifyRoute(type="ntfy", url="https://x.example", topic="t", text="full")
TITLE = FULL.model_copy(update={"text": "title"})
SAYS_NO = {"deny", "reject_plan", "answer"}


def notice(key: str, kind: str = "new") -> Notice:
    return Notice.model_validate(
        {"kind": kind, "key": key, "notice_class": "needs-input", "title": "x"}
    )


@pytest.mark.parametrize(
    ("key", "kind", "route", "thing"),
    [
        ("question:q1", "new", FULL, ("question", "q1")),
        ("question:q1", "new", TITLE, None),
        ("approval:a1", "reminder", TITLE, ("approval", "a1")),
        ("approval:a1", "settled", TITLE, None),
        ("failed:ann:5.0", "new", FULL, None),
        ("digest:5", "digest", FULL, None),
    ],
)
def test_only_what_waits_has_links_and_answers_only_where_text_may_leave(
    key: str, kind: str, route: NotifyRoute, thing: tuple[str, str] | None
) -> None:
    assert linked_thing(route, notice(key, kind)) == thing


def test_a_question_offers_its_first_answers_and_one_of_several_items_none() -> None:
    item = {"prompt": "?", "options": ["red", "green\x1b[2J", "blue"]}
    links = question_links({"items": [item]}, "q1")
    assert [link["label"] for link in links] == ["red", "green⟨U+001B⟩[2J"]
    assert links[1]["parameters"] == {"question": "q1", "answers": ["green\x1b[2J"]}
    assert question_links({"items": [item, item]}, "q1") == []
    assert question_links({"items": [{"prompt": "?", "options": []}]}, "q1") == []


def test_no_link_says_yes() -> None:
    wishes = [*approval_links("a1"), *plan_links("t1", "p1")]
    assert {wish["operation"] for wish in wishes} <= SAYS_NO


def test_three_buttons_are_the_most() -> None:
    links = tuple(NoticeLink(label=str(number), url="https://x") for number in range(5))
    message = ntfy_message("t", notice("q:1").model_copy(update={"links": links}), "https://d")
    actions = message["actions"]
    assert isinstance(actions, list)
    assert len(actions) == ACTIONS_MOST
    assert actions[0]["label"] == "Open"


class WorldSource(LoginSource):
    """The source over a login in this process, with the scope of hive-notify."""

    def __init__(self, made: World) -> None:
        super().__init__(Path("/nowhere"), "")
        self._client = open_login(made, "hive-notify", ["notifier"])

    @override
    async def call(self, operation: str, parameters: Message) -> Message:
        return self._client.call(operation, **parameters)


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
    red, green = asyncio.run(source.links("question", id_))
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
        (link,) = asyncio.run(source.links(kind, things[kind]))
        secret = {"secret": link.url.rpartition("/")[2]}
        phone = LoginClient(made)  # it has no login
        assert phone.call("show_link", **secret)["is_current"] is True
        assert phone.call("use_link", **secret)["operation"] == operation
        assert isinstance(phone.refusal("use_link", **secret), NotFound)
    assert approval_row(made, approval).state.value == "denied"
    assert made.call("operator", "get_plan", plan=plan)["state"] == "rejected"


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
