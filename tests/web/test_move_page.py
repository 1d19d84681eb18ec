"""Moving an agent in the dashboard: hived says what it would do, and confirms it (row H6)."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from fixtures.dashboard import Answer, FakeBrowser, RunningDashboard
from fixtures.logins import open_login, with_passkey
from fixtures.world import World

from hive_core.testing.passkeys import MemoryAuthenticator

_FIELD = re.compile(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)">')


@pytest.fixture
def passkey(browser: FakeBrowser, web: RunningDashboard) -> MemoryAuthenticator:
    def add(world: World) -> MemoryAuthenticator:
        return with_passkey(open_login(world, browser.account), web.origin)

    return web.hived.do(add)


def confirm(browser: FakeBrowser, asked: Answer, passkey: MemoryAuthenticator) -> Answer:
    """Sign what the page of the confirmation asks for, and send it."""
    form = asked.text.partition('id="passkey-confirm"')[2].partition("</form>")[0]
    challenge = json.loads(unescape(form.partition('data-challenge="')[2].partition('"')[0]))
    fields = {name: unescape(value) for name, value in _FIELD.findall(form)}
    signed = passkey.sign(challenge["nonce"], challenge["challenge"])
    return browser.post("/confirm", {**fields, "assertion": json.dumps(signed)})


def parent_of(web: RunningDashboard, agent: str) -> object:
    return web.hived.call("operator", "get_agent", agent=agent)["parent"]


def test_a_move_is_shown_confirmed_and_made(
    browser: FakeBrowser, web: RunningDashboard, passkey: MemoryAuthenticator
) -> None:
    trial = browser.get("/agents/w-9/move?parent=carl").text
    assert "<dt>Restarts</dt>" in trial
    assert parent_of(web, "w-9") == "lead"

    asked = browser.post("/agents/w-9/move", {"parent": "carl", "when_idle": "30"})
    assert "Confirm <bdi>move</bdi>" in asked.text
    assert parent_of(web, "w-9") == "lead"
    assert confirm(browser, asked, passkey).headers["location"] == "/tree"
    assert parent_of(web, "w-9") == "carl"

    # A confirmation of a move counts for five minutes.
    assert browser.post("/agents/w-9/move", {"root": "yes"}).status == 303
    assert parent_of(web, "w-9") is None


def test_a_refusal_of_a_move_is_shown_in_words(browser: FakeBrowser) -> None:
    loop = browser.get("/agents/lead/move?parent=w-10").text.partition('id="trial"')[2]
    unknown = browser.get("/agents/lead/move?parent=%3Cb%3Enobody").text.partition('id="trial"')[2]

    assert "cannot move lead" in loop
    assert "&lt;b&gt;nobody" in unknown
    assert "<form" not in (loop + unknown).partition("<p><a")[0]


def test_a_move_without_a_parent_or_scope_is_refused(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    assert browser.get("/agents/nobody/move").status == 404
    assert "Make" not in browser.get("/agents/lead/move").text.partition('id="trial"')[2]
    assert browser.post("/agents/w-10/move", {}).status == 400
    odd = browser.post("/agents/w-10/move", {"parent": "carl", "when_idle": "soon"})
    assert odd.status == 400

    web.hived.link("vera", ("viewer",))
    viewer = FakeBrowser(web, "vera")
    assert "scope" in viewer.get("/agents/w-10/move?parent=carl").text
    assert viewer.post("/agents/w-10/move", {"parent": "carl"}).status == 403
    assert parent_of(web, "w-10") == "lead"


def test_the_pages_lead_to_a_move_without_script(browser: FakeBrowser) -> None:
    assert 'href="/agents/lead/move"' in browser.get("/agents/lead").text
    page = browser.get("/agents/lead/move").text

    assert '<option value="carl">' in page
    assert 'name="root" value="yes"' in page
