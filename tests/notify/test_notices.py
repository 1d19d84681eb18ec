"""Which notices are due: classes, quiet hours, reminders and digests, decided with values."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hive_core.model.config.notify import CLASSES, NotifyRoute, NotifySettings, QuietHours
from hive_core.notify.items import NoticeItem, Row, event_item, silent_item, todo_items
from hive_core.notify.notices import (
    WINDOW,
    WINDOW_MOST,
    RouteState,
    decide_notices,
    due_reminders,
    hold_events,
)

NOON = datetime(2026, 11, 24, 12, 0, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
NIGHT = datetime(2026, 11, 24, 23, 0, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
ROUTE = NotifyRoute(type="ntfy", url="https://ntfy.example", topic="t")
QUIET = ROUTE.model_copy(update={"quiet": "22:00-07:00 Europe/Berlin"})
HOUR = 3600.0


def question(number: int = 1, agent: str = "ann") -> NoticeItem:
    id_ = f"q{number}"
    return NoticeItem(f"question:{id_}", "question", "needs-input", agent, "which colour?", id_)


def kinds(route: NotifyRoute, state: RouteState, *items: NoticeItem, now: float) -> list[str]:
    return [notice.kind for notice in decide_notices(route, state, items, now)[0]]


# Classes


def test_what_waits_has_a_class_by_its_kind() -> None:
    rows: list[Row] = [
        {"kind": "question", "id": "q1", "agent": "ann", "text": "why?"},
        {"kind": "escalation", "id": "e1", "agent": "ann", "text": "critical: disk"},
        {"kind": "escalation", "id": "e2", "agent": "ann", "text": "info: fine"},
        {"kind": "approval", "id": "a1", "agent": "bob", "text": "restart"},
        {"kind": "parked", "id": "bob", "agent": "bob", "text": "5 failures", "since": 5.0},
        {"kind": "alarm", "id": "", "agent": "", "text": "the disk is full"},
        {"kind": "mail", "id": "operator", "agent": "", "text": "3"},
    ]
    assert [(item.key, item.notice_class) for item in todo_items(rows)] == [
        ("question:q1", "needs-input"), ("escalation:e1", "urgent"),
        ("escalation:e2", "needs-input"), ("approval:a1", "needs-input"),
        ("parked:bob:5.0", "failed"), ("alarm:the disk is full", "urgent"),
    ]  # fmt: skip


def test_an_alarm_about_an_agent_is_sent_by_the_routes_of_other_agents_too() -> None:
    rows: list[Row] = [{"kind": "alarm", "id": "", "agent": "bob", "text": "bob failed 3 times"}]
    (item,) = todo_items(rows)
    assert item.is_for(ROUTE.model_copy(update={"agents": ("lead",)}))
    assert item.title(ROUTE) == "hive: hived raised an alarm about bob"


@for_each("kind, title", [
    ("question", "bob asks a question"), ("escalation", "bob escalates a problem"),
    ("plan", "bob's plan waits for your approval"),
    ("judgement", "bob's result waits for your verdict"),
    ("approval", "a change of bob waits for your approval"), ("failed", "bob has failed"),
    ("parked", "bob is parked"), ("quarantine", "bob is in quarantine"),
    ("alarm", "hived raised an alarm about bob"),
])  # fmt: skip
def test_the_title_of_what_waits_is_a_sentence(kind: str, title: str) -> None:
    (item,) = todo_items([{"kind": kind, "id": "bob", "agent": "bob", "text": "x", "since": 1.0}])
    assert item.title(ROUTE) == f"hive: {title}"
    silent = item.title(ROUTE.model_copy(update={"text": "none"}))
    assert silent == f"hive has a notice: {item.notice_class}"


@for_each("row, title", [
    ({"kind": "alarm", "text": "the disk is full"}, "hived raised an alarm about this host"),
    ({"kind": "refused_commit", "id": "c0ffee"}, "hived refused a commit"),
    ({"kind": "approval", "id": "a1"}, "a change of this host waits for your approval"),
])  # fmt: skip
def test_the_title_of_what_is_about_no_agent_names_the_host(row: Row, title: str) -> None:
    (item,) = todo_items([{"agent": "", **row}])
    assert item.title(ROUTE) == f"hive: {title}"


@for_each("operation, title", [
    ("low", "ann's budget runs low"), ("used_up", "ann's budget is used up"),
    ("owed", "ann's budget was overdrawn"),
    ("stopped", "ann's budget is used up, and its work is stopped"),
])  # fmt: skip
def test_the_title_of_a_budget_says_what_happened_to_it(operation: str, title: str) -> None:
    item = event_item({"seq": 5, "kind": "budget", "operation": operation, "target": "ann"})
    assert item is not None
    assert item.title(ROUTE) == f"hive: {title}"


def test_the_title_of_a_tasks_end_says_how_it_ended_also_when_it_was_held() -> None:
    fields = {"task": "t1", "assigner": "operator", "state": "done", "status": "partial"}
    task = {"seq": 4, "kind": "task", "target": "ann", "operation": "finish", "fields": fields}
    item = event_item({**task, "reason": "half of it"})
    assert item is not None
    state = hold_events(RouteState(), ROUTE, [item])
    (notice,), _ = decide_notices(ROUTE, state, [], NOON)
    assert notice.title == "hive: ann's task ended: partial"


def test_the_title_of_a_silent_hived_is_a_sentence() -> None:
    assert silent_item().title(ROUTE) == "hive: hived does not answer"


def test_ended_tasks_of_the_operator_and_budgets_are_told() -> None:
    task = {"seq": 4, "kind": "task", "target": "ann", "operation": "finish", "reason": "",
            "fields": {"task": "t1", "assigner": "operator", "state": "done"}}  # fmt: skip
    item = event_item(task)
    assert item is not None
    assert (item.key, item.notice_class) == ("task:t1", "done")
    assert event_item({**task, "fields": {**task["fields"], "assigner": "u1"}}) is None  # type: ignore[dict-item]  # JSON
    assert event_item({**task, "fields": {**task["fields"], "state": "in_progress"}}) is None  # type: ignore[dict-item]  # JSON
    used_up = {
        "seq": 5, "kind": "budget", "operation": "used_up", "target": "ann", "reason": "empty",
    }  # fmt: skip
    budget = event_item(used_up)
    assert event_item({**used_up, "operation": "reserved"}) is None
    assert budget is not None
    assert budget.notice_class == "budget"


@for_each(
    "text, title, body, place",
    [("none", "hive has a notice: needs-input", "", ""),
     ("title", "hive: ann asks a question", "", "/questions/q1"),
     ("full", "hive: ann asks a question", "which colour?", "/questions/q1")],
)  # fmt: skip
def test_a_route_says_what_leaves_the_host(text: str, title: str, body: str, place: str) -> None:
    route = ROUTE.model_copy(update={"text": text})
    (notice,), _ = decide_notices(route, RouteState(), [question()], NOON)
    assert (notice.title, notice.body, notice.place) == (title, body, place)


@for_each(
    "kind, id_, place",
    [("approval", "a1", "/approvals/a1"), ("plan", "t1", "/plans/t1"),
     ("parked", "bob", "/agents/bob"), ("question", "a/../b", "/questions/a%2F..%2Fb"),
     ("alarm", "", ""), ("silent", "", "")],
)  # fmt: skip
def test_a_notice_leads_to_the_page_of_its_item(kind: str, id_: str, place: str) -> None:
    item = NoticeItem("k", kind, "needs-input", "bob", "x", id_)
    (notice,), _ = decide_notices(ROUTE, RouteState(), [item], NOON)
    assert notice.place == place


def test_a_route_gets_its_classes_and_agents_alone() -> None:
    done = ROUTE.model_copy(update={"classes": ("done",)})
    assert kinds(done, RouteState(), question(), now=NOON) == []
    of_bob = ROUTE.model_copy(update={"agents": ("bob",)})
    assert kinds(of_bob, RouteState(), question(), silent_item(), now=NOON) == ["new"]


# Times


def test_an_item_is_sent_once_reminded_and_then_settled() -> None:
    state, log = RouteState(), list[tuple[float, str]]()
    for minute in range(0, 12 * 60, 5):
        waiting = [question()] if minute < 11 * 60 else []
        notices, state = decide_notices(ROUTE, state, waiting, NOON + minute * 60)
        log += [(minute / 60, notice.kind) for notice in notices]
    assert log == [(0, "new"), (0.25, "reminder"), (1, "reminder"), (5, "reminder"),
                   (9, "reminder"), (11, "settled")]  # fmt: skip


def test_quiet_hours_hold_all_but_urgent_items_until_they_end() -> None:
    events = hold_events(
        RouteState(), QUIET, [NoticeItem("task:1", "task ended", "done", "ann", "success")]
    )
    notices, state = decide_notices(QUIET, events, [question(), silent_item()], NIGHT)
    assert [notice.notice_class for notice in notices] == ["urgent"]
    notices, state = decide_notices(QUIET, state, [question()], NIGHT + 9 * HOUR)
    assert sorted(notice.kind for notice in notices) == ["new", "new", "settled"]
    assert decide_notices(QUIET, state, [question()], NIGHT + 9 * HOUR + 1)[0] == []


def test_reminders_that_fell_into_the_night_come_once() -> None:
    _, state = decide_notices(QUIET, RouteState(), [question()], NIGHT - 1.5 * HOUR)
    _, state = decide_notices(QUIET, state, [question()], NIGHT - 0.4 * HOUR)  # 2 of 2
    assert kinds(QUIET, state, question(), now=NIGHT + 4 * HOUR) == []
    assert kinds(QUIET, state, question(), now=NIGHT + 9 * HOUR) == ["reminder"]


def test_more_than_ten_in_ten_minutes_are_one_digest() -> None:
    items = [question(number) for number in range(25)]
    notices, state = decide_notices(ROUTE, RouteState(), items, NOON)
    assert [notice.kind for notice in notices] == ["digest"]
    assert notices[0].title == "hive has 25 notices: 25 needs-input"
    more = [question(number) for number in range(25, 60)]
    assert kinds(ROUTE, state, *items, *more, now=NOON + 60) == []
    later = decide_notices(ROUTE, state, [*items, *more], NOON + WINDOW)[0]
    assert [notice.title for notice in later] == ["hive has 35 notices: 35 needs-input"]


def test_reminders_beyond_ten_in_ten_minutes_make_no_digest_of_nothing() -> None:
    first = [question(0)]
    _, state = decide_notices(ROUTE, RouteState(), first, NOON)
    items = [question(number) for number in range(10)]
    notices, state = decide_notices(ROUTE, state, items, NOON + HOUR)
    assert len(notices) == 10
    assert len(state.sent) == 10
    notices, state = decide_notices(ROUTE, state, [*items, silent_item()], NOON + HOUR + 1)
    assert [notice.notice_class for notice in notices] == ["urgent"]
    assert kinds(ROUTE, state, *items, silent_item(), now=NOON + HOUR + 2) == []


@given(
    steps=st.lists(
        st.tuples(st.integers(1, 40_000), st.sets(st.integers(0, 60), max_size=60)), max_size=30
    ),
    quiet=st.booleans(),
)
def test_each_item_is_told_at_least_once_and_never_more_than_eleven_notices_in_ten_minutes(
    steps: list[tuple[int, set[int]]],
    quiet: bool,  # noqa: FBT001 - drawn
) -> None:
    route, state, now = QUIET if quiet else ROUTE, RouteState(), NOON
    hours = route.quiet_hours
    sent: list[float] = []
    for seconds, numbers in steps:
        now += seconds
        waiting = [question(number) for number in numbers]
        notices, state = decide_notices(route, state, waiting, now)
        loud = [notice for notice in notices if notice.kind in ("new", "digest")]
        if hours is not None and hours.contains(now):
            assert loud == []
        sent += [now for _ in loud]
        assert sum(at > now - WINDOW for at in sent) <= WINDOW_MOST + 1
        assert set(state.shown) <= {item.key for item in waiting}
    last = [question(number) for number in steps[-1][1]] if steps else []
    for _ in range(200):
        now += 600
        _, state = decide_notices(route, state, last, now)
    assert {item.key for item in last} == set(state.shown)


@given(age=st.floats(0, 10_000_000), more=st.floats(0, 100_000))
def test_reminders_only_grow(age: float, more: float) -> None:
    assert due_reminders(0.0, age) <= due_reminders(0.0, age + more)
    assert due_reminders(0.0, age) <= 2 + age // 14_400


# Quiet hours


def test_quiet_hours_are_those_of_their_zone_also_when_clocks_change() -> None:
    hours = QuietHours("22:00-07:00 Europe/Berlin")
    zone = ZoneInfo("Europe/Berlin")
    for day in (datetime(2026, 3, 28, 23, tzinfo=zone), datetime(2026, 10, 24, 23, tzinfo=zone)):
        end = datetime.fromtimestamp(hours.end_after(day.timestamp()), zone)
        assert (end.hour, end.minute, end.day) == (7, 0, day.day + 1)


@given(at=st.floats(1.6e9, 2.0e9), start=st.integers(0, 23), end=st.integers(0, 23))
def test_quiet_hours_end_at_the_first_moment_outside(at: float, start: int, end: int) -> None:
    if start == end:
        return
    hours = QuietHours(f"{start:02}:00-{end:02}:00 America/New_York")
    over = hours.end_after(at)
    assert at <= over <= at + 25 * HOUR
    assert not hours.contains(over)
    if hours.contains(at) and over > at + 2:
        assert hours.contains(over - 1)


WRONG = (
    "", "22:00", "22:00-22:00 UTC", "25:00-01:00 UTC", "1:00-2:00 UTC", "22:00-07:00 Mars/Base",
    "22:00-07:00 ../etc/passwd",
)  # fmt: skip


@for_each("text", WRONG)
def test_wrong_quiet_hours_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|has no hours|names no time zone"):
        QuietHours(text)


@for_each(
    "route, fault",
    [
        ({"type": "ntfy", "url": "https://x"}, "needs `topic`"),
        ({"type": "webhook"}, "needs `url`"),
        ({"type": "apprise", "url": "https://x"}, "in the secret"),
        ({"type": "webhook", "url": "https://user:pw@x"}, "belongs into a secret"),
        ({"type": "webhook", "url": "https://x", "classes": ["none"]}, "Input should be"),
        ({"type": "webhook", "url": "https://x", "quiet": "always"}, "HH:MM-HH:MM ZONE"),
        ({"type": "pigeon"}, "Input should be"),
    ],
)
def test_a_wrong_route_is_refused_with_its_key(route: dict[str, object], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault) as refused:
        NotifySettings.model_validate({"routes": {"phone": route}})
    assert refused.value.errors()[0]["loc"][:2] == ("routes", "phone")
    assert set(CLASSES) == {"needs-input", "failed", "budget", "done", "urgent"}
