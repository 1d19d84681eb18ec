"""A page that asks before an action names exactly those whom it is about."""

from __future__ import annotations

from fixtures.dashboard import FakeBrowser


def test_an_action_on_an_agent_that_does_not_exist_is_not_offered(browser: FakeBrowser) -> None:
    answer = browser.get("/agents/nobody/ask/destroy")
    assert answer.status == 404
    assert "nobody" in answer.text
    assert "these are" not in answer.text
