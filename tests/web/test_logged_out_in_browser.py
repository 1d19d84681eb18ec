"""A tab whose login has ended says so, asks no more, and shows nothing that is not of the page."""

from __future__ import annotations

import pytest
from fixtures.chromium import Browser
from fixtures.dashboard import RunningDashboard

COUNT_STREAMS = """
const Real = EventSource;
window.opened = 0;
window.EventSource = class extends Real {
  constructor(...values) { super(...values); opened += 1; }
};
"""
COUNT_TICKS = "window.ticks = 0; setInterval(() => { ticks += 1; ahead += 6000; }, 1000);"


@pytest.mark.usefixtures("coverage")
def test_a_tab_whose_login_has_ended_says_so(chrome: Browser, web: RunningDashboard) -> None:
    chrome.open(f"{web.origin}/tasks")
    chrome.until_so(lambda: web.app.web.logins.streams)
    web.hived.end_logins()
    chrome.until_so(lambda: not web.app.web.logins.streams)
    chrome.until(
        "(window.ahead += 6000,"
        " document.getElementById('banner').textContent.includes('This login has ended'))"
    )

    chrome.run(COUNT_STREAMS + COUNT_TICKS)
    chrome.run("fetch('/tasks/rows').then((response) => { window.answer = response.status; })")
    chrome.until("window.answer === 401 && ticks >= 3")
    assert chrome.run("return window.opened") == 0, "it opens no stream any more"
    assert all("401" in text for text in chrome.complaints())
