"""The page of a task: what it shows in each state, and what decides it by the scopes of a login."""

from __future__ import annotations

import re

import pytest
from fixtures.dashboard import FakeBrowser, RunningDashboard
from fixtures.tasks import finish, give
from fixtures.world import World, rows

from hive_core.varlink import Message


def deliver(world: World) -> str:
    """A task of `lead` with a plan, whose result waits for a verdict."""
    task = give(
        world, "operator", "lead", title="Oil <it>", description="Every hinge.",
        criteria={"text": "It is <quiet>.", "data": ["hinges"], "retries": 2},
    )  # fmt: skip
    plan = world.call("lead", "create_plan", task=task, steps=["look", "oil"], note="slowly")
    world.call("operator", "approve_plan", task=task, plan=plan["plan"])
    finish(world, "lead", task, summary="It still <squeaks>.", data={"hinges": 3})
    return task


@pytest.fixture(autouse=True)
def _no_other_tasks(web: RunningDashboard) -> None:
    """An agent works on one task at a time."""

    def cancel(world: World) -> None:
        for task in rows(world.call("operator", "list_tasks", limit=100)["tasks"]):
            if task["ended"] is None:
                world.fault("operator", "cancel_task", task=task["id"])
                end = {"task": task["id"], "status": "stopped", "summary": "it was cancelled"}
                world.fault(str(task["agent"]), "finish_task", **end)

    web.hived.do(cancel)


def main_of(browser: FakeBrowser, path: str) -> str:
    answer = browser.get(path)
    assert answer.status == 200, answer.text
    return answer.text.partition("<main")[2].partition("</main>")[0]


def task_of(web: RunningDashboard, task: str) -> Message:
    reply = web.hived.call("operator", "get_task", task=task)
    assert isinstance(reply["task"], dict)
    return {**reply, **reply["task"]}


def test_a_task_shows_what_was_asked_what_came_out_and_what_happened(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    page = main_of(browser, f"/tasks/{web.hived.do(deliver)}")

    for words in (
        "Oil &lt;it&gt;", "waits for a verdict", 'href="/agents/lead/tasks"', "the operator",
        "Every hinge.", "It is &lt;quiet&gt;.", "hinges", "given back at most 2 times", "slowly",
        "look", "Result, <bdi>success</bdi>", "It still &lt;squeaks&gt;.", "<bdi>begin</bdi>",
    ):  # fmt: skip
        assert words in page, words
    assert page.count("<form") == 3


def test_what_stands_before_a_task_is_linked(browser: FakeBrowser, web: RunningDashboard) -> None:
    def chain(world: World) -> tuple[str, str, str]:
        whole = give(world, "operator", "lead", title="Paint")
        first = give(world, "lead", "w-9", title="Sand", part_of=whole)
        then = give(world, "lead", "w-10", title="Varnish", needs=[first], part_of=whole)
        return whole, first, then

    whole, first, then = web.hived.do(chain)
    page = main_of(browser, f"/tasks/{then}")
    assert f'<dt>Part of</dt><dd><a href="/tasks/{whole}">' in page
    assert f'<dt>Waits for</dt><dd><a href="/tasks/{first}">' in page
    assert '<a href="/agents/lead/tasks"><bdi>lead</bdi></a>' in page
    assert "<dt>Open sub-tasks</dt><dd>2</dd>" in main_of(browser, f"/tasks/{whole}")
    for path in ("/tasks", "/agents/w-10/tasks", "/tasks/graph"):
        assert f'href="/tasks/{then}"' in main_of(browser, path), path


def test_a_result_is_accepted_on_its_page(browser: FakeBrowser, web: RunningDashboard) -> None:
    task = web.hived.do(deliver)
    address = f"/tasks/{task}/judge"
    fields = {"page": "task", "attempt": "1", "verdict": "retry", "feedback": "the lower one"}
    assert browser.post(address, {**fields, "feedback": " "}).status == 400

    answer = browser.post(address, fields)

    assert answer.headers["location"] == f"/tasks/{task}"
    page = main_of(browser, f"/tasks/{task}")
    assert "<b><bdi>retry</bdi></b> by <bdi>operator</bdi>" in page
    assert "the lower one" in page
    assert "/judge" not in page
    web.hived.do(lambda world: world.call("operator", "cancel_task", task=task))


def test_the_item_of_a_result_opens_its_page(browser: FakeBrowser, web: RunningDashboard) -> None:
    task = web.hived.do(deliver)
    assert f'class="open" href="/tasks/{task}"' in main_of(browser, "/")
    accepted = {"page": "task", "attempt": "1", "verdict": "accept"}
    assert browser.post(f"/tasks/{task}/judge", accepted).status == 303
    assert task_of(web, task)["state"] == "done"
    page = main_of(browser, f"/tasks/{task}")
    assert "It still &lt;squeaks&gt;." in page
    assert "<form" not in page


def test_an_open_task_is_cancelled_on_its_page(browser: FakeBrowser, web: RunningDashboard) -> None:
    wish = {"agent": "carl", "title": "Dig", "description": "x"}
    task = str(web.hived.call("operator", "assign_task", **wish)["task"])

    answer = browser.post(f"/tasks/{task}/cancel", {"reason": "it rains"})

    assert answer.headers["location"] == f"/tasks/{task}"
    assert (task_of(web, task)["state"], task_of(web, task)["why"]) == ("cancelled", "it rains")


def test_a_viewer_sees_a_task_and_decides_nothing(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    task = web.hived.do(deliver)
    assert "<form" in main_of(browser, f"/tasks/{task}")
    web.hived.link("vi", ["viewer"])
    viewer = FakeBrowser(web, "vi")

    page = main_of(viewer, f"/tasks/{task}")

    assert "It still &lt;squeaks&gt;." in page
    assert "<form" not in page
    for path, fields in (("cancel", {}), ("judge", {"verdict": "accept", "attempt": "1"})):
        assert viewer.post(f"/tasks/{task}/{path}", fields).status == 403


def test_the_rows_of_a_page_that_is_old_have_no_form(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    """A login may share them, and what is typed in a form would be lost."""
    task = web.hived.do(deliver)
    fresh = browser.get(f"/tasks/{task}/rows").text
    assert "<form" not in fresh
    assert f'<a class="button" href="/tasks/{task}">Decide the result</a>' in fresh
    page = main_of(browser, f"/tasks/{task}")
    assert f'data-rows="/tasks/{task}/rows"' in page
    assert "Decide the result" not in page
    listed = rows(web.hived.call("operator", "get_task", task=task)["history"])
    assert len(re.findall('<td class="still">', page)) == len(listed)


@pytest.mark.parametrize("path", ["/tasks/nothing", "/tasks/nothing/rows"])
def test_a_task_that_is_not_there_is_said_so(browser: FakeBrowser, path: str) -> None:
    assert browser.get(path).status == 404
