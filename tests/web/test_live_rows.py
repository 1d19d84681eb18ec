"""Rows of agents and of events: the values stand in their cells, and no value makes markup."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from fixtures.hostile_text import HOSTILE
from fixtures.page_shape import read_shape
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from hive_core.plan.printable import escape
from hive_core.web.live_rows import agent_cells, event_row
from hive_core.web.mirror import Row
from hive_core.web.untrusted_text import LINE_MOST

ROW: Row = {
    "state": "running", "activity": "blocked", "waits_on": "tasks", "doing": "fix it",
    "percent": 61, "context": 1200, "tokens": 1_234_567, "cost": 4.1, "cpu": 0.034,
    "memory": 80 << 20, "inbox": 3,
}  # fmt: skip
EVENT: Row = {
    "seq": 7, "time": 1_700_000_000.9, "kind": "record", "caller": "bob", "operation": "send",
    "target": "carl", "allowed": True, "reason": "a sibling", "fields": {"account": "ann"},
}  # fmt: skip
TEXTS = st.one_of(st.text(), st.sampled_from(HOSTILE))
WORDS = ("activity", "doing")
EVENT_WORDS = ("kind", "caller", "operation", "target", "reason")


class _Cells(HTMLParser):
    """The class and the text of each cell."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[tuple[str, str]] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"bdi", "time"}:
            self.cells.append((dict(attrs).get("class") or "", ""))

    @override
    def handle_data(self, data: str) -> None:
        name, text = self.cells[-1]
        self.cells[-1] = name, text + data


def read_cells(html: str) -> list[tuple[str, str]]:
    parser = _Cells()
    parser.feed(str(html))  # markup would escape what is added to it
    parser.close()
    return [(name, text.removesuffix("\n")) for name, text in parser.cells]


def visible_text(text: str) -> str:
    return escape(text[:LINE_MOST] + ("…" if len(text) > LINE_MOST else ""))


def test_the_cells_of_an_agent_say_what_it_does_and_uses() -> None:
    assert read_cells(agent_cells(ROW)) == [
        ("state s-running", "running"), ("activity", "? tasks"), ("doing", "fix it 61%"),
        ("number", "1.2k"), ("number", "1.2M"), ("number", "4.10"), ("number", "3%"),
        ("number", "80M"), ("number", "3"),
    ]  # fmt: skip


def test_what_an_agent_has_not_is_a_dash_or_nothing() -> None:
    unknown = dict.fromkeys(("percent", "context", "cpu", "memory"))
    cells = read_cells(agent_cells({**ROW, **unknown, "waits_on": "", "state": "odd"}))
    assert cells == [
        ("state s-other", "odd"), ("activity", "blocked"), ("doing", "fix it"), ("number", "-"),
        ("number", "1.2M"), ("number", "4.10"), ("number", "-"), ("number", "-"), ("number", "3"),
    ]  # fmt: skip


def test_the_row_of_an_event_says_who_did_what_and_why() -> None:
    key, html = event_row(EVENT)
    assert key == "e-7"
    assert read_cells(html) == [
        ("seq", "7"), ("at", "11-14 22:13:20"), ("kind", "record"), ("caller", "bob (ann)"),
        ("operation", "send"), ("target", "carl"), ("decision yes", "allowed"),
        ("reason", "a sibling"), ("why", "why"),
    ]  # fmt: skip
    assert '<time datetime="2023-11-14T22:13:20Z">' in html
    assert 'href="/audit/why?caller=bob&amp;operation=send&amp;target=carl"' in html


def test_the_row_of_a_decision_names_the_agent_and_the_approval() -> None:
    approval = {**EVENT, "operation": "approve", "fields": {"approval": "5-1a2b", "judged": ""}}
    _, html = event_row(approval)
    assert ("target", "carl (approval 5-1a2b)") in read_cells(html)
    assert ("target", "approval 5-1a2b") in read_cells(event_row({**approval, "target": ""})[1])
    definition = {**EVENT, "target": "", "fields": {"definition": "lead"}}
    assert ("target", "definition lead") in read_cells(event_row(definition)[1])


def test_the_reason_of_an_event_is_asked_of_the_agent_against_which_it_was_judged() -> None:
    """A new agent is the target of its `spawn`; the rule was asked about the one above it."""
    made = {**EVENT, "operation": "spawn", "fields": {"judged": "lead"}}
    assert 'operation=spawn&amp;target=lead"' in event_row(made)[1]


@pytest.mark.parametrize(
    ("allowed", "decision"),
    [(True, ("decision yes", "allowed")), (False, ("decision no", "refused")),
     (None, ("decision self", ""))],
)  # fmt: skip
def test_an_event_says_what_was_decided(
    allowed: bool | None,  # noqa: FBT001 - as events have it
    decision: tuple[str, str],
) -> None:
    assert decision in read_cells(event_row({**EVENT, "allowed": allowed})[1])


@pytest.mark.parametrize("missing", [{"caller": ""}, {"operation": ""}])
def test_an_event_that_nobody_asked_for_has_no_link_to_its_reason(missing: Row) -> None:
    assert "href" not in event_row({**EVENT, **missing})[1]


@given(st.fixed_dictionaries({**dict.fromkeys(WORDS, TEXTS), "waits_on": TEXTS, "state": TEXTS}))
def test_no_word_of_an_agent_makes_markup(words: dict[str, str]) -> None:
    html = agent_cells({**ROW, **words})

    waits = words["waits_on"]
    assert read_shape(html) == read_shape(agent_cells({**ROW, "state": "odd"}))
    assert read_cells(html)[:3] == [
        ("state s-other", visible_text(words["state"])),
        ("activity", f"? {visible_text(waits)}" if waits else visible_text(words["activity"])),
        ("doing", f"{visible_text(words['doing'])} 61%"),
    ]


@given(st.fixed_dictionaries(dict.fromkeys(EVENT_WORDS, TEXTS)), TEXTS)
def test_no_word_of_an_event_makes_markup(words: dict[str, str], account: str) -> None:
    _, html = event_row({**EVENT, **words, "fields": {"account": account}})

    harmless: Row = {
        **EVENT, "fields": {"account": account and "ann"}, "target": words["target"] and "carl",
    }  # fmt: skip
    if not (words["caller"] and words["operation"]):
        harmless = {**harmless, "caller": ""}
    assert read_shape(html) == read_shape(event_row(harmless)[1])
    cells = dict(read_cells(html))
    by = f" ({visible_text(account)})" if account else ""
    assert cells["caller"] == visible_text(words["caller"]) + by
    assert all(cells[name] == visible_text(words[name]) for name in EVENT_WORDS if name != "caller")
