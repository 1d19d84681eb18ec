"""What the tree offers beside its rows: a new agent, actions for several, the next that waits."""

from __future__ import annotations

from urllib.parse import unquote

from fixtures.dashboard import FakeBrowser, RunningDashboard
from fixtures.world import names


def all_agents(web: RunningDashboard) -> list[object]:
    return names(web.hived.call("operator", "list_agents")["agents"])


def test_an_agent_is_made_by_a_form(browser: FakeBrowser, web: RunningDashboard) -> None:
    assert '<option value="lead">' in browser.get("/new?parent=lead").text

    fields = {"name": "fresh", "parent": "lead", "role": "worker", "title": "<i>new</i>"}
    made = browser.post("/new", fields)

    assert made.headers["location"] == "/agents/fresh"
    assert web.hived.call("operator", "get_agent", agent="fresh")["parent"] == "lead"
    assert browser.post("/new", {"parent": "lead"}).status == 400
    assert "fresh" in browser.post("/new", {"name": "fresh"}).text


def test_an_action_for_several_agents_is_asked_and_done(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    page = browser.get("/selected/stop?agents=w-9%2Cw-10").text
    assert "Stop 2 agents" in page

    before = all_agents(web)
    done = browser.post("/selected/stop", {"agents": "w-9,nobody,w-10"})

    assert "no such agent" in done.text
    assert "<bdi>w-10</bdi>" not in done.text.partition('class="names"')[2]
    for name in ("w-9", "w-10"):
        assert web.hived.call("operator", "get_agent", agent=name)["state"] != "running"
    assert browser.post("/selected/start", {"agents": "w-9,w-10"}).status == 303
    assert browser.get("/selected/destroy?agents=w-9").status == 404
    assert browser.post("/selected/stop", {"agents": ",".join(["w-9"] * 101)}).status == 400
    assert browser.post("/selected/stop", {"agents": ""}).status == 400
    assert all_agents(web) == before


def test_the_next_that_waits_follows_the_one_that_is_open(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    asked = [
        f"/questions/{web.hived.call('root', 'ask_user', items=[{'prompt': prompt}])['question']}"
        for prompt in ("Go on?", "How?")
    ]
    first = browser.get("/next").headers["location"]
    seen = [first]
    while (path := browser.get(f"/next?after={seen[-1]}").headers["location"]) != first:
        seen.append(unquote(path))

    assert set(asked) <= set(seen)
    assert browser.get("/next?after=//evil.example").headers["location"] == first
