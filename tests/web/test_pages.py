"""Pages are whole without script: each is one request, and shows what hived answers (K39)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from fixtures.dashboard import Answer, FakeBrowser, RunningDashboard, parse_answer
from fixtures.logins import open_login
from fixtures.world import World, rows

# Written out here: a word that is left out of the constant of hive-web has to fail a test.
POLICY = sorted((
    "base-uri 'none'", "connect-src 'self'", "default-src 'none'", "form-action 'self'",
    "frame-ancestors 'none'", "img-src 'self'", "require-trusted-types-for 'script'",
    "script-src 'self'", "style-src 'self'", "trusted-types hive",
))  # fmt: skip


def test_a_link_opens_a_session_once(web: RunningDashboard, browser: FakeBrowser) -> None:
    link = web.hived.link()
    body = f"secret={link}".encode()

    first, second = (web.ask("POST", "/login", body) for _ in range(2))

    assert first.status == 303
    cookie = first.headers["set-cookie"]
    assert cookie.startswith("__Host-hive=login_")
    assert all(word in cookie for word in ("HttpOnly", "Secure", "SameSite=Strict", "Path=/"))
    assert second.status == 403
    assert "set-cookie" not in second.headers
    assert browser.get("/").status == 200


def secured_answers(browser: FakeBrowser) -> Iterator[Answer]:
    """An answer of each kind: pages, faults, forms, files, streams, the API, refusals."""
    static = re.search(r'"(/static/[^"]+)"', browser.get("/").text)
    assert static is not None
    paths = ("/", "/tree", "/nothing", "/login", "/link/none", "/badge", static.group(1),
             "/api/v1/status", "/openapi.json", "/metrics")  # fmt: skip
    yield from map(browser.get, paths)
    yield browser.get("/", host="evil.example")
    yield browser.get("/", host=f"127.0.0.1:{browser.web.port}")
    yield browser.post("/agents/root/do/stop", {"form_token": "wrong"})
    yield browser.post("/agents/root/do/stop", {}, origin="http://evil.example")
    yield browser.web.ask("GET", "/tree")
    with browser.web.connect() as stream:
        stream.sendall(browser.web.request("GET", "/live?topics=tree", cookie=browser.cookie))
        head, _, _ = stream.recv(4096).partition(b"\r\n\r\n")  # frames may come with it
        yield parse_answer(head + b"\r\n\r\n")


def test_every_response_has_the_security_headers(browser: FakeBrowser) -> None:
    statuses = set()
    for answer in secured_answers(browser):
        statuses.add(answer.status)
        headers = dict(answer.headers)
        policy = sorted(headers.pop("content-security-policy").split("; "))
        assert policy == POLICY
        assert headers.items() >= {
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "x-content-type-options": "nosniff", "referrer-policy": "no-referrer",
        }.items()  # fmt: skip
        is_file = "immutable" in headers["cache-control"]
        assert is_file or headers["cache-control"] == "no-store"
        assert not any(name.startswith("access-control-") for name in headers)
    assert statuses >= {200, 303, 307, 401, 403, 404, 421}


def test_the_tree_shows_all_agents_in_their_order(browser: FakeBrowser) -> None:
    page = browser.get("/tree").text

    order = [page.index(f'data-name="{name}"') for name in ("root", "carl", "lead", "w-9", "w-10")]
    assert order == sorted(order)


def test_a_folded_branch_is_one_row_with_sums(browser: FakeBrowser) -> None:
    page = browser.get("/tree?fold=lead").text

    assert 'data-name="w-9"' not in page
    assert "3 agents" in page


def test_a_filter_shows_what_matches(browser: FakeBrowser) -> None:
    page = browser.get("/tree?filter=w-").text
    assert page.count('<span class="parent">in <bdi>lead</bdi></span>') == 2
    assert 'class="parent"' not in browser.get("/tree").text

    assert 'data-name="w-10"' in page
    assert 'data-name="lead"' not in page


def test_a_question_is_answered_on_its_page(browser: FakeBrowser, web: RunningDashboard) -> None:
    items = [{"prompt": "Which colour?", "options": ["red", "green"]}]
    asked = web.hived.call("root", "ask_user", items=items)
    address = f"/questions/{asked['question']}"

    assert "Which colour?" in browser.get("/").text
    page = browser.get(address).text
    assert 'name="choice0" value="1"> <bdi>green</bdi>' in page
    assert browser.post(f"{address}/answer", {"items": "1", "choice0": "1"}).status == 303

    assert "Which colour?" not in browser.get("/").text
    assert "green" in str(web.hived.call("operator", "get_question", question=asked["question"]))


def test_an_agents_page_shows_its_mail(browser: FakeBrowser) -> None:
    assert browser.post("/agents/lead/say", {"body": "Hello <b>lead</b>"}).status == 303

    page = browser.get("/agents/lead/mail").text

    assert "<bdi>Hello &lt;b&gt;lead&lt;/b&gt;</bdi>" in page


def test_each_tab_of_an_agent_is_drawn(browser: FakeBrowser) -> None:
    for tab in ("talk", "tasks", "mail", "logs", "config", "tools"):
        assert browser.get(f"/agents/carl/{tab}").status == 200, tab


def test_an_action_lists_whom_it_is_about(browser: FakeBrowser) -> None:
    page = browser.get("/agents/lead/ask/stop").text

    assert "these are 3 agents" in page
    assert browser.post("/agents/lead/do/stop", {"recursive": "yes"}).status == 303


def test_destroying_an_agent_takes_its_typed_name_and_a_confirmation(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    web.hived.call("operator", "spawn", name="short-lived", parent="root")

    assert browser.post("/agents/short-lived/do/destroy", {"typed": "other"}).status == 400
    answer = browser.post("/agents/short-lived/do/destroy", {"typed": "short-lived"})

    assert "Confirm <bdi>destroy</bdi>" in answer.text
    assert web.hived.call("operator", "get_agent", agent="short-lived")["name"] == "short-lived"


def test_the_audit_page_has_the_newest_event_first(browser: FakeBrowser) -> None:
    browser.post("/agents/lead/say", {"body": "once more"})

    page = browser.get("/audit").text

    assert "send" in page.partition('id="audit"')[2].partition("</li>")[0]


def test_why_names_the_rule(browser: FakeBrowser) -> None:
    page = browser.get("/audit/why?caller=carl&operation=stop&target=lead").text

    assert "refused" in page


def test_a_refusal_of_hived_is_a_page_with_its_reason(browser: FakeBrowser) -> None:
    answer = browser.get("/agents/nobody")

    assert answer.status == 404
    assert "nobody" in answer.text


def test_static_files_are_kept_by_browsers(browser: FakeBrowser) -> None:
    page = browser.get("/").text
    address = page.partition('rel="stylesheet" href="')[2].partition('"')[0]

    answer = browser.get(address)

    assert answer.status == 200
    assert "immutable" in answer.headers["cache-control"]
    assert browser.get(address.replace("hive.css", "other.css")).status == 404


def test_logging_out_ends_the_cookie_at_hived(browser: FakeBrowser, web: RunningDashboard) -> None:
    def count() -> int:
        return len(rows(web.hived.call("operator", "list_logins")["logins"]))

    before = count()
    assert browser.post("/logout", {}).status == 303

    assert count() == before - 1
    assert browser.get("/tree").headers["location"] == "/login"


def test_tasks_stand_by_what_they_wait_for(browser: FakeBrowser, web: RunningDashboard) -> None:
    web.hived.call("operator", "assign_task", agent="w-10", title="Paint <it>", description="x")

    assert "Paint &lt;it&gt;" in browser.get("/tasks").text


def test_cost_is_summed_by_what_the_address_says(browser: FakeBrowser) -> None:
    for group in ("agent", "model", "task", "day", "nonsense"):
        assert browser.get(f"/cost?by={group}").status == 200


def test_a_link_of_a_notification_asks_before_it_acts(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    def offer(world: World) -> str:
        client = open_login(world, "notify", ["notifier"])
        link = {
            "operation": "stop",
            "parameters": {"agent": "w-9", "recursive": True},
            "label": "Stop <it>",
        }
        return str(client.call("offer_links", links=[link])["links"][0]["url"])

    path = f"/link/{web.hived.do(offer).rpartition('/')[2]}"
    page = web.ask("GET", path)
    foreign = web.ask("POST", path, origin="http://evil.example")
    assert "Stop &lt;it&gt;" in page.text
    assert "all agents below it" in page.text
    assert "sub-tasks" not in page.text
    assert foreign.status == 403

    assert "Done" in web.ask("POST", path).text
    assert web.ask("POST", path).status == 403
    assert web.ask("GET", "/link/no_x").status == 403
    assert browser.get(path).status == 403


def test_a_link_that_cancels_a_task_says_what_ends_too(web: RunningDashboard) -> None:
    def offer(world: World) -> str:
        task = world.call("operator", "assign_task", agent="w-9", title="x", description="y")[
            "task"
        ]
        link = {"operation": "cancel_task", "parameters": {"task": task}, "label": "Cancel"}
        client = open_login(world, "notify", ["notifier"])
        return str(client.call("offer_links", links=[link])["links"][0]["url"])

    page = web.ask("GET", f"/link/{web.hived.do(offer).rpartition('/')[2]}")
    assert "<dt>Also</dt><dd>all its sub-tasks</dd>" in page.text


def test_rows_that_are_read_again_are_those_of_the_page(browser: FakeBrowser) -> None:
    for path, query in (("/tasks", ""), ("/cost", "?by=day")):
        rows_alone = browser.get(f"{path}/rows{query}").text

        assert "<html" not in rows_alone
        assert rows_alone.strip() in browser.get(f"{path}{query}").text


def test_a_fault_of_hive_web_is_a_page_that_says_where_its_report_is(
    browser: FakeBrowser, web: RunningDashboard, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> float:
        raise ValueError("no time")

    reads = web.app.web.reads
    clock, reads.clock = reads.clock, fail
    try:
        answer = browser.get("/cost")
    finally:
        reads.clock = clock
    assert answer.status == 500
    assert "journalctl -u hive-web" in answer.text
    assert "no time" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "Cannot answer GET /cost" in caplog.text
