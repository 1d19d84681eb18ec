"""Our modules in a real Chromium: live (K39), keys, drag (H6), forms, passkeys; each runs whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fixtures.approvals import ask, judge, line
from fixtures.chromium import Browser
from fixtures.dashboard import RunningDashboard
from fixtures.script_coverage import ScriptCoverage
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from hive_core.varlink import Message
from hive_core.web.frames import FrameLog

pytestmark = pytest.mark.usefixtures("watched")


def test_a_passkey_confirms_an_approval_and_logs_in(chrome: Browser, web: RunningDashboard) -> None:
    chrome.find("#passkey-make button").click()
    chrome.until_path("/")
    chrome.point_at("h1")
    lines = [line("a <b>word</b>")]
    id_ = web.hived.do(lambda world: judge(world, ask(world, "root", "lead"), lines=lines))
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


def test_rows_change_without_a_reload(chrome: Browser, web: RunningDashboard) -> None:
    chrome.open(f"{web.origin}/tree")
    chrome.run("window.same = true")
    web.hived.call("operator", "assign_task", agent="lead", title="Paint it", description="x")
    chrome.until("document.querySelector('[data-name=lead]').textContent.includes('Paint it')")

    web.hived.call("operator", "spawn", name="latecomer", parent="root")
    chrome.until("document.querySelector('[data-name=latecomer]')")
    web.hived.call("root", "ask_user", items=[{"prompt": "Here?"}])
    chrome.until("document.title.startsWith('(')")

    assert chrome.run("return window.same")


def test_the_list_does_not_move_under_the_pointer_or_the_focus(
    chrome: Browser, web: RunningDashboard
) -> None:
    first, second = (
        web.hived.call("root", "ask_user", items=[{"prompt": prompt}])["question"]
        for prompt in ("Hold one?", "Hold two?")
    )
    chrome.open(f"{web.origin}/")
    row = "document.querySelector(`a.open[href$='${arguments[0]}']`).closest('li')"
    chrome.until(f"{row}.querySelector('.settle')", second)
    chrome.point_at(f"a.open[href$='{second}']")
    top = chrome.until(f"{row}.getBoundingClientRect().top", second)

    urgent = web.hived.call("root", "escalate", issue="Fire", severity="error")["escalation"]
    chrome.until("document.querySelector('#held span').textContent.startsWith('1 new, 0')")
    web.hived.call("operator", "answer", question=first, answers=["yes"])
    chrome.until("document.querySelector('#held span').textContent.startsWith('1 new, 1 settled')")
    assert chrome.until(f"{row}.getBoundingClientRect().top", second) == top
    assert chrome.until(f"{row}.classList.contains('over')", first)
    chrome.point_at("h1")
    chrome.until("document.querySelector(`a.open[href$='${arguments[0]}']`)", urgent)
    assert chrome.run("return document.getElementById('held').hidden")
    assert "Hold one?" not in chrome.text("#attention")

    chrome.until(f"({row}.querySelector('a.open').focus(), true)", second)
    web.hived.call("operator", "answer", question=urgent, answers=["put out"])
    chrome.until("!document.getElementById('held').hidden")
    assert "Fire" in chrome.text("#attention")
    chrome.find("#held button").click()
    chrome.until("!document.getElementById('attention').textContent.includes('Fire')")


def test_tasks_change_without_a_reload(chrome: Browser, web: RunningDashboard) -> None:
    chrome.open(f"{web.origin}/tasks")
    chrome.run("window.same = true")
    web.hived.call("operator", "assign_task", agent="w-10", title="Sand it", description="x")
    chrome.until("document.querySelector('main').textContent.includes('Sand it')")

    assert chrome.run("return window.same")


def test_the_timeline_changes_without_a_reload(chrome: Browser, web: RunningDashboard) -> None:
    began = web.hived.do(lambda world: world.clock.now()) - 4
    web.app.web = replace(web.app.web, clock=lambda: began + 60)  # that of the hive
    chrome.open(f"{web.origin}/timeline")
    chrome.run("window.same = true")
    web.hived.call("lead", "keep_turn", conversation="glue", turn=1, status="done", began=began)
    chrome.until("document.getElementById('timeline').textContent.includes('glue')")

    assert chrome.run("return window.same")


def test_a_running_turn_is_written_while_one_looks(chrome: Browser, web: RunningDashboard) -> None:
    web.hived.call("carl", "keep_turn", conversation="main", turn=1, status="done")
    chrome.open(f"{web.origin}/agents/carl/talk")
    chrome.run("window.same = true")
    for text in ("I look ", "for <b>wood</b>"):
        web.hived.call("carl", "stream_turn", conversation="main", turn=2, text=text)
    chrome.until("document.getElementById('running').textContent.includes('I look for <b>wood')")

    web.hived.call("carl", "keep_turn", conversation="main", turn=2, status="done")
    chrome.until("document.querySelectorAll('#tab .turn').length === 2")
    assert chrome.run("return window.same")


def test_a_part_that_was_opened_stays_open_when_a_tab_is_drawn_anew(
    chrome: Browser, web: RunningDashboard
) -> None:
    web.hived.call("lead", "send", to="w-9", body='{"part": 1}\n<b>first</b>')
    chrome.open(f"{web.origin}/agents/w-9/mail")
    chrome.run("document.querySelector('#tab details').open = true")
    web.hived.call("lead", "send", to="w-9", body='{"part": 2}\nsecond')
    chrome.until("document.getElementById('tab').textContent.includes('second')")

    opened = "[...document.querySelectorAll('#tab details')].filter((each) => each.open)"
    assert chrome.run(f"return {opened}.length") == 1
    letter = chrome.run(f"return {opened}[0].closest('article')?.textContent")
    assert "<b>first</b>" in letter


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
        web.hived.call("operator", "spawn", name=name, parent="root")
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
    assert web.hived.call("operator", "get_agent", agent="haul-a")["parent"] == "haul-b"

    chrome.open(view)
    above, below = (chrome.find(f"[data-name={name}] a.to") for name in ("haul-b", "haul-a"))
    ActionChains(chrome.driver).drag_and_drop(above, below).perform()
    chrome.until_path("/agents/haul-b/move")
    assert "cannot move haul-b" in chrome.text("#trial .fault")


def test_every_key_that_the_help_lists_acts(chrome: Browser, web: RunningDashboard) -> None:
    web.hived.call("operator", "assign_task", agent="w-9", title="Sweep", description="x")
    pages = {"a": "/", "t": "/tree", "k": "/tasks", "l": "/timeline", "c": "/cost", "u": "/audit"}
    for key, path in {**pages, "o": "/more"}.items():
        chrome.press("g", key)
        chrome.until_path(path)

    chrome.open(f"{web.origin}/tree?fold=carl")
    chrome.press("j", "j", "k", "j")
    assert chrome.run("return document.querySelector('.current').dataset.name") == "carl"
    chrome.press("l")
    chrome.until("location.pathname === '/tree' && !location.search.includes('carl')")
    chrome.open(f"{web.origin}/tasks")
    chrome.press("v")
    chrome.until_path("/tasks/graph")
    chrome.open(f"{web.origin}/audit")
    chrome.press("j", "w")
    chrome.until_path("/audit/why")
    chrome.open(f"{web.origin}/timeline")
    for key, words in (("-", "6h"), ("+", "timeline"), ("[", "until="), ("]", "until=")):
        before = chrome.run("return location.href")
        chrome.press(key)
        chrome.until("location.href !== arguments[0] && document.readyState !== 'loading'", before)
        assert words in chrome.run("return location.href"), key


@pytest.mark.parametrize("tab", ["talk", "logs", "tools"])
def test_c_and_t_reach_their_forms_from_any_tab_of_an_agent(
    chrome: Browser, web: RunningDashboard, tab: str
) -> None:
    focused = "document.activeElement.closest('form')?.action"
    for key, end in (("c", "/say"), ("t", "/assign")):
        chrome.open(f"{web.origin}/agents/lead/{tab}")
        chrome.press(key)
        chrome.until(f"{focused}?.endsWith(arguments[0])", end)


def test_a_d_and_r_go_on_to_the_form_of_the_item(chrome: Browser, web: RunningDashboard) -> None:
    web.hived.call("root", "ask_user", items=[{"prompt": "Which wood?"}])
    chrome.open(f"{web.origin}/")
    at = chrome.until(
        "[...document.querySelectorAll('.item')].findIndex((row) => row.textContent"
        ".includes('Which wood?')) + 1"
    )
    chrome.press(*["j"] * at, "r")
    chrome.until("document.activeElement.closest('form')?.action.endsWith('/answer')")
    assert "Which wood?" in chrome.text()
    chrome.press("oak")
    chrome.find("form[data-key=r] button").click()
    chrome.until_path("/")

    id_ = web.hived.do(lambda world: judge(world, ask(world, "root", "w-9")))
    chrome.open(f"{web.origin}/")
    at = chrome.until(
        "[...document.querySelectorAll('.item')].findIndex((row) =>"
        " row.querySelector(`a.open[href$='${arguments[0]}']`)) + 1",
        id_,
    )
    chrome.press(*["j"] * at, "a")
    chrome.until("document.activeElement.closest('form')?.action.endsWith('/approve')")
    assert chrome.run("return location.pathname") == f"/approvals/{id_}"
    chrome.press("d")
    chrome.until("document.activeElement.closest('form')?.action.endsWith('/deny')")
    chrome.press("n")  # a letter of a word in a field, and no key
    assert chrome.run("return document.activeElement.value") == "n"


def test_the_lines_of_a_long_difference_come_by_scrolling(
    chrome: Browser, web: RunningDashboard
) -> None:
    lines = [line(f"row {at}") for at in range(4500)]
    id_ = web.hived.do(lambda world: judge(world, ask(world, "root", "w-10"), lines=lines))
    chrome.open(f"{web.origin}/approvals/{id_}")
    chrome.run("window.same = true")
    assert "row 4499" not in chrome.run("return document.body.textContent")

    chrome.until(
        "(document.querySelector('#difference').scrollIntoView(false),"
        " document.body.textContent.includes('row 4499'))"
    )

    assert chrome.run("return window.same")
    assert chrome.all("#difference a.more") == []
    texts = "[...document.querySelectorAll('.diff li')].map((row) => row.textContent)"
    assert chrome.run(f"return {texts}.filter((text) => /row \\d/.test(text)).length") == len(lines)


def test_a_page_without_news_for_5_seconds_says_so_until_there_is_some(
    chrome: Browser, web: RunningDashboard
) -> None:
    chrome.open(f"{web.origin}/")
    chrome.point_at("h1")
    chrome.until_so(lambda: web.app.web.logins.streams)
    assert not chrome.find("#banner").is_displayed()

    # Read in the look that finds it: the next beat, within a second, takes it away.
    said = chrome.until("(window.ahead += 6000, document.getElementById('banner').textContent)")
    assert said == "No news for 5 seconds: the rows may be old."

    chrome.until("document.getElementById('banner').hidden")
    asked: Message = {}
    for prompt in ("One?", "Two?"):
        asked = web.hived.call("root", "ask_user", items=[{"prompt": prompt}])
        chrome.until(
            "document.getElementById('attention').textContent.includes(arguments[0])", prompt
        )
    web.hived.call("operator", "answer", question=asked["question"], answers=["yes"])
    chrome.until("!document.getElementById('attention').textContent.includes('Two?')")
    assert "One?" in chrome.text("#attention")


def test_a_hidden_tab_ends_its_stream_and_asks_for_the_number_alone(
    chrome: Browser, web: RunningDashboard
) -> None:
    streams = web.app.web.logins
    chrome.open(f"{web.origin}/tree")
    chrome.run("window.same = true")
    chrome.until_so(lambda: streams.streams == 1)
    tab = chrome.driver.current_window_handle
    chrome.driver.switch_to.new_window("tab")
    other = chrome.driver.current_window_handle
    chrome.driver.switch_to.window(tab)
    chrome.command("Target.activateTarget", {"targetId": other})
    chrome.until("document.hidden")

    chrome.until_so(lambda: streams.streams == 0)
    waiting = web.app.web.hub.waiting
    web.hived.call("root", "ask_user", items=[{"prompt": "Hidden?"}])
    chrome.until(f"document.title.startsWith('({waiting + 1})')")

    chrome.command("Page.bringToFront", {})
    chrome.until_so(lambda: streams.streams == 1)
    assert chrome.run("return window.same")
    chrome.driver.switch_to.window(other)
    chrome.driver.close()
    chrome.driver.switch_to.window(tab)


def test_a_page_that_has_lost_frames_loads_itself_again(
    chrome: Browser, web: RunningDashboard
) -> None:
    chrome.open(f"{web.origin}/audit")
    chrome.run("window.same = true")
    chrome.until_so(lambda: web.app.web.logins.streams)
    hub = web.app.web.hub

    def lose() -> None:
        hub.frames = FrameLog()
        for stream in list(hub.streams):
            stream.end()

    web.loop.call_soon_threadsafe(lose)

    chrome.until("window.same === undefined && document.readyState === 'complete'")
    before = chrome.run("return document.querySelector('#audit .item').id")
    web.hived.call("operator", "assign_task", agent="lead", title="After", description="x")
    chrome.until("document.querySelector('#audit .item').id !== arguments[0]", before)
    assert len(chrome.all(f"#{before}")) == 1


def test_a_passkey_that_does_not_verify_its_user_is_not_used(
    chrome: Browser, web: RunningDashboard
) -> None:
    id_ = web.hived.do(lambda world: judge(world, ask(world, "root", "carl")))
    chrome.open(f"{web.origin}/approvals/{id_}")
    chrome.find("#approve button").click()
    chrome.until("document.getElementById('passkey-confirm')")
    chrome.driver.set_user_verified(verified=False)

    chrome.find("#passkey-confirm button").click()

    chrome.until("document.querySelector('#passkey-confirm .fault').textContent")
    assert "The passkey was not used" in chrome.text("#passkey-confirm .fault")
    assert _state(web, id_) == "pending"
    chrome.driver.set_user_verified(verified=True)


def test_the_tests_above_run_nine_tenths_of_each_module(
    coverage: ScriptCoverage, finished: set[str]
) -> None:
    own = {name for name in globals() if name.startswith("test_")}
    missing = own - {name.partition("[")[0] for name in finished}
    if missing != {"test_the_tests_above_run_nine_tenths_of_each_module"}:
        pytest.skip("it measures what all tests of this file ran together; some were left out")

    for name, module in coverage.modules.items():
        assert module.share_of_functions >= 0.9, (name, module.list_missing())
        assert module.share_of_text >= 0.9, (name, module.list_missing())


def _state(web: RunningDashboard, id_: str) -> str:
    reply = web.hived.call("operator", "get_approval", id=id_)["approval"]
    assert isinstance(reply, dict)
    return str(reply["state"])
