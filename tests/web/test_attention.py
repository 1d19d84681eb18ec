"""What waits is decided where it is listed: each kind of item has a form or a command for it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from fixtures.approvals import ask, judge, line
from fixtures.dashboard import (
    FakeBrowser,
    RunningDashboard,
    free_socket,
    origin_of,
    running_dashboard,
)
from fixtures.login_server import login_server
from fixtures.tasks import finish, give
from fixtures.world import World, rows

from hive_core.cli.main import COMMANDS
from hive_core.errors import LimitReached
from hive_core.model.agents.machine import State
from hive_core.model.config.settings import Settings
from hive_core.model.config.web import WebSettings
from hive_core.operations.host.todo import KINDS
from hive_core.testing.clock import TIME
from hive_core.varlink import Message
from hive_core.web.done_today import DoneToday
from hive_core.web.offers import OFFERS, top_up_amount

LATER: Final = 3600.0  # still before midnight
# Kinds that no login settles: their row names the command of the host.
ON_THE_HOST: Final = {"alarm", "refused_commit"}
_FORM: Final = re.compile(r'<form method="post" action="([^"]+)"[^>]*>(.*?)</form>', re.DOTALL)
_HIDDEN: Final = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')
_TYPED: Final = re.compile(r'<input name="([^"]+)" aria-label=')
Form = tuple[str, dict[str, str], str]


@pytest.fixture(scope="module", name="web")
def _web() -> Iterator[RunningDashboard]:
    """A hive whose dashboard takes the time from the world of the test, an hour later."""
    listening = free_socket()
    settings = Settings(web=WebSettings(origins=(origin_of(listening),)))
    edges = ("root/lead", "lead/w-9", "root/carl:worker", "root/dora")
    with (
        TemporaryDirectory() as folder,
        login_server(Path(folder), *edges, settings=settings) as hived,
        running_dashboard(hived, listening, lambda: TIME + LATER) as made,
    ):
        yield made


def forms(row: str) -> list[Form]:
    """The forms of a row: where each posts, what it holds, and the name of what is typed."""
    parsed = []
    for address, inside in _FORM.findall(row):
        values = {name: unescape(value) for name, value in _HIDDEN.findall(inside)}
        typed = _TYPED.search(inside)
        parsed.append((unescape(address), values, typed.group(1) if typed else ""))
    return parsed


def items_of(web: RunningDashboard) -> list[dict[str, object]]:
    return rows(web.hived.call("operator", "todo")["todo"])


def row_of(browser: FakeBrowser, kind: str, text: str = "") -> str:
    """The row of an item in the page."""
    page = browser.get("/").text.partition('id="attention"')[2].partition('id="nothing"')[0]
    found_rows = re.split(r'<li id="t-[0-9a-f]+" class="item">', page)[1:]
    marked = f'<span class="kind k-{kind.replace("_", "-")}">'
    (row,) = [row for row in found_rows if marked in row and text in row]
    return row


def make_alarm(world: World) -> None:
    world.seen.warnings.append("the disk is nearly full")


def make_quarantine(world: World) -> None:
    world.call("operator", "quarantine", agent="carl", reason="it writes to everybody")


def make_escalation(world: World) -> None:
    world.call("root", "escalate", issue="The door is locked", severity="error")


def make_question(world: World) -> None:
    items = [{"prompt": "Which colour?", "options": ["red", "light <b>green</b>"]}]
    world.call("root", "ask_user", items=items)


def make_plan(world: World) -> None:
    task = give(world, "operator", "w-9", title="Dig", plan_required=True)
    world.call("w-9", "create_plan", task=task, steps=["look", "dig"])


def make_judgement(world: World) -> None:
    task = give(world, "operator", "dora", title="Close it", criteria={"text": "It closes."})
    finish(world, "dora", task, summary="It is <closed>.")


def make_approval(world: World) -> None:
    judge(world, ask(world, "root", "lead"), {"boot": True}, [line("one")])


def make_parked(world: World) -> None:
    world.seen.states[world.uuid("dora")] = State.PARKED


def make_failed(world: World) -> None:
    world.seen.states[world.uuid("lead")] = State.FAILED


def make_refused_commit(world: World) -> None:
    world.seen.parked.append(("f" * 40, "a cycle"))


def make_mail(world: World) -> None:
    world.call("root", "send", to="operator", body="Good morning")


def make_dead_letters(world: World) -> None:
    sent = world.call("root", "send", to="carl", body="x")
    world.call("carl", "recv")
    world.call("carl", "nack", ids=[sent["id"]], why="no hands", dead=True)


MAKERS: Final[dict[str, Callable[[World], None]]] = {
    "alarm": make_alarm, "quarantine": make_quarantine, "escalation": make_escalation,
    "question": make_question, "plan": make_plan, "judgement": make_judgement,
    "approval": make_approval, "parked": make_parked, "failed": make_failed,
    "refused_commit": make_refused_commit, "mail": make_mail, "dead_letters": make_dead_letters,
}  # fmt: skip


def run_states(world: World) -> None:
    """What the change path does with agents that are to start: here at once."""
    world.seen.states.clear()


def test_each_kind_of_item_has_an_offer() -> None:
    assert set(OFFERS) == set(KINDS) == set(MAKERS)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_settled_where_it_is_listed(
    web: RunningDashboard, browser: FakeBrowser, kind: str
) -> None:
    web.hived.do(MAKERS[kind])
    (item,) = [item for item in items_of(web) if item["kind"] == kind]
    row = row_of(browser, kind)
    assert f"<bdi>{kind.replace('_', ' ')}</bdi>" in row
    if kind in ON_THE_HOST:
        program, name, *_ = re.findall(r"<code>([^<]+)</code>", row)[0].split()
        assert (program, name in COMMANDS) == ("hive", True)
        assert forms(row) == []
        return

    address, values, typed = forms(row)[0]
    answer = browser.post(address, {**values, **({typed: "as you like"} if typed else {})})
    web.hived.do(run_states)

    assert answer.status == 303, answer.text
    assert answer.headers["location"] == "/"
    ids = {row["id"] for row in items_of(web) if row["kind"] == kind}
    assert item["id"] not in ids


def test_letters_that_came_after_the_page_stay_unread(
    web: RunningDashboard, browser: FakeBrowser
) -> None:
    web.hived.do(make_mail)
    row = row_of(browser, "mail")
    assert "from root: Good morning" in row
    ((address, values, _),) = forms(row)
    late = web.hived.call("root", "send", to="operator", body="Good night <b>all</b>")["id"]
    assert browser.post(address, {}).status == 400
    assert browser.post(address, {**values, "id": str(late)}).status == 400

    assert browser.post(address, values).status == 303

    page = browser.get("/agents/operator/mail").text
    assert "Good morning" not in page
    assert "Good night &lt;b&gt;all&lt;/b&gt;" in page
    one = browser.post(address, {"page": "mail", "id": str(late)})
    assert one.headers["location"] == "/agents/operator/mail"
    assert "The inbox is empty." in browser.get("/agents/operator/mail").text


def test_a_viewer_reads_letters_to_the_operator_and_marks_none(
    web: RunningDashboard, browser: FakeBrowser
) -> None:
    web.hived.do(make_mail)
    web.hived.link("vic", ["viewer"])
    viewer = FakeBrowser(web, "vic")

    page = viewer.get("/agents/operator/mail").text

    assert "Good morning" in page
    assert "/mail/read" not in page
    assert "/mail/read" in browser.get("/agents/operator/mail").text
    (item,) = [item for item in items_of(web) if item["kind"] == "mail"]
    assert viewer.post("/mail/read", {"up_to": str(item["up_to"])}).status == 403
    assert browser.post("/mail/read", {"up_to": str(item["up_to"])}).status == 303


def test_dead_letters_that_came_after_the_page_are_kept(
    web: RunningDashboard, browser: FakeBrowser
) -> None:
    web.hived.do(make_dead_letters)
    ((address, values, _),) = forms(row_of(browser, "dead_letters"))
    web.hived.do(make_dead_letters)
    wrong = ("x", "", "9" * 5000, "٣")
    assert {browser.post(address, {**values, "as_of": text}).status for text in wrong} == {400}
    assert browser.post(address, values).status == 303

    (last,) = [item for item in items_of(web) if item["kind"] == "dead_letters"]
    assert str(last["text"]).startswith("1 that ")
    assert int(str(last["as_of"])) > int(values["as_of"])


def test_an_offered_answer_is_a_button(web: RunningDashboard, browser: FakeBrowser) -> None:
    options = ["oak", "<i>ash</i>\u202e"]
    items = [{"prompt": "Which wood?", "options": options}]
    asked = web.hived.call("root", "ask_user", items=items)["question"]
    row = row_of(browser, "question", "Which wood?")
    assert "<button><bdi>&lt;i&gt;ash&lt;/i&gt;⟨U+202E⟩</bdi></button>" in row

    address, values, _ = forms(row)[1]
    for number in ("2", "-1", "x"):
        assert browser.post(address, {**values, "choice0": number}).status == 400
    browser.post(address, values)

    details = web.hived.call("operator", "get_question", question=asked)
    assert [item["answer"] for item in rows(details["items"])] == options[1:]
    page = browser.get(f"/questions/{asked}").text
    assert "<h3>Answer</h3>" in page
    assert "&lt;i&gt;ash&lt;/i&gt;" in page
    assert "<form method=" not in page.partition("<main")[2]


def test_what_is_typed_is_an_answer(web: RunningDashboard, browser: FakeBrowser) -> None:
    items = [{"prompt": "Which nail?", "options": ["long", "thin"]}]
    asked = web.hived.call("root", "ask_user", items=items)["question"]

    address, values, typed = forms(row_of(browser, "question", "Which nail?"))[-1]
    browser.post(address, {**values, typed: "a short one"})

    details = web.hived.call("operator", "get_question", question=asked)
    assert [item["answer"] for item in rows(details["items"])] == ["a short one"]


def test_a_question_with_two_parts_has_its_page_alone(
    web: RunningDashboard, browser: FakeBrowser
) -> None:
    web.hived.call("root", "ask_user", items=[{"prompt": "First of two"}, {"prompt": "Second"}])

    row = row_of(browser, "question", "First of two")

    assert forms(row) == []
    assert "2 parts" in row
    assert 'class="open" href="/questions/' in row


def test_a_result_is_given_back_with_what_is_missing(
    web: RunningDashboard, browser: FakeBrowser
) -> None:
    def deliver(world: World) -> str:
        task = give(world, "operator", "carl", title="Oil it", criteria={"text": "Quiet."})
        finish(world, "carl", task, summary="It still <squeaks>.")
        return task

    task = web.hived.do(deliver)
    row = row_of(browser, "judgement", "Oil it")
    assert "It still &lt;squeaks&gt;." in row
    address, values, typed = forms(row)[1]
    for fields in ({typed: " "}, {"verdict": "escalate"}, {"attempt": "x"}):
        assert browser.post(address, {**values, **fields}).status == 400
    assert browser.post(address, {**values, typed: "oil the lower hinge"}).status == 303

    details = web.hived.call("operator", "get_task", task=task)
    verdicts = [(row["verdict"], row["feedback"]) for row in rows(details["judgements"])]
    assert verdicts == [("retry", "oil the lower hinge")]
    assert browser.post(address, {**values, "verdict": "accept"}).status == 409


def test_a_budget_that_is_used_up_is_topped_up_or_its_work_stopped(
    web: RunningDashboard, browser: FakeBrowser
) -> None:
    def use_up(world: World) -> None:
        world.call("operator", "allocate_budget", agent="root", kind="tokens", amount=300_000)
        give(world, "operator", "root", title="Read all")
        world.call("root", "report_usage", tokens_in=300_000)

    web.hived.do(use_up)
    row = row_of(browser, "question", "tokens")
    assert "+100k" in row
    assert "300k spent" in row
    (top_up, none, number, stop) = forms(row)
    assert top_up[1]["text0"] == "100000"
    assert none[1]["text0"] == "0"
    assert number[2] == "text0"

    confirmed = browser.post(top_up[0], top_up[1])
    assert "Confirm <bdi>answer</bdi>" in confirmed.text
    assert "hive question answer" in confirmed.text
    assert browser.post(stop[0], {stop[2]: ""}).status == 400
    assert browser.post(stop[0], {stop[2]: "enough for today"}).status == 303
    (task,) = [
        row for row in rows(web.hived.call("operator", "list_tasks", agent="root")["tasks"])
        if row["title"] == "Read all"
    ]  # fmt: skip
    assert task["state"] in ("cancelled", "stopping")
    web.hived.call("operator", "allocate_budget", agent="root", kind="tokens", close=True)


@pytest.mark.parametrize(
    ("spent", "left", "amount"),
    [(300_000, 0, 100_000), (0, 10, 3), (29, 0, 9), (2, 0, 0), (5, -3, 1), (0, 0, 0)],
)
def test_a_top_up_is_a_third_as_one_digit_and_zeros(spent: int, left: int, amount: int) -> None:
    assert top_up_amount({"spent": spent, "left": left}) == amount


def test_the_head_says_what_is_done_today(web: RunningDashboard, browser: FakeBrowser) -> None:
    def count_done() -> int:
        page = browser.get("/").text
        match = re.search(r"<b>\d+</b> working</span><span><b>(\d+)</b> done today", page)
        assert match is not None
        return int(match.group(1))

    def finish_two(world: World) -> None:
        for title in ("one", "two"):
            finish(world, "w-9", give(world, "operator", "w-9", title=title))
        cancelled = give(world, "operator", "w-9", title="three")
        world.call("operator", "cancel_task", task=cancelled)

    before = count_done()
    web.hived.do(finish_two)

    assert count_done() == before + 2
    assert count_done() == before + 2


def test_tasks_of_the_day_before_are_not_counted(web: RunningDashboard) -> None:
    def count(now: float) -> int:
        async def call(operation: str, parameters: Message) -> Message:
            return web.hived.call("operator", operation, **parameters)

        return asyncio.run(done.count(now, call))

    def finish_one(world: World) -> float:
        finish(world, "w-9", give(world, "operator", "w-9"))
        return world.clock.now()

    done, at = DoneToday(), web.hived.do(finish_one)

    assert count(at) >= 1
    assert count(at + 86_400) == 0
    assert done.is_whole


def test_a_count_that_hived_refuses_is_shown_as_not_whole() -> None:
    async def refuse(operation: str, _: Message) -> Message:
        raise LimitReached(f"too many calls: {operation}")

    done = DoneToday()
    assert (asyncio.run(done.count(TIME, refuse)), done.is_whole) == (0, False)


def test_an_item_says_how_long_it_waits(web: RunningDashboard, browser: FakeBrowser) -> None:
    web.hived.call("root", "ask_user", items=[{"prompt": "How long?"}])
    (item,) = [item for item in items_of(web) if item["text"] == "How long?"]
    assert isinstance(item["since"], float)

    row = row_of(browser, "question", "How long?")

    minutes = int((TIME + LATER - item["since"]) // 60)
    assert f">{minutes} min</time>" in row


def test_a_viewer_sees_the_items_and_no_form(web: RunningDashboard, browser: FakeBrowser) -> None:
    web.hived.call("root", "ask_user", items=[{"prompt": "May she?"}])
    assert forms(row_of(browser, "question", "May she?"))
    web.hived.link("vera", ["viewer"])
    viewer = FakeBrowser(web, "vera")

    row = row_of(viewer, "question", "May she?")

    assert forms(row) == []
    assert viewer.post("/agents/carl/settle/start", {}).status == 403
    assert browser.post("/agents/carl/settle/destroy", {}).status == 404
