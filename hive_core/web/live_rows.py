"""The rows that change most, as HTML: the cells of an agent in the tree, and an event. Pure.

A page and a frame take them from here. They are no templates, because 1,000 rows may change in a
second: a template takes fifteen times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from markupsafe import Markup

from hive_core.model.wire.event_subject import subject_of
from hive_core.web.mirror import Row
from hive_core.web.rendering import format_moment, format_number, format_percent, format_size
from hive_core.web.untrusted_text import value_html, word_html

_CELL: Final = '<span role="gridcell" class='
_STATES: Final = (
    "running", "stopped", "failed", "parked", "starting", "stopping", "sleeping", "absent",
)  # fmt: skip


def _state_cell(state: object, name: str = "other") -> str:
    return f'{_CELL}"state s-{name}">{word_html(state)}</span>\n'


_STATE_CELLS: Final = {state: _state_cell(state, state) for state in _STATES}


def agent_cells(row: Row) -> Markup:
    """The cells of a row of the tree, without the first one, which depends on the view."""
    state, waits_on, percent = row["state"], row["waits_on"], row["percent"]
    activity = f"? {word_html(waits_on)}" if waits_on else word_html(row["activity"])
    share = "" if percent is None else f" {value_html(percent)}%"
    return Markup(  # noqa: S704 - each value is a number, or escaped by untrusted_text
        f"{_STATE_CELLS.get(str(state)) or _state_cell(state)}"
        f'{_CELL}"activity">{activity}</span>\n'
        f'{_CELL}"doing">{word_html(row["doing"])}{share}</span>\n'
        f'{_CELL}"number">{format_number(row["context"])}</span>\n'
        f'{_CELL}"number">{format_number(row["tokens"])}</span>\n'
        f'{_CELL}"number">{row["cost"]:.2f}</span>\n'
        f'{_CELL}"number">{format_percent(row["cpu"])}</span>\n'
        f'{_CELL}"number">{format_size(row["memory"])}</span>\n'
        f'{_CELL}"number">{value_html(row["inbox"])}</span>'
    )


def event_row(event: Row) -> tuple[str, Markup]:
    """The id of an event in the page, and its row."""
    return f"e-{event.get('seq')}", event_cells(event)


def event_cells(event: Row) -> Markup:
    """What stands in the row of an event."""
    allowed = event["allowed"]
    name, decision = (
        ("no", "refused") if allowed is False else ("yes", "allowed") if allowed else ("self", "")
    )
    return Markup(  # noqa: S704 - each value is escaped by untrusted_text, or an address
        f'<span class="seq">{value_html(event["seq"])}</span>\n'
        f'<span class="at">{format_moment(event["time"])}</span>\n'
        f'<span class="kind">{word_html(event["kind"])}</span>\n'
        f'<span class="caller">{word_html(event["caller"])}{_account(event)}</span>\n'
        f'<span class="operation">{word_html(event["operation"])}</span>\n'
        f'<span class="target">{_target(event)}</span>\n'
        f'<span class="decision {name}">{decision}</span>\n'
        f'<span class="reason">{word_html(event["reason"])}</span>\n'
        f"{_why_link(event)}"
    )


def _account(event: Row) -> str:
    """The account of whom the caller acted for, in brackets; empty where there is none."""
    account = _fields(event).get("account")
    return f" ({word_html(account)})" if account else ""


def _target(event: Row) -> str:
    """The target, and the thing of which the event tells."""
    subject, target = subject_of(event.get("fields")), word_html(event["target"])
    if subject is None:
        return target
    named = f"{subject[0]} {word_html(subject[1])}"
    return f"{target} ({named})" if event["target"] else named


def _why_link(event: Row) -> str:
    caller, operation = event["caller"], event["operation"]
    if not (caller and operation):
        return '<span class="why"></span>'
    judged = _fields(event).get("judged", event["target"])
    words = (quote(str(word), safe="") for word in (caller, operation, judged))
    address = "/audit/why?caller={}&amp;operation={}&amp;target={}".format(*words)
    label = f"Why: event {value_html(event['seq'])}"
    return f'<a class="why" href="{address}" aria-label="{label}">why</a>'


def _fields(event: Row) -> Mapping[str, object]:
    fields = event.get("fields")
    return fields if isinstance(fields, dict) else {}
