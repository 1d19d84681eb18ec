"""Audit: how many events, whether their chain is right, older pages and filters."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from urllib.parse import quote

from fixtures.dashboard import FakeBrowser, RunningDashboard
from fixtures.world import World
from typing_extensions import override

from hive_core.web.chain_check import ChainCheck
from hive_core.web.logins import BrowserLogin

_SEQ = re.compile(r'<li id="e-(\d+)"')


def rows_of(page: str) -> list[int]:
    return [int(seq) for seq in _SEQ.findall(page)]


def check_anew(web: RunningDashboard) -> None:
    """A dashboard that has not checked the log yet."""
    web.app.web = replace(web.app.web)


def edit(web: RunningDashboard, before: str, after: str) -> None:
    """Change an event behind the back of the daemon."""
    sql = "UPDATE events SET body = replace(body, ?, ?) WHERE seq = 3"

    def change(world: World) -> None:
        with world.ledger.transaction():
            assert world.ledger.connection.run(sql, (before, after))

    web.hived.do(change)


def newest(web: RunningDashboard) -> int:
    return web.hived.do(lambda world: world.ledger.events.last)


def read_all(browser: FakeBrowser, path: str) -> list[int]:
    """The events of a view on all its pages."""
    events: list[int] = []
    while path:
        page = browser.get(path).text
        events += rows_of(page)
        older = re.search(r'href="(/audit\?[^"]*before=[^"]*)"', page)
        path = older.group(1).replace("&amp;", "&") if older else ""
    return events


def test_the_page_counts_the_events_and_checks_their_chain(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    check_anew(web)
    last = newest(web)

    page = browser.get("/audit").text

    match = re.search(r"<span>([0-9,]+) events</span>", page)
    assert match
    assert last <= int(match.group(1).replace(",", "")) <= newest(web)
    assert "chain ok (" in page
    assert last <= web.app.web.chain.state.last <= newest(web)


class HastyCheck(ChainCheck):
    """Nobody waits for the end of a check."""

    @override
    async def refresh(self, login: BrowserLogin, seconds: float) -> None:
        await ChainCheck.refresh(self, login, 0.0)


def test_a_check_that_ends_while_the_page_is_read_is_shown(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    check_anew(web)
    object.__setattr__(web.app.web, "chain", HastyCheck(web.app.web.clock))
    assert "chain ok (" in browser.get("/audit").text


def test_an_event_that_was_changed_is_named(browser: FakeBrowser, web: RunningDashboard) -> None:
    check_anew(web)
    assert "chain ok" in browser.get("/audit").text

    edit(web, '"time":1', '"time":2')
    try:
        check_anew(web)
        assert "chain broken at event 3" in browser.get("/audit").text
    finally:
        edit(web, '"time":2', '"time":1')
    assert "chain ok" in browser.get("/audit").text


def test_an_event_that_is_none_any_more_hides_no_other(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    body = web.hived.do(lambda world: str(world.ledger.connection.value(
        "SELECT body FROM events WHERE seq = 3"
    )))  # fmt: skip
    edit(web, body, "{}")
    try:
        events = read_all(browser, "/audit")
        oldest = browser.get("/audit?before=5").text
        again = read_all(browser, "/audit?from=2001-01-01")
    finally:
        edit(web, "{}", body)
    assert events == list(range(events[0], 0, -1))
    assert again == events
    assert rows_of(oldest) == [4, 3, 2, 1]
    row = oldest.partition('<li id="e-3"')[2].partition("</li>")[0]
    assert "damaged" in row
    assert "somebody changed its row in the ledger" in row


def test_events_that_come_are_checked_too(browser: FakeBrowser, web: RunningDashboard) -> None:
    check_anew(web)
    browser.get("/audit")
    before = web.app.web.chain.state.last
    web.hived.call("operator", "send", to="lead", body="more")

    page = browser.get("/audit").text

    assert "chain ok" in page
    assert web.app.web.chain.state.last > before


def test_each_event_is_on_one_page(browser: FakeBrowser, web: RunningDashboard) -> None:
    def write(world: World) -> None:
        for number in range(250):
            world.call("operator", "send", to="carl", body=f"letter {number}")

    web.hived.do(write)
    last = newest(web)

    events = read_all(browser, "/audit")

    assert len(events) >= 250
    assert events[0] >= last
    assert events == sorted(set(events), reverse=True)
    assert events[-1] == 1


def test_a_filter_goes_on_over_older_pages(browser: FakeBrowser, web: RunningDashboard) -> None:
    task = str(
        web.hived.call("operator", "assign_task", agent="w-9", title="Dig", description="x")["task"]
    )
    for number in range(3):
        web.hived.call("w-9", "report_progress", task=task, text=f"step {number}")
    web.hived.call("operator", "send", to="lead", body="of no task")

    events = read_all(browser, f"/audit?task={task}")

    def facts(world: World) -> set[str]:
        return {world.ledger.events.get(seq).operation for seq in events}  # type: ignore[union-attr]  # they are there

    assert {"assign_task", "report_progress"} <= web.hived.do(facts)
    assert "send" not in web.hived.do(facts)


def test_an_account_has_only_its_own_events(browser: FakeBrowser, web: RunningDashboard) -> None:
    web.hived.call("operator", "send", to="lead", body="of the host")
    browser.post("/agents/lead/say", {"body": "of alice"})

    page = browser.get("/audit?account=alice").text

    rows = page.partition('id="audit"')[2].partition("</ol>")[0].split("<li ")[1:]
    assert rows
    assert all("alice" in row for row in rows)
    assert any("<bdi>send</bdi>" in row for row in rows)
    assert rows_of(browser.get("/audit?account=nobody").text) == []


def test_times_cut_the_log(browser: FakeBrowser, web: RunningDashboard) -> None:
    web.hived.call("operator", "send", to="lead", body="before")
    web.hived.pass_time(3600.0)
    middle = web.hived.do(lambda world: world.clock.now())
    web.hived.pass_time(3600.0)
    web.hived.call("operator", "send", to="lead", body="after")
    moment = quote(time.strftime("%Y-%m-%dT%H:%M", time.gmtime(middle)))

    later = read_all(browser, f"/audit?from={moment}")
    earlier = read_all(browser, f"/audit?until={moment}")

    assert later
    assert earlier
    assert min(later) == max(earlier) + 1
    assert min(earlier) == 1
    assert read_all(browser, f"/audit?from={moment}&until={moment}") == []


def test_a_filter_that_is_wrong_is_said(browser: FakeBrowser) -> None:
    assert "is not a time such as" in browser.get("/audit?from=yesterday").text
    assert "no events of kind" in browser.get("/audit?kinds=nonsense").text
    assert "is not the number" in browser.get("/audit?before=x").text
