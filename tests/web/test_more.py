"""What is looked up now and then, and the figures of an agent's machine (K39)."""

from __future__ import annotations

import pytest
from fixtures.dashboard import FakeBrowser, RunningDashboard
from fixtures.hostile_text import HOSTILE
from fixtures.world import World

from hive_core.model.agents.machine import Cpu, Reading
from hive_core.operations import load
from hive_core.web.pages.more import SECTIONS, PageListing


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_each_listing_names_fields_that_hived_has(section: PageListing) -> None:
    schema = load()[section.operation].result.model_json_schema(mode="serialization")
    row = schema["properties"][section.rows]["items"]["$ref"].rpartition("/")[2]

    fields = schema["$defs"][row]["properties"]

    assert {field for field, _, _ in section.columns} <= fields.keys()
    assert not section.link or "id" in fields


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_each_listing_is_drawn(browser: FakeBrowser, section: PageListing) -> None:
    answer = browser.get(f"/more/{section.name}")

    assert answer.status == 200
    assert f"<h1>{section.title}</h1>" in answer.text
    assert "<tbody>" in answer.text or section.empty in answer.text
    assert 'class="fault"' not in answer.text


def test_an_unknown_listing_is_not_found(browser: FakeBrowser) -> None:
    assert browser.get("/more/nonsense").status == 404
    assert browser.get("/more/triggers/0123").status == 404


def test_a_trigger_leads_to_its_fires(browser: FakeBrowser, web: RunningDashboard) -> None:
    made = web.hived.call(
        "operator", "set_trigger", agent="lead", name="often", when={"every": 60.0},
        action={"kind": "message", "text": "<b>look</b>"},
    )  # fmt: skip

    page = browser.get("/more/triggers").text

    assert f'href="/more/triggers/{made["id"]}"><bdi>often</bdi>' in page
    assert "The trigger has not fired." in browser.get(f"/more/triggers/{made['id']}").text


def test_an_artifact_is_a_file_that_no_browser_shows(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    text = "".join(HOSTILE) * 5  # more than one part of an answer
    web.hived.call("carl", "store_artifact", name="x/page.html", text=text)

    page = browser.get("/more/artifacts").text
    place = page.partition('href="/more/artifacts/')[2].partition('"')[0]
    answer = browser.get(f"/more/artifacts/{place}")

    assert "<bdi>x/page.html</bdi>" in page
    assert answer.body == text.encode()
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''page.html"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_figures_are_drawn_with_their_numbers(browser: FakeBrowser, web: RunningDashboard) -> None:
    assert "has not run in the last hour" in browser.get("/agents/carl/figures").text

    def note(world: World) -> None:
        for at in range(8):
            world.advance(5)
            reading = Reading(Cpu("one", at * 2_500_000), at << 20)
            world.broker.show_figures({world.uuid("carl"): reading})

    web.hived.do(note)

    page = browser.get("/agents/carl/figures").text
    assert page.count("<polyline") == 2
    assert "50% now" in page
