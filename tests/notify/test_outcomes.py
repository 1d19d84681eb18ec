"""By whom an item was settled: what the last notice of it says, through hived as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from fixtures.approvals import waits
from fixtures.logins import LoginClient, open_login
from fixtures.notify_source import WorldSource
from fixtures.tasks import give
from fixtures.world import World, rows, world

from hive_core.notify.links import LinkedThing
from hive_core.notify.outcomes import SettledItem

SCOPES = ["viewer", "operator", "approver"]


@pytest.fixture(name="made")
def _made() -> Iterator[World]:
    with world(None, "root/ann:lead") as made:
        yield made


@pytest.fixture(name="alice")
def _alice(made: World) -> LoginClient:
    return open_login(made, "alice", SCOPES)


def outcome(made: World, kind: str, id_: str, agent: str, since: float | None = None) -> str:
    since = made.clock.now() if since is None else since
    return asyncio.run(WorldSource(made).outcome(SettledItem(kind, id_, agent, since)))


def ask(made: World) -> str:
    items = [{"prompt": "which colour?", "options": ["red", "green"], "default": "red"}]
    return str(made.call("root", "ask_user", items=items, deadline=60)["question"])


def number_of_last_event(made: World) -> int:
    (event,) = rows(made.call("operator", "list_events", last=1)["events"])
    return int(str(event["seq"]))


def test_a_question_says_who_answered_it(made: World, alice: LoginClient) -> None:
    first, second, third = ask(made), ask(made), ask(made)
    alice.call("answer", question=first, answers=["red"])
    made.call("operator", "answer", question=second, answers=["red"])
    made.call("root", "cancel_question", question=third)
    assert outcome(made, "question", first, "root") == "answered by alice"
    assert outcome(made, "question", second, "root") == "answered by operator"
    assert outcome(made, "question", third, "root") == "withdrawn by root"


def test_a_question_that_ended_at_its_deadline_names_nobody(made: World) -> None:
    id_ = ask(made)
    made.advance(61)
    assert outcome(made, "question", id_, "root", 1e9) == "ended with its default"


def test_an_answer_by_a_link_says_so(made: World) -> None:
    id_ = ask(made)
    links = asyncio.run(WorldSource(made).links(LinkedThing("question", id_, "root")))
    LoginClient(made).call("use_link", secret=links[0].url.rpartition("/")[2])
    assert outcome(made, "question", id_, "root") == "answered by a link"


def test_decisions_say_by_whom_they_were_taken(made: World, alice: LoginClient) -> None:
    approval = waits(made, "root", "ann")
    alice.call("deny", id=approval, why="no")
    task = give(made, "root", "ann", plan_required=True)
    plan = made.call("ann", "create_plan", task=task, steps=[{"title": "one"}])["plan"]
    alice.call("reject_plan", task=task, plan=plan, reason="no")
    assert outcome(made, "approval", approval, "ann") == "denied by alice"
    assert outcome(made, "plan", task, "ann") == "rejected by alice"


def test_an_agent_that_was_down_says_who_started_or_stopped_it(
    made: World, alice: LoginClient
) -> None:
    alice.call("start", agent="ann")
    assert outcome(made, "parked", "ann", "ann") == "started by alice"
    made.call("operator", "stop", agent="root", recursive=True)
    assert outcome(made, "failed", "ann", "ann") == "stopped by operator"
    alice.call("quarantine", agent="ann", reason="odd")
    alice.call("lift_quarantine", agent="ann")
    assert outcome(made, "quarantine", "ann", "ann") == "lifted by alice"


def test_a_call_before_the_item_waited_and_one_about_another_item_do_not_count(
    made: World, alice: LoginClient
) -> None:
    other = ask(made)
    alice.call("answer", question=other, answers=["red"])
    alice.call("start", agent="ann")
    assert outcome(made, "question", "q1", "root") == "settled"
    assert outcome(made, "parked", "root", "root") == "settled"
    assert outcome(made, "parked", "ann", "ann", made.clock.now() + 3600) == "settled"
    assert outcome(made, "alarm", "", "") == "settled"


def test_the_call_is_found_behind_a_thousand_later_events(made: World, alice: LoginClient) -> None:
    id_ = ask(made)
    alice.call("answer", question=id_, answers=["green"])
    for _ in range(700):
        made.call("root", "report_activity", blocked=True)
        made.call("root", "report_activity", blocked=False)
    assert number_of_last_event(made) > 1200
    assert outcome(made, "question", id_, "root") == "answered by alice"
