"""Every page and frame over a daemon in whose answers each word is hostile (attack 24).

What a page is made of must not depend on the words in it: the page of hostile answers has the
elements and attributes of the page of harmless ones.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import quote, urlencode

import pytest
from fixtures.chromium import FOREIGN, Browser
from fixtures.dashboard import Answer, ServedDashboard, free_socket, served_dashboard
from fixtures.fake_broker import FakeBroker, Unending, fake_broker
from fixtures.hostile_answers import Fixed, HostileAnswers
from fixtures.hostile_text import HOSTILE
from fixtures.page_shape import Shape, read_shape
from long import at_most, times
from typing_extensions import override

from hive_core.errors import HiveError, NotAllowed, NotFound
from hive_core.model.wire.record import EVENT_KINDS
from hive_core.varlink import Message
from hive_core.web.frames import Frame, FrameLog
from hive_core.web.pages import agent, cost, more, selected
from hive_core.web.routes import ROUTES
from hive_core.web.timeline import KINDS

_FIRST_MOST: Final = 5  # of each topic
HARMLESS: Final = "a/word"  # whole it is no name of an agent, as the others
_TEXTS: Final = {
    "markup": HOSTILE[3] + HOSTILE[1] + HOSTILE[0] + HOSTILE[5],
    "attributes": "".join(HOSTILE[at] for at in (4, 2, 6, 14)) + "</template><!--<![CDATA[",
    "controls": "A" + "".join(HOSTILE[at] for at in (9, 10, 7, 8, 11, 18, 12)),
    "markdown": "".join(HOSTILE[at] for at in (13, 16, 15, 17)),
    "huge": HOSTILE[3] + "<b>" * (16_384 // 3),
}
# A walk over all pages for each text takes long: two texts share one, under `--long` none do.
_SHARED: Final = {
    "markup_attributes": _TEXTS["markup"] + _TEXTS["attributes"],
    **{name: _TEXTS[name] for name in ("controls", "markdown", "huge")},
}
TEXTS: Final = (_SHARED, _TEXTS)[times(0, 1)]
# What a part of an address may be, so that each page is there with each of its tabs.
PARTS: Final[dict[str, tuple[str, ...]]] = {
    "tab": tuple(tab.name for tab in agent.TABS),
    "section": tuple(section.name for section in more.SECTIONS),
    "action": tuple(dict.fromkeys((*agent.ACTIONS, *selected.ACTIONS))),
}
QUERIES: Final = (
    "filter", "under", "fold", "agents", "kinds", "caller", "operation", "target", "parent",
    "after", "account", "task", "before", "from", "to",
)  # fmt: skip
ITEMS: Final = (
    "question", "escalation", "plan", "judgement", "approval", "parked", "failed", "quarantine",
    "dead_letters", "mail", "refused_commit", "alarm",
)  # fmt: skip
FORMS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("/approvals/x/approve", {"gives0": "yes", "commit": "x"}),
    ("/plans/x/approve", {"plan": "x"}),
    ("/agents/x/do/stop", {}),
    ("/agents/x/say", {"body": "x"}),
    ("/selected/stop", {"agents": "x,y"}),
    ("/new", {"name": "x", "title": "x"}),
    ("/agents/x/move", {"parent": "x"}),
    ("/passkey", {"assertion": "{}"}),
    ("/confirm", {"parameters": "{}", "code": "1", "operation": "stop"}),
)  # fmt: skip
REPORTS: Final = """
window.reports = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.reports.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


class HostileHive:
    """hive-web over a daemon whose answers are of one text, and a browser that has logged in."""

    def __init__(self, served: ServedDashboard, broker: FakeBroker, text: str) -> None:
        self.served, self.broker = served, broker
        web = served.app.web
        web.logins.clock = web.reads.clock = served.app.clock = Ticking()
        log = web.hub.frames = FirstFrames()
        self.first = log.first
        answers = HostileAnswers(text)
        self.answers = {**answers.table(), **choose_answers(answers)}
        broker.answers = self.answers
        login = served.ask("POST", "/login", b"secret=link_x")
        self.cookie = login.headers["set-cookie"].partition(";")[0]
        match = re.search('name="form_token" value="([^"]+)"', self.get("/").text)
        assert match is not None
        self._token = match.group(1)

    def get(self, path: str) -> Answer:
        return self.served.ask("GET", path, cookie=self.cookie)

    def post(self, path: str, fields: dict[str, str]) -> Answer:
        body = urlencode({"form_token": self._token, **fields}).encode()
        return self.served.ask("POST", path, body, cookie=self.cookie)

    def refuse(self, error: HiveError) -> None:
        """All that is not asked for on behalf of every page is refused."""
        shared = ("OpenLogin", "WatchAgents", "ListEvents", "Todo", "BeginConfirmation")
        self.broker.answers = {
            method: answer if method in shared else partial(_raise, error)
            for method, answer in self.answers.items()
        }


class Ticking:
    """A clock that goes on by a minute each time, so that nothing is late, stored or limited."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 60.0
        return self.now


def _raise(error: HiveError, _: Message) -> Message:
    raise error


def choose_answers(answers: HostileAnswers) -> dict[str, Any]:
    """Where a page would be empty, or without its forms, if the daemon's own words were hostile."""
    shorter = replace(answers, text=answers.text[:8192])  # so many rows are one answer
    approval, plan, task = map(answers.of, ("get_approval", "list_plans", "get_task"))
    approval["approval"]["state"] = "pending"
    plan["plans"][0] |= {"state": "submitted", "plan": "p"}
    task["task"] |= {"state": "awaiting_plan_approval", "plan": "p"}
    question = answers.of("get_question")
    question["question"]["state"] = "open"
    rows = shorter.of("watch_agents")
    row = {**rows["rows"][0], "name": name_in(answers.text)}
    own = ({key: f"{at}{row[key]}" for key in ("uuid", "name")} for at in range(3))
    nested = [{**row, **names, "parent": row["name"]} for names in own]
    first = {**rows, "rows": [{**row, "parent": None}, *nested], "gone": [], "reset": True}
    then = {**first, "rows": [{**nested[0], "inbox": 4}], "reset": False}
    todo = shorter.of("todo")
    items = [{**todo["todo"][0], "kind": kind} for kind in (*ITEMS, shorter.text)]
    login = {"credential": "login_x", "scopes": ["viewer", "operator", "approver"]}
    begun = {**answers.of("begin_confirmation"), "methods": ["passkey", "totp"]}
    events = {**answers.of("list_events"), "events": list(_events(answers)), "next": "99"}
    return {
        "GetApproval": Fixed(approval), "ListPlans": Fixed(plan), "GetTask": Fixed(task),
        "GetQuestion": Fixed(question), "WatchAgents": lambda _: Unending([first, then]),
        "Todo": Fixed({**todo, "todo": items}), "BeginConfirmation": Fixed(begun),
        "OpenLogin": Fixed({**answers.of("open_login"), **login}),
        "ListEvents": lambda call: Unending([events, events]) if "every" in call else events,
    }  # fmt: skip


def _events(answers: HostileAnswers) -> Iterator[Message]:
    """One of each kind, with what the timeline reads of it. So many are one answer."""
    answers = replace(answers, text=answers.text[:512])
    (event,) = answers.of("list_events")["events"]
    operations = ("keep_turn", "use_tool", "end_tool", answers.text)
    kinds = [*EVENT_KINDS, answers.text, *["record"] * len(operations)]
    text, now = answers.text, time.time() - 60
    fields: Message = dict.fromkeys(("tool", "status", "grant", "model", "reason", text), text)
    for at, kind in enumerate(kinds):
        operation = operations[max(0, at - len(kinds) + len(operations))]
        more = {"from": "idle", "to": "running", "tasks": [text], "began": now, **fields}
        yield {**event, "seq": at + 1, "time": now + at, "kind": kind, "operation": operation,
               "fields": more}  # fmt: skip


def name_in(text: str) -> str:
    """A name for the part of an address: a slash would begin another part."""
    return text.replace("/", "")[:40]


def _part(parts: Mapping[str, str], match: re.Match[str]) -> str:
    return parts[match.group(1)]


def addresses(text: str) -> Iterator[tuple[str, str]]:
    """Each page with each of its tabs, and with a word of somebody in its address; its pattern."""
    query = urlencode({**dict.fromkeys(QUERIES, text[:200]), "under": name_in(text)})
    for method, pattern, _ in ROUTES:
        if method != "GET" or pattern.pattern in NO_PAGES:
            continue
        label, path = "", ""
        usual = {
            name: PARTS.get(name, (quote(name_in(text), safe=""),)) for name in pattern.groupindex
        }
        for values in product(*usual.values()):
            parts = dict(zip(usual, values, strict=True))
            path = re.sub(r"\\(.)", r"\1", _GROUP.sub(partial(_part, parts), pattern.pattern))
            kinds = [value for name, value in parts.items() if name in PARTS]
            label = f"{_GROUP.sub('*', pattern.pattern)} {' '.join(kinds)}"
            yield label, path
        yield f"{label}?", f"{path}?{query}"
    for path in (*(f"/cost?by={group}" for group in cost.GROUPS),
                 f"/timeline?window=1d&show={KINDS[0]}"):  # fmt: skip
        yield path, path
    yield "a move", f"/agents/x/move?{urlencode({'parent': text[:200]})}"


# Its answers are no HTML, or lead elsewhere.
NO_PAGES: Final = ("/badge", "/next", "/more/artifacts/(?P<id>[^/]{1,128})")
_GROUP: Final = re.compile(r"\(\?P<([a-z]+)>\[\^/\]\{1,128\}\)")


def walk(hive: HostileHive, text: str) -> dict[str, Shape]:
    """The shape of everything that hive-web serves as HTML, by the place of it."""
    shapes: dict[str, Shape] = {}
    faults: list[str] = []

    def look(place: str, answer: Answer) -> None:
        assert "text/html" in answer.headers["content-type"], (place, answer.text[:200])
        assert answer.status < 500, (place, text_of(answer))
        shapes[f"{place} {answer.status}"], wrong = read_shape(answer.text)
        faults.extend(f"{place}: {fault}" for fault in wrong[:3])

    for label, path in addresses(text):
        look(label, hive.get(path))
    for path in ("/login", "/link/no_x"):
        look(path, hive.served.ask("GET", path))
    look("POST /link", hive.served.ask("POST", "/link/no_x"))
    for error in (NotFound(text), NotAllowed(text, rule="confirm")):
        hive.refuse(error)
        for path in (
            "/approvals/x",
            "/plans/x",
            "/agents/x/mail",
            "/more/roles",
            "/audit/why?caller=a&operation=b",
        ):
            look(f"{type(error).__name__} GET {path}", hive.get(path))
        for path, fields in FORMS:
            look(f"{type(error).__name__} POST {path}", hive.post(path, fields))
        hive.broker.answers["OpenLogin"] = partial(_raise, error)
        look(
            f"{type(error).__name__} POST /login",
            hive.served.ask("POST", "/login", b"secret=link_y"),
        )
        look(f"{type(error).__name__} /link", hive.served.ask("GET", "/link/no_x"))
    assert faults == [], faults[:40]
    return shapes


class FirstFrames(FrameLog):
    """The newest frames, and the first ones of each topic, however many follow."""

    def __init__(self) -> None:
        super().__init__()
        self.first: defaultdict[str, list[Frame]] = defaultdict(list)

    @override
    def add(self, topic: str, content: Mapping[str, object]) -> Frame:
        frame = super().add(topic, content)
        if len(self.first[topic]) < _FIRST_MOST:
            self.first[topic].append(frame)
        return frame


def frames(hive: HostileHive) -> dict[str, set[str]]:
    """The shapes of all markup in the first frames of its streams, by topic."""
    live_topics, deadline = {"tree", "attention", "audit"}, time.monotonic() + at_most(30)
    shapes: dict[str, set[str]] = {}
    # The first frame of the tree has no markup, and the next may come after those of the others.
    while missing := live_topics - shapes.keys():
        assert hive.get("/badge").status == 200, "hived is followed no longer"
        assert time.monotonic() < deadline, missing
        shapes = read_frames(hive)
    return {topic: shapes[topic] for topic in live_topics}


def read_frames(hive: HostileHive) -> dict[str, set[str]]:
    """The shapes of the markup in the frames that have come."""
    shapes: dict[str, set[str]] = {}
    for frame in [
        frame for topic_frames in list(hive.first.values()) for frame in list(topic_frames)
    ]:
        assert frame.plain.isascii()
        assert frame.plain.count(b"\n") == len(("event", "id", "data", "")), "a line too many"
        values = json.loads(frame.plain.partition(b"data: ")[2])
        for html in [
            *dict(values.get("rows", {})).values(),
            *dict(values.get("first", {})).values(),
        ]:
            shape, faults = read_shape(html)
            assert faults == [], frame.topic
            shapes.setdefault(frame.topic, set()).add(str(shape))
    return shapes


def text_of(answer: Answer) -> str:
    return re.sub("<[^>]+>|\\s+", " ", answer.text.partition("<main")[2].partition("<footer")[0])[
        :300
    ]


@contextmanager
def hostile_hive(text: str) -> Iterator[HostileHive]:
    listening = free_socket()
    with (
        TemporaryDirectory() as folder,
        fake_broker(Path(folder) / "login.sock") as broker,
        served_dashboard(Path(broker.path), listening) as served,
    ):
        yield HostileHive(served, broker, text)


@pytest.fixture(scope="module")
def harmless() -> tuple[dict[str, Shape], dict[str, set[str]]]:
    with hostile_hive(HARMLESS) as hive:
        live = frames(hive)
        return walk(hive, HARMLESS), live


@pytest.mark.sized
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_page_and_a_frame_are_made_of_the_same_whatever_its_words_are(
    harmless: tuple[dict[str, Shape], dict[str, set[str]]], text: str
) -> None:
    with hostile_hive(text) as hive:
        live, pages = frames(hive), walk(hive, text)

    differing = [place for place, shape in harmless[0].items() if pages.get(place) != shape]
    assert differing == [], differing
    assert live == harmless[1]


@pytest.fixture(scope="module")
def chrome(blank_tab: Browser) -> Browser:
    blank_tab.run_first(REPORTS)
    return blank_tab


@pytest.mark.sized
@pytest.mark.parametrize("name", [name for name in TEXTS if name not in ("markdown", "huge")])
def test_a_browser_reports_nothing_of_hostile_pages(chrome: Browser, name: str) -> None:
    """Nor does it find an element that no template has, also after live frames."""
    text = TEXTS[name]
    with hostile_hive(text) as hive:
        chrome.open(f"{hive.served.origin}/login#link_x")
        chrome.until("location.pathname !== '/login' && document.readyState === 'complete'")
        agent_path = f"/agents/{quote(name_in(text), safe='')}"
        for path in ("/audit", "/", "/tree", "/approvals/x", "/questions/x", "/plans/x",
                     f"{agent_path}/talk", "/timeline", "/tasks/graph", "/tasks/x"):  # fmt: skip
            chrome.open(hive.served.origin + path)
            assert chrome.run(FOREIGN) == [], path
            assert chrome.run("return window.reports") == [], path
            assert chrome.run("return document.title").endswith(" - hive"), path
        chrome.open("about:blank")  # a page may ask for rows until it is left
        assert chrome.complaints() == []
