"""Tasks in a real Chromium: rows and pages change while one looks, and keys decide."""

from __future__ import annotations

import pytest
from fixtures.chromium import Browser
from fixtures.dashboard import RunningDashboard
from fixtures.tasks import finish, give
from fixtures.world import World
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.usefixtures("watched")


def test_the_page_of_a_task_changes_without_a_reload_and_keeps_what_is_typed(
    chrome: Browser, web: RunningDashboard
) -> None:
    task = web.hived.do(lambda world: give(world, "operator", "carl", title="Oil it"))
    chrome.open(f"{web.origin}/tasks")
    chrome.until("document.querySelector(arguments[0])", f"a.to[href='/tasks/{task}']")
    chrome.run(f"document.querySelector(\"a.to[href='/tasks/{task}']\").click()")
    chrome.until_path(f"/tasks/{task}")
    chrome.run(
        "window.same = true;"
        "document.querySelectorAll('main details').forEach((part) => { part.open = true; })"
    )
    chrome.find("#reason").send_keys("half a word")
    web.hived.call("carl", "report_progress", task=task, text="the upper hinge", percent=50)
    chrome.until("document.querySelector('main').textContent.includes('the upper hinge')")
    web.hived.do(lambda world: finish(world, "carl", task, summary="It is quiet."))
    chrome.until("document.querySelector('main').textContent.includes('It is quiet.')")

    assert chrome.run("return window.same")
    assert chrome.run("return document.getElementById('reason').value") == "half a word"
    assert chrome.find(".history table").is_displayed()


def test_a_result_is_accepted_by_its_key(chrome: Browser, web: RunningDashboard) -> None:
    def deliver(world: World) -> str:
        task = give(world, "operator", "carl", title="Sharpen it", criteria={"text": "It cuts."})
        finish(world, "carl", task, summary="It cuts paper.")
        return task

    task = web.hived.do(deliver)
    chrome.open(f"{web.origin}/")
    chrome.until("document.querySelector(arguments[0])", f"a.open[href='/tasks/{task}']")
    chrome.run(f"document.querySelector(\"a.open[href='/tasks/{task}']\").click()")
    chrome.until_path(f"/tasks/{task}")
    chrome.press("a", Keys.ENTER)
    chrome.until("!document.querySelector('form[action$=judge]')")
    assert chrome.run("return location.pathname") == f"/tasks/{task}"
    reply = web.hived.call("operator", "get_task", task=task)["task"]
    assert isinstance(reply, dict)
    assert reply["state"] == "done"


def test_the_row_that_is_chosen_stays_so_when_rows_are_drawn_anew(
    chrome: Browser, web: RunningDashboard
) -> None:
    chrome.open(f"{web.origin}/tasks")
    chrome.press("j", "j")
    chosen = "document.querySelector('.current a.to')?.href"
    before = chrome.run(f"return {chosen}")
    web.hived.call("operator", "assign_task", agent="w-9", title="Rinse", description="x")
    chrome.until("document.querySelector('main').textContent.includes('Rinse')")
    assert before
    assert chrome.run(f"return [{chosen}, document.activeElement.href]") == [before, before]

    chrome.open(f"{web.origin}/tree?filter=w-")
    chrome.press("j", "x")
    name = chrome.run("return document.querySelector('.current').dataset.name")
    web.hived.call("operator", "spawn", name="w-77", parent="root")
    chrome.until("document.querySelector('[data-name=w-77]')")
    row = f"document.querySelector('[data-name={name}]')"
    chrome.until(f"{row}.ariaSelected === 'true' && {row}.contains(document.activeElement)")
