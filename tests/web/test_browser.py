"""The dashboard in a real Chromium: drawn, live, by keyboard and drag (H6), under attack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fixtures.approvals import ask, judge, line
from fixtures.chromium import Browser, add_authenticator, chromium
from fixtures.dashboard import RunningDashboard
from fixtures.hostile_text import HOSTILE
from fixtures.world import World, rows
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

WIDE, PHONE = 1280, 412
SCREENS = (("light", WIDE), ("dark", WIDE), ("light", PHONE), ("dark", PHONE))
PAGES = (
    "/",
    "/tree",
    "/agents/lead/talk",
    "/agents/lead/mail",
    "/agents/lead/move?parent=carl",
    "/new?parent=lead",
    "/selected/stop?agents=w-9,lead",
    "/tasks",
    "/tasks/graph",
    "/timeline",
    "/cost",
    "/more/settings",
    "/agents/lead/figures",
    "/audit",
    "/audit/why",
    "/login",
)
# What only our templates may have, and never an attribute that acts or styles.
FOREIGN = """
const names = new Set("iframe object embed style base math audio video img script".split(" "));
return [...document.querySelectorAll("body *")].filter((element) =>
  names.has(element.localName) || element.id === "foreign"
  || [...element.attributes].some(({name, value}) => name.startsWith("on") || name === "style"
     || name.startsWith("hx-") || /^javascript:/i.test(value))
  || (element.localName === "a" && element.closest(".said, bdi"))
).map((element) => element.outerHTML.slice(0, 200));
"""
CONTROLS = "return /[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u202a-\\u202e\\u2066-\\u2069]/"


@pytest.fixture(scope="module")
def chrome(web: RunningDashboard) -> Iterator[Browser]:
    """A browser that has logged in by the link, with a virtual authenticator."""
    for number in range(60):
        web.door.call("operator", "spawn", name=f"row-{number}", parent="carl", role="worker")
    with TemporaryDirectory() as folder, chromium(Path(folder)) as made:
        add_authenticator(made)
        made.open(f"{web.origin}/login#{web.door.link()}")
        made.until_path("/passkey")
        yield made


@pytest.fixture(autouse=True)
def _no_complaints(chrome: Browser) -> Iterator[None]:
    yield
    assert chrome.complaints() == []


def test_a_passkey_confirms_an_approval_and_logs_in(chrome: Browser, web: RunningDashboard) -> None:
    chrome.find("#passkey-make button").click()
    chrome.until_path("/")
    lines = [line("a <b>word</b>")]
    id_ = web.door.do(lambda world: judge(world, ask(world, "root", "lead"), lines=lines))
    chrome.until("document.querySelector('#attention .k-approval')")

    chrome.find("#attention a.open[href^='/approvals/']").click()
    chrome.until_path(f"/approvals/{id_}")
    assert "a <b>word</b>" in chrome.text("#difference")
    chrome.find("#approve button").click()
    chrome.until("document.getElementById('passkey-confirm')")
    assert id_ in chrome.text()
    assert _state(web, id_) == "pending"
    chrome.find("#passkey-confirm button").click()
    chrome.until_path("/")
    assert _state(web, id_) == "approved"

    chrome.find(".logout button").click()
    chrome.until_path("/login")
    chrome.find("#passkey-login button").click()
    chrome.until_path("/")
    assert "alice" in chrome.text("header")


def test_each_page_is_drawn_without_violations(chrome: Browser, web: RunningDashboard) -> None:
    first = web.door.call("operator", "assign_task", agent="w-10", title="Dig", description="x")
    web.door.call(
        "operator", "assign_task", agent="w-9", title="Fill", description="x", needs=[first["task"]]
    )
    faults = []
    for at, path in enumerate(PAGES):
        for scheme, width in (SCREENS[at % 4], SCREENS[3 - at % 4]) if at else SCREENS:
            chrome.use(scheme, width)
            chrome.open(web.origin + path)
            faults += [f"{path} {scheme} {width}: {fault}" for fault in chrome.violations()]
            wider = chrome.run("return document.documentElement.scrollWidth - innerWidth")
            assert wider <= 0, f"{path} is wider than {width}"
    chrome.use("light", WIDE)
    assert faults == []


def test_rows_change_without_a_reload(chrome: Browser, web: RunningDashboard) -> None:
    chrome.open(f"{web.origin}/tree")
    chrome.run("window.same = true")
    web.door.call("operator", "assign_task", agent="lead", title="Paint it", description="x")
    chrome.until("document.querySelector('[data-name=lead]').textContent.includes('Paint it')")

    web.door.call("operator", "spawn", name="latecomer", parent="root")
    chrome.until("document.querySelector('[data-name=latecomer]')")
    web.door.call("root", "ask_user", items=[{"prompt": "Here?"}])
    chrome.until("document.title.startsWith('(')")

    assert chrome.run("return window.same")


def test_tasks_change_without_a_reload(chrome: Browser, web: RunningDashboard) -> None:
    chrome.open(f"{web.origin}/tasks")
    chrome.run("window.same = true")
    web.door.call("operator", "assign_task", agent="w-10", title="Sand it", description="x")
    chrome.until("document.querySelector('main').textContent.includes('Sand it')")

    assert chrome.run("return window.same")


def test_keys_move_fold_open_and_can_be_switched_off(
    chrome: Browser, web: RunningDashboard
) -> None:
    chrome.open(f"{web.origin}/")
    chrome.press("g", "t")
    chrome.until_path("/tree")
    chrome.press("j", "j", "h")
    chrome.until("location.search.includes('fold=carl')")
    chrome.press("j", "x", "j", "x", "s")
    chrome.until_path("/selected/stop")
    assert "Stop 2 agents" in chrome.text("h1")
    chrome.press("g", "t")
    chrome.until_path("/tree")
    chrome.press("n")
    chrome.until_path("/new")
    chrome.press("g", "t")
    chrome.until_path("/tree")
    chrome.press("/")
    assert chrome.run("return document.activeElement.id") == "filter"
    chrome.press("lead", Keys.ENTER)
    chrome.until("location.search.includes('filter=lead')")
    chrome.press("j", Keys.ENTER)
    chrome.until_path("/agents/lead")
    chrome.press("3")
    chrome.until_path("/agents/lead/mail")
    chrome.press("?")
    assert chrome.run("return document.getElementById('help').open")

    chrome.run("document.getElementById('single-keys').click()")
    chrome.press("1")
    assert chrome.run("return location.pathname") == "/agents/lead/mail"
    chrome.run("document.getElementById('single-keys').click()")


def test_an_agent_is_moved_by_keys_and_by_drag(chrome: Browser, web: RunningDashboard) -> None:
    for name in ("haul-a", "haul-b"):
        web.door.call("operator", "spawn", name=name, parent="root")
    view = f"{web.origin}/tree?filter=haul"
    chrome.open(view)
    chrome.until("document.querySelectorAll('.agent-row').length === 2")
    chrome.press("j", "m")
    assert "Move haul-a" in chrome.text("#moving")
    chrome.press(Keys.ESCAPE)
    assert not chrome.find("#moving").is_displayed()
    chrome.press("m", "j", Keys.ENTER)
    chrome.until_path("/agents/haul-a/move")
    assert "Under haul-b" in chrome.text("#trial")

    chrome.press("m", Keys.ENTER)
    chrome.until("location.pathname === '/tree' || document.getElementById('passkey-confirm')")
    if chrome.all("#passkey-confirm"):
        chrome.find("#passkey-confirm button").click()
    chrome.until_path("/tree")
    assert web.door.call("operator", "get_agent", agent="haul-a")["parent"] == "haul-b"

    chrome.open(view)
    above, below = (chrome.find(f"[data-name={name}] a.to") for name in ("haul-b", "haul-a"))
    ActionChains(chrome.driver).drag_and_drop(above, below).perform()
    chrome.until_path("/agents/haul-b/move")
    assert "cannot move haul-b" in chrome.text("#trial .fault")


def test_hostile_text_stays_text_on_every_page(chrome: Browser, web: RunningDashboard) -> None:
    places = web.door.do(lambda world: _write_everywhere(world, HOSTILE))
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
    for at, text in enumerate(HOSTILE[:5]):
        items = [{"prompt": f"live {at} {text}"}]
        web.door.call("root", "ask_user", items=items)
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
        world.fault(agent, "report_activity", activity="blocked", reason=text_sent[:200])
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


def _state(web: RunningDashboard, id_: str) -> str:
    reply = web.door.call("operator", "get_approval", id=id_)["approval"]
    assert isinstance(reply, dict)
    return str(reply["state"])
