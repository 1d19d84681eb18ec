"""What *Cost* says of the last hour is all of it, or the page says that it is not."""

from __future__ import annotations

from fixtures.dashboard import FakeBrowser, RunningDashboard

from hive_core.web.event_history import FACTS_MOST, Event
from hive_core.web.spending import HOUR, Spending, Use


def event(seq: int, time: float, operation: str = "send") -> Event:
    return {"seq": seq, "time": time, "kind": "record", "operation": operation, "fields": {}}


def test_an_hour_without_a_use_is_known_by_any_older_event() -> None:
    """Else each page would read on to the first use that there ever was."""
    spending = Spending()
    spending.take([event(50, 9000.0)])
    assert not spending.reaches(8000.0)
    spending.prepend([event(49, 8500.0), event(48, 7500.0)], 48)
    assert (list(spending.facts), spending.reaches(8000.0)) == ([], True)
    assert not spending.reaches(7000.0)


def test_uses_that_are_not_kept_are_not_known() -> None:
    spending = Spending()
    spending.take([event(at + 1, 1000.0 + at, "report_usage") for at in range(FACTS_MOST + 5)])
    assert spending.reaches(1005.0)
    assert not spending.reaches(1004.0)


def test_a_page_that_has_not_read_the_whole_hour_says_so(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    web.hived.call("operator", "allocate_budget", agent="lead", kind="tokens", amount=100_000)
    assert "is not counted" not in browser.get("/cost").text
    now, hub = web.app.web.clock(), web.app.web.hub
    before, full = hub.spending, Spending(first=10_000, first_time=now - HOUR / 2, newest=10_000)
    use = Use(10_000, now, "A", "m", 1, 0, 0, is_measured=True)
    full.facts.extend([use] * FACTS_MOST)
    hub.spending = full
    try:
        assert "is not counted: it is more than hive-web keeps" in browser.get("/cost").text
        assert "is not counted" in browser.get("/cost/rows").text
    finally:
        hub.spending = before
