"""Plans, approvals, tasks and agents are decided on their pages, by forms that need no script."""

from __future__ import annotations

import re
from html import unescape
from typing import Final

import pytest
from fixtures.approvals import ONE, ask, judge, line
from fixtures.dashboard import Answer, FakeBrowser, RunningDashboard
from fixtures.tasks import give
from fixtures.world import World, rows

from hive_core.model.operator.totp import STEP, totp_code

GIVES: Final = {"boot": True}
DIGITS: Final = ONE[:8]
_FIELD: Final = re.compile(r'<input type="hidden" name="([a-z]+)" value="([^"]*)">')


def submit_plan(world: World) -> tuple[str, str]:
    """A task of `w-9` that waits for the operator to approve its plan, and the plan."""
    task = give(world, "operator", "w-9", title="Dig", plan_required=True)
    reply = world.call("w-9", "create_plan", task=task, steps=["look", "dig"], note="slowly")
    return task, str(reply["plan"])


def request_change(
    world: World, agent: str = "lead", *, gives: bool = False, lines: int = 1
) -> str:
    """An approval that waits for the operator."""
    texts = [line(f"line {number}") for number in range(lines)]
    return judge(world, ask(world, "root", agent), GIVES if gives else None, texts)


@pytest.fixture(autouse=True)
def _no_requests(web: RunningDashboard) -> None:
    """An agent has one request at a time."""
    for row in rows(web.hived.call("operator", "list_approvals")["approvals"]):
        web.hived.call("operator", "deny", id=row["id"], why="of another test")


def state_of(web: RunningDashboard, id_: str) -> object:
    approval = web.hived.call("operator", "get_approval", id=id_)["approval"]
    assert isinstance(approval, dict)
    return approval["state"]


def hidden_fields(page: Answer) -> dict[str, str]:
    """What the first form of the page has beside what is typed."""
    form = page.text.partition("<main")[2].partition("<form")[2].partition("</form>")[0]
    return {name: unescape(value) for name, value in _FIELD.findall(form)}


def pages_of(browser: FakeBrowser, address: str) -> list[str]:
    """The pages of a difference, as their links follow one another."""
    pages, following = list[str](), [address]
    while following:
        pages.append(browser.get(following.pop()).text)
        match = re.search(rf'href="({re.escape(address)}\?after=[^"]+)"', pages[-1])
        following += [unescape(match.group(1))] if match else []
    return pages


def code_of(world: World, account: str) -> str:
    """What the app of the account shows now."""
    stored = world.ledger.accounts.totp(account)
    assert stored is not None
    return totp_code(stored[0], int(world.clock.now()) // STEP)


def test_a_plan_that_waits_is_rejected_with_a_reason(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    task, plan = web.hived.do(submit_plan)
    address = f"/plans/{task}"
    page = browser.get(address).text
    assert f'action="{address}/approve"' in page
    assert f'action="{address}/reject"' in page

    assert browser.post(f"{address}/reject", {"plan": plan, "reason": " "}).status == 400
    assert browser.post(f"{address}/reject", {"plan": plan, "reason": "too deep"}).status == 303

    (row,) = rows(web.hived.call("operator", "list_plans", task=task)["plans"])
    assert (row["state"], row["reason"]) == ("rejected", "too deep")
    assert "/reject" not in browser.get(address).text


def test_only_the_plan_that_waits_has_buttons(browser: FakeBrowser, web: RunningDashboard) -> None:
    task, void = web.hived.do(submit_plan)
    plan = web.hived.call("w-9", "create_plan", task=task, steps=["only look"])["plan"]

    page = browser.get(f"/plans/{task}").text

    assert page.count("/reject") == 1
    assert f'value="{plan}"' in page
    assert f'value="{void}"' not in page


def test_an_approval_is_denied_with_a_reason(browser: FakeBrowser, web: RunningDashboard) -> None:
    id_ = web.hived.do(request_change)
    address = f"/approvals/{id_}/deny"

    assert browser.post(address, {"reason": ""}).status == 400
    assert state_of(web, id_) == "pending"
    assert browser.post(address, {"reason": "not now"}).status == 303

    assert state_of(web, id_) == "denied"
    page = browser.get(f"/approvals/{id_}").text
    assert "not now" in page
    assert "/deny" not in page


def test_attack_22_what_gives_takes_its_ticks_and_the_digits_of_the_commit(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    id_ = web.hived.do(lambda world: request_change(world, gives=True))
    address = f"/approvals/{id_}"
    page = browser.get(address).text
    assert 'name="gives0"' in page
    assert 'name="commit"' not in page

    for fields in (
        {"digits": DIGITS},
        {"gives0": "no", "digits": DIGITS},
        {"gives0": "yes"},
        {"gives0": "yes", "digits": DIGITS[:7]},
        {"gives0": "yes", "digits": "0" * 8},
        {"gives0": "yes", "commit": ONE},
    ):
        assert browser.post(f"{address}/approve", fields).status == 400, fields
    typed = browser.post(f"{address}/approve", {"gives0": "yes", "digits": DIGITS.upper()})

    assert "Confirm <bdi>approve</bdi>" in typed.text
    assert DIGITS in unescape(typed.text)
    assert state_of(web, id_) == "pending"


def test_what_gives_nothing_takes_no_digits(browser: FakeBrowser, web: RunningDashboard) -> None:
    id_ = web.hived.do(request_change)
    page = browser.get(f"/approvals/{id_}").text

    assert 'name="digits"' not in page
    answer = browser.post(f"/approvals/{id_}/approve", {"commit": ONE})
    assert "Confirm <bdi>approve</bdi>" in answer.text
    assert "for <b><bdi>lead</bdi></b>, as <b><bdi>" in answer.text


def test_the_buttons_of_an_approval_follow_its_last_line(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    id_ = web.hived.do(lambda world: request_change(world, gives=True, lines=4500))
    address = f"/approvals/{id_}"
    pages = pages_of(browser, address)

    assert len(pages) > 2
    for page in pages[:-1]:
        assert "/approve" not in page
        assert "/deny" not in page
        assert 'name="gives0"' not in page
    assert pages[-1].index("the end") < pages[-1].index(f'action="{address}/approve"')
    assert pages[-1].count('name="gives0"') == 1
    assert f'action="{address}/deny"' in pages[-1]
    assert ONE in pages[-1]


def test_attack_22_a_line_larger_than_a_page_hides_nothing(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    """Its parts are shown on each page, and what decides stands behind what follows it."""
    texts = [line("before"), line("ж" * 500_000), line("behind")]
    id_ = web.hived.do(lambda world: judge(world, ask(world, "root", "lead"), GIVES, texts))
    address = f"/approvals/{id_}"
    pages = pages_of(browser, address)

    assert len(pages) > 2
    assert sum(page.count("ж") for page in pages) == 500_000
    assert not any("/approve" in page or "/deny" in page for page in pages[:-1])
    assert pages[-1].index("behind") < pages[-1].index(f'action="{address}/approve"')


@pytest.mark.parametrize("scopes", [["viewer"], ["viewer", "operator"]])
def test_a_login_sees_no_button_that_its_scope_lacks(
    web: RunningDashboard, browser: FakeBrowser, scopes: list[str]
) -> None:
    task, _ = web.hived.do(submit_plan)
    id_ = web.hived.do(request_change)
    account = "-".join(["eve", *scopes])
    web.hived.link(account, scopes)
    limited = FakeBrowser(web, account)

    decisions = f"/approvals/{id_}", f"/plans/{task}", "/tree"
    limited_pages = "".join(limited.get(path).text for path in decisions)
    all_pages = "".join(browser.get(path).text for path in decisions)

    operator = {f"/approvals/{id_}/deny", f"/plans/{task}/reject", "/new"}
    approver = {f"/approvals/{id_}/approve", f"/plans/{task}/approve"}
    assert all(f'"{address}"' in all_pages for address in operator | approver)
    shown = {address for address in operator | approver if f'"{address}"' in limited_pages}
    assert shown == (operator if "operator" in scopes else set())


def test_a_task_is_assigned_and_an_agent_restarted(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    address = "/agents/w-10/assign"
    assert browser.post(address, {"title": "Nothing", "description": " "}).status == 400
    assigned = browser.post(address, {"title": "Paint", "description": "the <hived>"})
    assert assigned.headers["location"] == "/agents/w-10/tasks"
    listed = rows(web.hived.call("operator", "list_tasks", agent="w-10")["tasks"])
    assert "Paint" in [row["title"] for row in listed]
    assert "Nothing" not in [row["title"] for row in listed]

    restarted = browser.post("/agents/w-10/do/restart", {})
    assert restarted.headers["location"] == "/agents/w-10"
    events = rows(web.hived.call("operator", "list_events", last=20)["events"])
    assert [e["target"] for e in events if e["operation"] == "restart"] == ["w-10"]


def test_without_passkey_and_code_the_page_shows_the_command(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    id_ = web.hived.do(request_change)

    page = browser.post(f"/approvals/{id_}/approve", {"commit": ONE}).text

    assert f"hive approval approve {id_} --commit {ONE}" in page
    assert "hive web totp set alice" in page
    assert 'action="/confirm"' not in page
    assert state_of(web, id_) == "pending"


def test_a_code_confirms_once_and_a_wrong_one_leads_back_to_the_form(web: RunningDashboard) -> None:
    web.hived.link("carol")
    web.hived.call("operator", "set_totp", account="carol")
    web.hived.pass_time(60.0)
    browser = FakeBrowser(web, "carol")
    first = web.hived.do(request_change)
    second = web.hived.do(lambda world: request_change(world, "carl"))

    form = hidden_fields(browser.post(f"/approvals/{first}/approve", {"commit": ONE}))
    code = web.hived.do(lambda world: code_of(world, "carol"))
    wrong = browser.post("/confirm", {**form, "code": f"{(int(code) + 1) % 1_000_000:06}"})
    assert wrong.status == 403
    assert "the code is wrong, or was used" in wrong.text
    assert state_of(web, first) == "pending"
    again = hidden_fields(wrong)
    assert again["nonce"] != form["nonce"]
    assert again["parameters"] == form["parameters"]

    right = browser.post("/confirm", {**again, "code": f" {code} "})
    assert right.headers["location"] == "/"
    assert state_of(web, first) == "approved"

    form = hidden_fields(browser.post(f"/approvals/{second}/approve", {"commit": ONE}))
    replayed = browser.post("/confirm", {**form, "code": code})
    assert replayed.status == 403
    assert "was used" in replayed.text
    none = browser.post("/confirm", {**hidden_fields(replayed), "code": ""})
    assert none.status == 403
    assert 'name="code"' in none.text
    assert state_of(web, second) == "pending"


def test_a_form_cannot_lead_to_a_foreign_address(browser: FakeBrowser) -> None:
    fields = {"operation": "destroy", "parameters": '{"agent": "w-9"}', "nonce": "x", "code": "1"}

    for back in ("javascript:alert(1)", "//evil.example", "https://evil.example/"):
        page = browser.post("/confirm", {**fields, "back": back})
        assert page.status == 403
        assert back not in page.text
