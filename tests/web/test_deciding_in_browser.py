"""Decisions in a real Chromium: passkeys, typed digits, long differences; pasted links; framing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from fixtures.approvals import ONE, ask, judge, line
from fixtures.chromium import Browser, add_authenticator
from fixtures.dashboard import RunningDashboard
from fixtures.tasks import give
from fixtures.world import World, rows
from selenium.webdriver.common.keys import Keys
from typing_extensions import override


@pytest.fixture(scope="module")
def chrome(web: RunningDashboard, blank_tab: Browser) -> Browser:
    """A tab with a passkey, which logged in by a link pasted into an open login page."""
    add_authenticator(blank_tab)
    blank_tab.open(f"{web.origin}/login")
    blank_tab.open(f"{web.origin}/login#{web.hived.link()}")
    blank_tab.until_path("/passkey")
    blank_tab.find("#passkey-make button").click()
    blank_tab.until_path("/")
    return blank_tab


@pytest.fixture(autouse=True)
def _no_complaints(chrome: Browser) -> Iterator[None]:
    yield
    assert chrome.complaints() == []


def test_a_link_that_is_pasted_into_the_login_page_logs_in(
    chrome: Browser, web: RunningDashboard
) -> None:
    chrome.find(".logout button").click()
    chrome.until_path("/login")
    web.hived.pass_time(60.0)
    chrome.run("window.same = true")

    chrome.run(f"location.hash = '{web.hived.link()}'")

    chrome.until_path("/passkey")
    assert chrome.run("return window.same") is None


def test_a_passkey_confirms_a_plan(chrome: Browser, web: RunningDashboard) -> None:
    task, plan = web.hived.do(_submit_plan)
    chrome.open(f"{web.origin}/plans/{task}")

    chrome.find(f"form[action='/plans/{task}/approve'] button").click()
    chrome.until("document.getElementById('passkey-confirm')")
    assert "Dig" in chrome.text()
    chrome.find("#passkey-confirm button").click()
    chrome.until_path("/")

    (row,) = rows(web.hived.call("operator", "list_plans", task=task)["plans"])
    assert (row["plan"], row["state"], row["decided_by"]) == (plan, "approved", "operator")


def test_a_right_is_given_after_the_last_line_with_its_tick_and_the_digits(
    chrome: Browser, web: RunningDashboard
) -> None:
    lines = [line(f"line {number}") for number in range(2500)]
    id_ = web.hived.do(
        lambda world: judge(world, ask(world, "root", "lead"), {"boot": True}, lines)
    )
    chrome.open(f"{web.origin}/approvals/{id_}")
    assert chrome.all("#approve") == []

    chrome.run("document.querySelector('#difference a.more').scrollIntoView()")
    chrome.until("document.getElementById('approve')")
    assert "the end" in chrome.text("#difference")
    chrome.find("#approve button").click()
    assert chrome.run("return location.pathname") == f"/approvals/{id_}"
    chrome.find("[name=gives0]").click()
    chrome.find("#digits").send_keys(ONE[:8])
    chrome.find("#approve button").click()
    chrome.until("document.getElementById('passkey-confirm')")
    chrome.find("#passkey-confirm button").click()
    chrome.until_path("/")

    approval = web.hived.call("operator", "get_approval", id=id_)["approval"]
    assert isinstance(approval, dict)
    assert approval["state"] == "approved"


def test_a_row_that_comes_live_brings_its_forms(chrome: Browser, web: RunningDashboard) -> None:
    chrome.open(f"{web.origin}/")
    chrome.point_at("h1")
    chrome.run("window.same = true")
    options = ["pine", "oak"]
    items = [{"prompt": "Which wood?", "options": options}]
    asked = [web.hived.call("root", "ask_user", items=items)["question"] for _ in range(2)]
    chrome.until("document.querySelectorAll('#attention .k-question ~ .settle').length === 2")
    assert chrome.run("return window.same")
    chrome.find("#attention input[name=text0]").send_keys("bir")
    web.hived.call("root", "ask_user", items=[{"prompt": "Another?"}])
    chrome.until("!document.getElementById('held').hidden")
    assert chrome.run("return document.activeElement.value") == "bir"
    assert chrome.violations() == []
    chrome.press("ch", Keys.ENTER)
    chrome.until("!window.same && document.readyState === 'complete'")

    chrome.press("j", "r")
    assert chrome.run("return document.activeElement.name") == "text0"
    chrome.find("#attention .settle button").click()
    chrome.until("document.querySelectorAll('#attention .k-question').length === 1")
    answers = [_answers(web, str(question)) for question in asked]
    assert answers == [["birch"], ["pine"]]


def test_rows_stay_where_they_are_as_the_focus_goes_on_within_the_list(
    chrome: Browser, web: RunningDashboard
) -> None:
    chrome.open(f"{web.origin}/")
    chrome.point_at("h1")
    items = [{"prompt": "Which wood?"}]
    first, second = (web.hived.call("root", "ask_user", items=items)["question"] for _ in range(2))
    row = "document.querySelector(`a.open[href$='${arguments[0]}']`)?.closest('li')"
    chrome.until(f"{row}.querySelector('.settle')", second)
    chrome.until(f"({row}.querySelector('a.open').focus(), true)", second)
    web.hived.call("operator", "answer", question=first, answers=["oak"])
    chrome.until("!document.getElementById('held').hidden")

    chrome.press(Keys.TAB)

    chrome.until(f"{row}.contains(document.activeElement) &&"
                 " document.activeElement.matches(':not(a.open)')", second)  # fmt: skip
    chrome.until(row, first)
    assert not chrome.run("return document.getElementById('held').hidden")


def test_a_form_is_sent_once(chrome: Browser, web: RunningDashboard) -> None:
    chrome.open(f"{web.origin}/agents/lead/talk")
    chrome.run("document.querySelector('#body').value = 'only once'")

    chrome.run("const form = document.querySelector('form[data-key=c]');"
               "form.requestSubmit(); form.requestSubmit()")  # fmt: skip

    chrome.until_path("/agents/lead/talk")
    chrome.open(f"{web.origin}/agents/lead/mail")
    assert chrome.text("#tab").count("only once") == 1


def test_d_opens_the_reason_of_a_rejection(chrome: Browser, web: RunningDashboard) -> None:
    task, _ = web.hived.do(_submit_plan)
    chrome.open(f"{web.origin}/")
    chrome.until("document.querySelector('#attention .k-plan ~ .settle')")
    rows_before = len(chrome.all("#attention .item:has(~ .item .k-plan)"))
    chrome.press(*"j" * (rows_before + 1), "d")
    assert chrome.run("return document.activeElement.name") == "reason"
    chrome.press("not like this", Keys.ENTER)
    chrome.until("!document.querySelector('#attention .k-plan')")

    (row,) = rows(web.hived.call("operator", "list_plans", task=task)["plans"])
    assert (row["state"], row["reason"]) == ("rejected", "not like this")


def _answers(web: RunningDashboard, question: str) -> list[object]:
    details = web.hived.call("operator", "get_question", question=question)
    return [item["answer"] for item in rows(details["items"])]


def _submit_plan(world: World) -> tuple[str, str]:
    """A task that waits for the operator to approve its plan."""
    task = give(world, "operator", "w-9", title="Dig", plan_required=True)
    return task, str(world.call("w-9", "create_plan", task=task, steps=["look"])["plan"])


def test_no_other_site_shows_the_dashboard_in_a_frame(
    chrome: Browser, web: RunningDashboard
) -> None:
    """Another port of localhost is the same site: the cookie is sent, and only the CSP is left."""
    page = f"<iframe id=stolen src='{web.origin}/tree'></iframe>".encode()
    with framing_site(page) as address:
        chrome.open(address)
        chrome.until("document.readyState === 'complete'")
        chrome.driver.switch_to.frame(chrome.find("#stolen"))
        chrome.until("document.readyState === 'complete'")
        assert chrome.run("return location.protocol") == "chrome-error:"
        assert chrome.all(".agent-row") == []
        chrome.driver.switch_to.default_content()
    assert [text for text in chrome.complaints() if "frame-ancestors" in text]
    chrome.open(f"{web.origin}/tree")
    assert chrome.all(".agent-row")


@contextmanager
def framing_site(page: bytes) -> Iterator[str]:
    """A page of somebody else, on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page if self.path == "/" else b"")

        @override
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://localhost:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()
