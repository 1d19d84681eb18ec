"""What Chromium makes of the pages: boxes, lines, words, and an agent's page as it changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.chromium import Browser
from fixtures.dashboard import RunningDashboard

WIDE, PHONE = 1280, 412
# Words of a table that are broken: the boxes of one word stand on more than one line.
BROKEN = """
return [...document.querySelectorAll("td, th")].flatMap((cell) => {
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), broken = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (const {0: word, index} of node.data.matchAll(/[A-Za-z]{2,20}/g)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const lines = new Set([...range.getClientRects()].map(({top}) => Math.round(top)));
      if (lines.size > 1) broken.push(word);
    }
  }
  return broken;
});
"""


@pytest.fixture(scope="module")
def chrome(web: RunningDashboard, blank_tab: Browser) -> Browser:
    blank_tab.open(f"{web.origin}/login#{web.hived.link()}")
    blank_tab.until_path("/passkey")
    return blank_tab


@pytest.fixture(autouse=True)
def _no_complaints(chrome: Browser) -> Iterator[None]:
    yield
    chrome.use("light", WIDE)
    assert chrome.complaints() == []


def test_the_target_of_an_event_has_no_box(chrome: Browser, web: RunningDashboard) -> None:
    web.hived.call("operator", "send", to="lead", body="x")
    chrome.open(f"{web.origin}/audit")

    styles = chrome.run(
        "return [...document.querySelectorAll('#audit .target')].map("
        "(each) => getComputedStyle(each).outlineStyle)"
    )
    assert set(styles) == {"none"}


def test_lines_of_an_agent_stand_below_one_another(chrome: Browser, web: RunningDashboard) -> None:
    web.hived.call("operator", "send", to="lead", body="three\nlines\n  of text")
    chrome.open(f"{web.origin}/agents/lead/mail")
    said = "[...document.querySelectorAll('.said')].at(-1)"

    lines = chrome.run(f"return {said}.querySelectorAll('bdi').length")
    height = chrome.run(f"return {said}.clientHeight")
    line = chrome.run(f"return {said}.querySelector('bdi').getBoundingClientRect().height")

    assert lines == 3
    assert 3 * line <= height < 4 * line
    indent = "return getComputedStyle(document.querySelector('.said bdi')).whiteSpace"
    assert chrome.run(indent) == "pre-wrap"


@pytest.mark.parametrize("path", ["/more/roles", "/more/settings", "/cost", "/tasks/graph"])
def test_a_phone_breaks_no_word_of_a_table(
    chrome: Browser, web: RunningDashboard, path: str
) -> None:
    web.hived.call("operator", "allocate_budget", agent="lead", kind="tokens", amount=1000)
    chrome.use("light", PHONE)
    chrome.open(web.origin + path)

    assert chrome.all("td") or path == "/tasks/graph"
    assert chrome.run(BROKEN) == []
    assert chrome.run("return document.documentElement.scrollWidth - innerWidth") <= 0


def test_rows_are_cards_of_two_lines_on_a_phone(chrome: Browser, web: RunningDashboard) -> None:
    web.hived.call("operator", "assign_task", agent="lead", title="Paint the shed", description="x")
    chrome.use("light", PHONE)
    for path, row in (("/audit", "#audit > li"), ("/tasks", ".rows > li.item")):
        chrome.open(web.origin + path)
        height = chrome.until(f"document.querySelector('{row}')?.getBoundingClientRect().height")
        assert height <= 80, path


def test_numbers_of_an_agent_have_headings(chrome: Browser, web: RunningDashboard) -> None:
    chrome.open(f"{web.origin}/agents/lead/talk")
    heads = [head.text for head in chrome.all(".grid.one [role=columnheader]")]
    cells = chrome.all(".grid.one [role=gridcell]")

    assert heads[4:] == ["context", "tokens", "cost", "cpu", "memory", "mail"]
    assert len(cells) == len(heads)
    rights = chrome.run(
        "return [...document.querySelectorAll('.grid.one .number')].map("
        "(each) => each.getBoundingClientRect().right)"
    )
    assert rights[:6] == rights[6:]


def test_destroying_stands_apart(chrome: Browser, web: RunningDashboard) -> None:
    chrome.open(f"{web.origin}/agents/lead")
    destroy = chrome.find("[data-action=destroy]").rect
    move = chrome.find("[data-action=move]").rect

    assert destroy["x"] - (move["x"] + move["width"]) > 100


def test_a_tool_shows_its_first_sentence_and_opens_the_rest(
    chrome: Browser, web: RunningDashboard
) -> None:
    chrome.open(f"{web.origin}/agents/lead/tools")
    assert "⟨U+000A⟩" not in chrome.text("#tab")
    summary = chrome.find("#tab summary")
    rest = chrome.find("#tab details .said")
    assert not rest.is_displayed()

    summary.click()

    assert rest.is_displayed()


def test_the_page_of_an_agent_changes_without_a_reload(
    chrome: Browser, web: RunningDashboard
) -> None:
    hived = web.hived
    hived.call("lead", "keep_turn", conversation="main", turn=1, status="done", text="Old turn")
    chrome.open(f"{web.origin}/agents/lead/talk")
    chrome.run("window.same = true")
    chrome.find("#body").send_keys("half a word")
    hived.call("lead", "keep_turn", conversation="main", turn=2, status="done", text="Fresh turn")
    chrome.until("document.getElementById('tab').textContent.includes('Fresh turn')")
    mail = "Number(document.querySelector('.tabs .count')?.textContent ?? 0)"
    before = chrome.run(f"return {mail}")
    hived.call("operator", "send", to="lead", body="Fresh letter")
    chrome.until(f"{mail} === {before + 1}")

    assert chrome.run("return window.same")
    assert chrome.find("#body").get_attribute("value") == "half a word"

    chrome.open(f"{web.origin}/agents/lead/mail")
    chrome.run("window.same = true")
    hived.call("operator", "send", to="lead", body="A later letter")
    chrome.until("document.getElementById('tab').textContent.includes('A later letter')")
    assert chrome.run("return window.same")


def test_a_running_turn_is_read_as_it_is_written(chrome: Browser, web: RunningDashboard) -> None:
    hived = web.hived
    chrome.open(f"{web.origin}/agents/carl/talk")
    running = "document.getElementById('running').textContent"
    for text in ("I begin <b>", "\nand go on"):
        hived.pass_time(1.0)
        hived.call("carl", "stream_turn", conversation="main", turn=4, text=text)
        chrome.until(f"{running}.includes(arguments[0])", text)
    assert chrome.text("#running .said") == "I begin <b>\nand go on"
    assert chrome.all("#running b") == []

    hived.call("carl", "keep_turn", conversation="main", turn=4, status="done", text="I have begun")
    chrome.until("document.getElementById('tab').textContent.includes('I have begun')")
    chrome.until("document.querySelectorAll('#running article').length === 0")
