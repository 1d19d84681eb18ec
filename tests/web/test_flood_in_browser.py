"""A flood of mail under an open page of the audit log."""

from __future__ import annotations

from fixtures.chromium import Browser
from fixtures.dashboard import RunningDashboard
from fixtures.world import World


def test_the_page_says_how_many_events_it_does_not_show(
    chrome: Browser, web: RunningDashboard
) -> None:
    def flood(world: World) -> None:
        for _ in range(400):
            world.call("operator", "send", to="lead", body="x")

    chrome.open(f"{web.origin}/audit")
    chrome.until_so(lambda: web.app.web.logins.streams)
    assert chrome.text("#unshown") == ""

    web.hived.do(flood)
    web.hived.pass_time(0.1)

    chrome.until("document.getElementById('unshown').textContent.includes('too fast to be shown')")
    number = int(chrome.text("#unshown").split()[0])
    assert 100 <= number < 400
