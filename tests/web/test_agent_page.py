"""The page of an agent: figures of turns, its plan and prompt, and what it says just now."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fixtures.dashboard import (
    FakeBrowser,
    RunningDashboard,
    free_socket,
    origin_of,
    running_dashboard,
)
from fixtures.event_streams import Event, events, newest, next_of
from fixtures.login_server import login_server
from fixtures.model_calls import MODELS, TIERS, finish, reserve
from fixtures.tasks import take
from fixtures.world import World, rows

from hive_core.model.config.settings import Settings
from hive_core.model.config.web import WebSettings
from hive_core.web.live_turns import TEXT_MOST, WAIT_SECONDS, RunningTurn, printable, take_parts
from hive_core.web.rendering import first_sentence, state_words


@pytest.fixture(scope="module")
def web() -> Iterator[RunningDashboard]:
    """A hive whose calls of models are measured."""
    listening = free_socket()
    settings = Settings(models=TIERS, web=WebSettings(origins=(origin_of(listening),)))
    edges = ("root/lead", "lead/w-9", "root/carl:worker")
    with (
        TemporaryDirectory() as folder,
        login_server(Path(folder), *edges, settings=settings, models=MODELS) as hived,
        running_dashboard(hived, listening) as made,
    ):
        yield made


@contextmanager
def following(browser: FakeBrowser, agent: str, topics: str = "agent") -> Iterator[Iterator[Event]]:
    """The event stream of the page of an agent."""
    connection = browser.web.connect()
    path = f"/live?topics={topics}&after={newest(browser)}&agent={agent}"
    connection.sendall(
        browser.web.request("GET", path, cookie=browser.cookie, accept_encoding="gzip")
    )
    try:
        stream = events(connection, packed=True)
        next(stream)
        yield stream
    finally:
        connection.close()


def part(at: int, text: str, *, ended: bool = False) -> dict[str, object]:
    return {"conversation": "main", "turn": 1, "at": at, "text": text, "ended": ended}


def say(browser: FakeBrowser, agent: str, text: str, turn: int = 1) -> None:
    browser.web.hived.pass_time(1.0)  # for the limit on live text
    browser.web.hived.call(agent, "stream_turn", conversation="main", turn=turn, text=text)


def keep(browser: FakeBrowser, agent: str, **turn: object) -> None:
    browser.web.hived.call(agent, "keep_turn", **{"conversation": "main", "status": "done", **turn})


def test_a_turn_shows_what_its_calls_of_models_used(browser: FakeBrowser) -> None:
    hived = browser.web.hived
    hived.do(lambda world: finish(world, reserve(world, "carl"), tokens_in=9000))
    keep(browser, "carl", turn=1, text="before")
    hived.pass_time(60.0)
    began = hived.do(lambda world: world.clock.now())
    hived.pass_time(7.0)
    for tokens in (1200, 300):
        use = {"tokens_in": tokens, "tokens_out": 30, "cost": 0.002}
        hived.do(lambda world, use=use: finish(world, reserve(world, "carl"), **use))  # type: ignore[misc]  # of a lambda
    keep(browser, "carl", turn=2, text="after", began=began)

    page = browser.get_when("/agents/carl/talk", lambda page: "1.5k tokens in, 60 out" in page)
    turn = page.partition("<h2>Turn 2")[2].partition("</article>")[0]

    assert "sonnet" in turn
    assert "1.5k tokens in, 60 out" in turn
    assert "cost 0.0040" in turn
    seconds = re.search(r"<span>([0-9.]+) s</span>", turn)
    assert seconds
    assert float(seconds.group(1)) >= 7.0
    assert "9.0k tokens in" in page.partition("<h2>Turn 1")[2].partition("</article>")[0]


def test_the_prompt_is_that_of_the_newest_change(browser: FakeBrowser) -> None:
    assert "No turn with a system text" in browser.get("/agents/w-9/prompt").text
    keep(browser, "w-9", turn=1, system="Be <brief>.\nAlways.")
    for turn in range(2, 60):
        keep(browser, "w-9", turn=turn, text="x")

    page = browser.get("/agents/w-9/prompt").text

    assert "<bdi>Be &lt;brief&gt;.</bdi>\n<bdi>Always.</bdi>" in page
    keep(browser, "w-9", turn=60, system="Be long.")
    assert "Be long." in browser.get("/agents/w-9/prompt").text


def test_the_tasks_of_an_agent_begin_with_its_plan(browser: FakeBrowser) -> None:
    def plan(world: World) -> str:
        task = world.call(
            "operator", "assign_task", agent="carl", title="Sort", description="x",
            plan_required=True,
        )["task"]  # fmt: skip
        take(world, "carl")
        steps = ["list <them>", "sort them"]
        made = world.call("carl", "create_plan", task=task, steps=steps, note="Two days.")
        return f"{task} {made['plan']}"

    task, made = browser.web.hived.do(plan).split()
    page = browser.get("/agents/carl/tasks").text
    assert "Plan, <bdi>submitted</bdi>" in page
    assert "list &lt;them&gt;" in page
    assert f'href="/plans/{task}"' in page

    def carry_out(world: World) -> None:
        world.call("operator", "approve_plan", task=task, plan=made)
        take(world, "carl")
        world.call("carl", "update_plan_step", plan=made, step=1, status="in_progress")

    browser.web.hived.do(carry_out)
    page = browser.get("/agents/carl/tasks").text
    assert "Plan, <bdi>approved</bdi>" in page
    assert 'class="step p-in_progress"><bdi>works</bdi>' in page


def test_the_tab_of_mail_counts_it(browser: FakeBrowser, web: RunningDashboard) -> None:
    count = len(web.hived.call("operator", "list_messages", agent="lead")["messages"])  # type: ignore[arg-type]  # a list
    with following(browser, "lead", "tree") as stream:
        web.hived.call("operator", "send", to="lead", body="one more")
        next_of(stream, "tree")

    tab = f'>Mail <span class="count">{count + 1}</span></a>'
    assert tab in browser.get("/agents/lead/talk/rows").text


def test_the_rows_of_a_tab_are_those_of_its_page(browser: FakeBrowser) -> None:
    for tab in ("talk", "tasks", "mail", "config", "prompt", "tools"):
        rows = browser.get(f"/agents/lead/{tab}/rows")
        assert rows.status == 200
        assert rows.text.strip() in browser.get(f"/agents/lead/{tab}").text
    assert browser.get("/agents/lead/nothing/rows").status == 404
    assert browser.get("/agents/operator/mail/rows").status == 200


def test_an_event_names_the_agents_whose_pages_are_old(browser: FakeBrowser) -> None:
    with following(browser, "lead") as stream:
        browser.web.hived.call("operator", "send", to="lead", body="news")
        frame = next_of(stream, "agent")

    assert "lead" in json.loads(frame["data"])["names"]


def test_a_running_turn_is_shown_to_who_looks(browser: FakeBrowser) -> None:
    with following(browser, "lead") as stream:
        say(browser, "lead", "one <b>\r\n")
        first = json.loads(next_of(stream, "turn")["data"])
        say(browser, "lead", "two")
        second = json.loads(next_of(stream, "turn")["data"])
        with following(browser, "lead") as late:
            snapshot = json.loads(next_of(late, "turn")["data"])
        keep(browser, "lead", turn=1)
        last = json.loads(next_of(stream, "turn")["data"])

    assert first == {
        "title": "Turn 1 of main", "text": "one <b>⟨U+000D⟩\n", "whole": True, "ended": False,
    }  # fmt: skip
    assert (second["text"], second["whole"]) == ("two", False)
    assert (snapshot["text"], snapshot["whole"]) == ("one <b>⟨U+000D⟩\ntwo", True)
    assert last["ended"]


def test_nobody_else_gets_the_text_of_a_turn(browser: FakeBrowser) -> None:
    with following(browser, "lead") as lead, following(browser, "carl") as carl:
        say(browser, "lead", "secret of lead", turn=5)
        next_of(lead, "turn")
        say(browser, "carl", "mine", turn=6)
        frame = next_of(carl, "turn")

    assert json.loads(frame["data"])["text"] == "mine"


def test_an_agent_that_nobody_looks_at_is_not_followed(browser: FakeBrowser) -> None:
    turns = browser.web.app.web.hub.turns
    with following(browser, "nobody"):
        assert "nobody" not in turns.followed
    with following(browser, "w-9") as stream:
        say(browser, "w-9", "x", turn=70)
        next_of(stream, "turn")
        assert "w-9" in turns.followed
        (reading,) = [task for task in _tasks(browser.web) if task.get_name() == "turns of w-9"]
    _drop_and_wait(browser, reading)
    assert "w-9" not in turns.followed

    logins = _count_logins(browser)
    with following(browser, "lead") as stream:
        say(browser, "lead", "y", turn=71)
        next_of(stream, "turn")
    assert _count_logins(browser) == logins


def test_parts_of_a_turn_follow_one_another() -> None:
    turns: dict[str, RunningTurn] = {}

    def take(*parts: dict[str, object]) -> list[tuple[object, object]]:
        values = take_parts(turns, {"parts": list(parts)})
        return [(value["text"], value["whole"]) for value in values]

    assert take(part(0, "ab"), part(2, "cd")) == [("ab", True), ("cd", False)]
    assert take(part(9, "later")) == [("later", True)]
    assert turns["Turn 1 of main"].text == "later"
    assert take(part(14, "x" * TEXT_MOST)) == [("x" * TEXT_MOST, False)]
    assert len(turns["Turn 1 of main"].text) == TEXT_MOST
    assert take(part(14 + TEXT_MOST, "", ended=True)) == [("", False)]
    assert turns == {}


def test_live_text_keeps_its_lines_and_nothing_invisible() -> None:
    assert printable("a\nb\u202ec\x1b[31m") == "a\nb⟨U+202E⟩c⟨U+001B⟩[31m"


def test_words_for_states_and_first_sentences() -> None:
    assert state_words("awaiting_plan_approval") == "waits for a plan"
    assert state_words("done") == "done"
    assert state_words("new_state") == "new state"
    assert first_sentence("Read a file, e.g. this\none. Then more.\n\nThe end.") == (
        "Read a file, e.g. this one.",
        "Then more.\n\nThe end.",
    )
    assert first_sentence("Only this.") == ("Only this.", "")
    assert first_sentence("") == ("", "")


def _tasks(web: RunningDashboard) -> set[asyncio.Task[object]]:
    return asyncio.all_tasks(web.loop)


def _drop_and_wait(browser: FakeBrowser, reading: asyncio.Task[object]) -> None:
    """The stream has ended; so does the reading, with the call that waits for text."""
    hub = browser.web.app.web.hub

    async def wait() -> None:
        while hub.turns.has_viewer("w-9"):
            await asyncio.wait([reading], timeout=0.01)
        await asyncio.to_thread(browser.web.hived.pass_time, WAIT_SECONDS)
        await asyncio.wait([reading])

    asyncio.run_coroutine_threadsafe(wait(), browser.web.loop).result(30)


def _count_logins(browser: FakeBrowser) -> int:
    def count(world: World) -> int:
        events = rows(world.call("operator", "list_events", limit=1000)["events"])
        return sum(event["operation"] == "open_login" for event in events)

    return browser.web.hived.do(count)
