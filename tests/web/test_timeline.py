"""The timeline: spans of events, a history without a gap, and the page that shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from fixtures.dashboard import FakeBrowser, RunningDashboard
from fixtures.hostile_text import HOSTILE

from hive_core.web.event_history import FACTS_MOST, Event
from hive_core.web.timeline import (
    History,
    TimelineSpan,
    collect_spans,
    merge_times,
    read_facts,
)


def event(seq: int, kind: str, operation: str = "", **fields: object) -> Event:
    """An event of lead, `seq` seconds after the beginning."""
    parties = {"caller": "lead", "caller_uuid": "L", "target": "lead", "target_uuid": "L"}
    return {"seq": seq, "time": float(seq), "kind": kind, "operation": operation, **parties,
            "reason": "it ended", "fields": fields}  # fmt: skip


def spans(*events: Event) -> list[tuple[str, float | None, float | None, bool]]:
    facts = (fact for row in events for fact in read_facts(row))
    return [(span.kind, span.start, span.end, span.is_fault) for span in collect_spans(facts)]


def test_a_change_of_activity_ends_one_span_and_begins_the_next() -> None:
    works = {**event(2, "activity"), "fields": {"from": "idle", "to": "running", "tasks": ["t"]}}
    waits = {**event(5, "activity"), "fields": {"from": "running", "to": "blocked", "tasks": []}}

    assert spans(works, waits) == [("work", 2, 5, False), ("wait", 5, None, False)]


def test_uses_of_tools_at_the_same_time_are_told_apart_by_their_grants() -> None:
    first, second = (event(at, "record", "use_tool", tool="bash", grant=f"g{at}") for at in (1, 2))
    ended = event(4, "record", "end_tool", tool="bash", grant="g1", status="failed")

    assert spans(first, second, ended, event(6, "tool", grant="g2")) == [
        ("tool", 1, 4, True), ("tool", 2, 6, True),
    ]  # fmt: skip


def test_calls_of_models_and_turns_begin_before_their_event() -> None:
    call = event(9, "model", latency_ms=2500, status="done")
    turn = event(10, "record", "keep_turn", turn=1, status="error", began=3.0)

    assert spans(call, turn) == [("model", 6.5, 9, False), ("turn", 3, 10, True)]


def test_what_began_before_the_first_event_has_no_start() -> None:
    assert spans(event(7, "crash")) == [("run", None, 7, True)]
    assert spans(event(7, "start")) == [("run", 7, None, False)]


def test_times_that_touch_are_one_range() -> None:
    def span(start: float | None, end: float | None) -> TimelineSpan:
        return TimelineSpan("work", "L", "lead", start, end, "", is_fault=False, seq=1)

    times = [span(10, 14), span(14, 20), span(90, None), span(None, 2)]

    assert merge_times(times, 0, 100, 50) == [range(2), range(5, 11), range(45, 50)]


def test_a_history_grows_to_both_sides_and_begins_anew_after_a_gap() -> None:
    history = History()
    history.take([event(5, "start"), event(6, "change")])
    history.take([event(6, "change"), event(7, "exit")])
    history.prepend([event(4, "exit"), event(3, "start")], 2)

    assert [fact.seq for fact in history.facts] == [3, 4, 5, 7]
    assert history.reaches(3.5)
    assert not history.reaches(1.0)

    history.take([event(20, "start")], is_adjacent=False)
    assert [fact.seq for fact in history.facts] == [20]


def test_a_history_has_a_bound() -> None:
    history = History()
    history.take([event(at + 1, "start") for at in range(FACTS_MOST + 5)])

    assert len(history.facts) == FACTS_MOST
    assert history.first == 6


@pytest.fixture
def timeline(browser: FakeBrowser, web: RunningDashboard) -> Iterator[FakeBrowser]:
    """A browser whose dashboard has the clock of its hive."""
    before = web.app.web
    now = web.hived.do(lambda world: world.clock.now())
    web.app.web = replace(before, clock=lambda: now + 60)
    yield browser
    web.app.web = before


def keep(web: RunningDashboard, agent: str, conversation: str, status: str = "done") -> None:
    now = web.hived.do(lambda world: world.clock.now())
    web.hived.call(
        agent, "keep_turn", conversation=conversation, turn=1, status=status, began=now - 4
    )
    last = web.hived.do(lambda world: world.ledger.events.last)
    while web.app.web.hub.history.newest < last:  # the dashboard follows at a pace of its own
        web.ask("GET", "/badge")


def table(text: str) -> str:
    return text.partition("<table>")[2]


def test_the_page_shows_turns_as_lanes_and_rows(
    timeline: FakeBrowser, web: RunningDashboard
) -> None:
    keep(web, "lead", "main", "error")

    page = timeline.get("/timeline").text

    assert "turn 1 of main: error" in table(page)
    assert "turn, failed" in table(page)
    assert '<path class="t-turn"' in page
    assert "<title>lead: " in page
    assert "not read yet" not in page


def test_the_page_shows_a_branch_or_a_kind(timeline: FakeBrowser, web: RunningDashboard) -> None:
    keep(web, "w-9", "of-nine")
    keep(web, "carl", "of-carl")

    branch = table(timeline.get("/timeline?under=lead").text)
    assert "of-nine" in branch
    assert "of-carl" not in branch
    assert "of-nine" not in table(timeline.get("/timeline?show=wait").text)
    assert "Nothing." in table(timeline.get("/timeline?until=1000&window=nonsense").text)


def test_hostile_text_on_the_timeline_stays_text(
    timeline: FakeBrowser, web: RunningDashboard
) -> None:
    names = ["".join(char for char in text if "!" <= char <= "~")[:64] for text in HOSTILE]
    for name in filter(None, names):
        keep(web, "w-10", name)

    page = timeline.get("/timeline/rows").text

    assert "<script" not in page
    assert "<img" not in page
    assert page.count("<a ") == page.count('<a href="/') + page.count(
        '<a class="to" href="/agents/'
    ) + page.count("<a data-key=")
    assert "&lt;script&gt;" in page


def test_a_change_is_a_frame_of_the_timeline(timeline: FakeBrowser, web: RunningDashboard) -> None:
    after = web.app.web.hub.frames.newest
    connection = web.connect()
    path = f"/live?topics=timeline&after={after}"
    connection.sendall(web.request("GET", path, cookie=timeline.cookie, accept_encoding="identity"))
    keep(web, "lead", "live")
    received = b""
    while b"event: timeline" not in received or not received.endswith(b"\n\n\r\n"):
        received += connection.recv(1 << 16)
    connection.close()
    data = received.partition(b"event: timeline")[2].partition(b"data: ")[2]
    assert json.loads(data.partition(b"\n")[0]) == {}
