"""Each page as Chromium draws it: no fault of axe on any screen, and hostile text as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest
from fixtures.approvals import waits
from fixtures.chromium import FOREIGN, Browser
from fixtures.dashboard import RunningDashboard
from fixtures.hostile_text import HOSTILE
from fixtures.logins import open_login
from fixtures.tasks import finish, give
from fixtures.world import World, rows
from long import times

from hive_core.web.pages import agent, cost, more

WIDE, PHONE = 1280, 412
# All rules on one screen of a pair, and what other colours may break on the other one.
Screens = tuple[tuple[str, int], tuple[str, int]]
CONTRAST: Mapping[str, object] = {"runOnly": ["color-contrast"]}
SCREENS: tuple[Screens, ...] = (
    (("light", WIDE), ("dark", PHONE)), (("light", PHONE), ("dark", WIDE)),
)  # fmt: skip
PAGES = (
    "/", "/tree", "/agents/lead/move?parent=carl", "/agents/lead/move?root=yes",
    "/agents/carl/ask/stop", "/agents/carl/ask/destroy", "/new?parent=lead",
    "/selected/stop?agents=w-9,lead", "/tasks", "/tasks/graph", "/timeline", "/audit",
    "/audit/why", "/audit/why?caller=carl&operation=stop&target=lead", "/agents/nobody", "/nothing",
    "/passkey", "/login",
    *(f"/agents/lead/{tab.name}" for tab in agent.TABS),
    *(f"/more/{section.name}" for section in more.SECTIONS),
    *(f"/cost?by={group}" for group in tuple(cost.GROUPS)[:2]),
)  # fmt: skip
ROWS = times(20, 10_000)  # of each list: those behind them are drawn in the same way
# On these the rows are other ones on a phone.
BOTH = ("/", "/tree")
# axe reads the whole page, however few rows it is asked about: the others are taken out.
TAKE_OUT_ROWS = f"""
const rows = document.querySelectorAll("tr:nth-child(n+{ROWS + 1}), li:nth-child(n+{ROWS + 1})");
rows.forEach((row) => row.remove());
"""
CONTROLS = "return /[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u202a-\\u202e\\u2066-\\u2069]/"


@pytest.fixture(scope="module", autouse=True)
def _axe(chrome: Browser) -> None:
    chrome.load_axe_first()


@pytest.fixture(autouse=True)
def _no_complaints(chrome: Browser) -> Iterator[None]:
    yield
    answers = "Failed to load resource: the server responded with a status of 4"
    assert [text for text in chrome.complaints() if answers not in text] == []


@pytest.mark.sized
def test_each_page_is_drawn_without_violations(chrome: Browser, web: RunningDashboard) -> None:
    pages, faults = (*PAGES, *web.hived.do(_fill)), []
    for at, screens in enumerate(SCREENS):
        for path in (*pages[at::2], *(path for path in BOTH if path not in pages[at::2])):
            chrome.open(web.origin + path)
            faults += [f"{path} {fault}" for fault in _look(chrome, screens)]
    assert faults == []


def test_a_confirmation_is_drawn_without_violations(chrome: Browser, web: RunningDashboard) -> None:
    id_ = web.hived.do(lambda world: waits(world, "root", "w-9"))
    chrome.open(f"{web.origin}/approvals/{id_}")
    chrome.find("#approve button").click()
    chrome.until("document.querySelector('h1').textContent.startsWith('Confirm')")

    assert [fault for pair in SCREENS for fault in _look(chrome, pair)] == []


def _look(chrome: Browser, screens: Screens) -> list[str]:
    """The faults of the page that is open, on each of the screens."""
    faults = []
    for scheme, width in screens:
        chrome.use(scheme, width)
        wider = chrome.run("return document.documentElement.scrollWidth - innerWidth")
        if wider > 0:
            faults.append(f"{scheme} {width}: {wider} too wide")
    chrome.run(TAKE_OUT_ROWS)
    for (scheme, width), rules in zip(reversed(screens), (CONTRAST, {}), strict=True):
        chrome.use(scheme, width)
        faults += [f"{scheme} {width}: {fault}" for fault in chrome.violations(rules)]
    return faults


def _fill(world: World) -> list[str]:
    """Something for each page to show; the pages of what waits, and of a link."""
    first = world.call("operator", "assign_task", agent="w-10", title="Dig", description="x")[
        "task"
    ]
    world.call("operator", "assign_task", agent="w-9", title="Fill", description="x", needs=[first])
    world.call("root", "keep_turn", conversation="c", turn=1, status="done")
    world.call("operator", "send", to="lead", body="Hello")
    world.call("carl", "store_artifact", name="x/page.html", text="x")
    fires = world.call(
        "operator", "set_trigger", agent="lead", name="often", when={"every": 60.0},
        action={"kind": "message", "text": "look"},
    )["id"]  # fmt: skip
    asked = world.call("root", "ask_user", items=[{"prompt": "Which?", "options": ["a", "b"]}])
    plan = give(world, "operator", "w-9", title="Dig", plan_required=True)
    world.call("w-9", "create_plan", task=plan, steps=["look", "dig"], note="slowly")
    judged = give(world, "operator", "w-10", title="Oil it", criteria={"text": "Quiet."})
    finish(world, "w-10", judged, summary="It is quiet.")
    approval = waits(world, "root", "lead")
    link = {"operation": "stop", "parameters": {"agent": "w-9", "recursive": True}, "label": "Stop"}
    offered = open_login(world, "notify", ["notifier"]).call("offer_links", links=[link])
    secret = str(offered["links"][0]["url"]).rpartition("/")[2]
    return [
        f"/questions/{asked['question']}", f"/plans/{plan}", f"/approvals/{approval}",
        f"/more/triggers/{fires}", f"/tasks/{first}", f"/tasks/{judged}",
        f"/link/{secret}", "/link/no_x",
    ]  # fmt: skip


def test_hostile_text_stays_text_on_every_page(chrome: Browser, web: RunningDashboard) -> None:
    places = web.hived.do(lambda world: _write_everywhere(world, HOSTILE))
    titles = []
    for path in ("/", "/tree", "/audit", "/tasks/graph", *places):
        chrome.open(web.origin + path)
        assert chrome.run(FOREIGN) == [], path
        assert chrome.run(f"{CONTROLS}.test(document.documentElement.textContent)") is False, path
        titles.append(chrome.run("return document.title"))
        if path == "/tasks/graph":
            assert len(chrome.all(".graph .task")) > len(HOSTILE)
    assert not [title for title in titles if not title.endswith(" - hive")]


def test_hostile_text_stays_text_in_live_rows(chrome: Browser, web: RunningDashboard) -> None:
    chrome.open(f"{web.origin}/")
    chrome.point_at("h1")  # rows do not change under the pointer
    for at, text in enumerate(HOSTILE[:5]):
        items = [{"prompt": f"live {at} {text}"}]
        web.hived.call("root", "ask_user", items=items)
    chrome.until("document.getElementById('attention').textContent.includes('live 4')")

    assert chrome.run(FOREIGN) == []


def _write_everywhere(world: World, texts: Sequence[str]) -> list[str]:
    """Hostile text in each field that an agent may fill; the pages that show it."""
    places = []
    first = world.call("operator", "assign_task", agent="carl", description="x")["task"]
    for at, text in enumerate(texts):
        agent, text_sent = f"row-{at}", text.replace("\x00", "")
        world.call("operator", "send", to=agent, body=text_sent[:60_000])
        world.fault(
            "carl",
            "assign_task",
            agent=agent,
            title=text_sent[:100],
            description=text_sent[:30_000],
            needs=[first],
        )
        world.fault(agent, "report_activity", blocked=True, reason=text_sent[:200])
        world.fault(
            "root",
            "ask_user",
            items=[{"prompt": text_sent[:500], "options": ["a", text_sent[:50]]}],
        )
        word = "".join(char for char in text if "!" <= char <= "~")[:64]
        world.fault(agent, "keep_turn", conversation=word, turn=1, status="done")
        world.reads.journal.write(world.uuid(agent), text_sent)
        places += [f"/agents/{agent}/{tab}" for tab in ("mail", "tasks", "logs")][at % 3 :][:1]
    listed = rows(world.call("operator", "list_questions", limit=100)["questions"])
    places.append(f"/timeline?window=1d&until={round(world.clock.now()) + 60}")
    return places + [f"/questions/{question['id']}" for question in listed[:8]]
