"""Templates and what they may call. Markup comes from Python only: they mark nothing as safe."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from math import floor
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from hive_core.plan.printable import escape as show_hidden
from hive_core.services.item_places import item_place
from hive_core.web import drawing
from hive_core.web.mirror import Row
from hive_core.web.static_files import StaticFiles
from hive_core.web.untrusted_text import quote_markdown, quote_text, quote_word

FOLDER: Final = Path(__file__).parent / "templates"
_STEPS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_THOUSANDS: Final = ("", "k", "M", "G", "T")
_THOUSAND: Final = 1000
_BINARY: Final = 1024
_TENTH_BELOW: Final = 10
_MINUTE: Final = 60
_MILLIONTHS: Final = 1_000_000
_CENTS_FROM: Final = 0.1
_MOMENTS_KEPT: Final = 1024
# What the states of tasks are called on the pages; the others say it themselves.
_STATES: Final[Mapping[str, str]] = {
    "in_progress": "works", "awaiting_plan_approval": "waits for a plan",
    "awaiting_more_information": "waits for an answer",
    "awaiting_judgement": "waits for a verdict", "pending_delegation": "is handed on",
    "waiting": "waits for tasks",
}  # fmt: skip
_SENTENCE: Final = re.compile(r"[.!?](?=\s+[A-Z`])")


@dataclass(frozen=True, slots=True)
class Renderer:
    """`clock` returns seconds since 1970."""

    environment: Environment
    item: Template

    @classmethod
    def load(cls, files: StaticFiles, clock: Callable[[], float] = time.time) -> Self:
        environment = Environment(
            loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True, auto_reload=False, finalize=_show_controls,
        )  # fmt: skip
        environment.globals |= {"static": files.address, "place": place_of, "drawing": drawing}
        environment.filters |= {
            "word": quote_word, "said": quote_text, "prose": quote_markdown,
            "age": lambda since: format_age(clock(), since), "moment": format_moment,
            "ago": lambda since: format_ago(clock(), since),
            "number": format_number, "size": format_size, "percent": format_percent,
            "duration": format_duration, "money": format_money, "amount": format_amount,
            "state": state_words, "sentence": first_sentence,
            "letter": split_letter,
            "segment": lambda text: quote(str(text), safe=""), "clock": format_clock,
        }  # fmt: skip
        return cls(environment, environment.get_template("parts/item.html"))

    def page(self, name: str, /, **values: object) -> str:
        return self.environment.get_template(f"{name}.html").render(values)

    def todo_item(self, item: Row) -> tuple[str, Markup]:
        html = Markup(self.item.render(item=item))  # noqa: S704 - the template has escaped it
        return item_key(item), html


def _show_controls(value: object) -> object:
    """A value without invisible characters, also for attributes. Markup has none already."""
    return show_hidden(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def html_key(*parts: object) -> str:
    """An id for an element, whatever the parts are."""
    return sha256("\0".join(map(str, parts)).encode()).hexdigest()[:12]


def item_key(item: Row) -> str:
    return "t-" + html_key(
        item.get("kind"), item.get("id"), "" if item.get("id") else item.get("text")
    )


def place_of(item: Row) -> str:
    """The address where an item is decided; empty where there is none."""
    return item_place(str(item.get("kind")), str(item.get("id")))


def format_age(now: float, since: object) -> str:
    if not isinstance(since, int | float):
        return "-"
    seconds = max(0, int(now - since))
    size, unit = next((step for step in _STEPS if seconds >= step[0]), _STEPS[-1])
    return f"{seconds // size} {unit}"


def format_ago(now: float, since: object) -> Markup:
    """How long ago it was, to the minute, so that it changes seldom; the time is readable too."""
    if not isinstance(since, int | float):
        return Markup("-")
    age = format_age(now, since) if now - since >= _MINUTE else "now"
    exact = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(since))
    return Markup('<time datetime="{}">{}</time>').format(exact, age)


def format_moment(at: object) -> Markup:
    """A time in UTC, readable for programs too."""
    return _moment_of(floor(at)) if isinstance(at, int | float) else Markup("-")


@lru_cache(_MOMENTS_KEPT)
def _moment_of(second: int) -> Markup:
    """Each row of the audit log has its time, and many have the same."""
    moment = time.gmtime(second)
    exact, shown = (
        time.strftime(form, moment) for form in ("%Y-%m-%dT%H:%M:%SZ", "%m-%d %H:%M:%S")
    )
    return Markup('<time datetime="{}">{}</time>').format(exact, shown)


def format_clock(at: object) -> str:
    return time.strftime("%H:%M", time.gmtime(at)) if isinstance(at, int | float) else "-"


def format_duration(seconds: float) -> str:
    """A length of time, as exact as it has to be."""
    if seconds < _TENTH_BELOW:
        return f"{seconds:.1f} s"
    return format_age(seconds, 0)


def format_number(value: object) -> str:
    return _scale(value, _THOUSAND, _THOUSANDS)


def format_size(value: object) -> str:
    return _scale(value, _BINARY, ("", "K", "M", "G", "T"))


def format_money(value: object) -> str:
    """Millionths of the currency, in the currency; small sums to a hundredth of a cent."""
    if not isinstance(value, int | float):
        return "-"
    money = value / _MILLIONTHS
    return f"{money:,.2f}" if not money or abs(money) >= _CENTS_FROM else f"{money:.4f}"


def format_amount(value: object, kind: str) -> str:
    """An amount of a kind of use: money in millionths, time in seconds."""
    if kind == "money":
        return format_money(value)
    if kind == "time" and isinstance(value, int | float):
        return format_duration(value)
    return format_number(value)


def state_words(state: object) -> str:
    """The state of a task or a step in words; one that is not known as it is."""
    return _STATES.get(str(state), str(state).replace("_", " "))


def first_sentence(text: object) -> tuple[str, str]:
    """The first sentence of a description, on one line, and what follows it."""
    first, _, rest = str(text).strip().partition("\n\n")
    line = " ".join(first.split())
    if match := _SENTENCE.search(line):
        line, rest = line[: match.end()], f"{line[match.end() :].strip()}\n\n{rest}"
    return line, rest.strip()


def split_letter(body: object) -> tuple[list[tuple[str, str]], str]:
    """The fields in the first line of a letter, where that is an object of JSON, and its text."""
    first, _, rest = str(body).partition("\n")
    try:
        values = json.loads(first) if first.startswith("{") else None
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        return [], str(body)
    pairs = [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in values.items()
    ]
    return pairs, rest


def format_percent(value: object) -> str:
    """A share of one as a percentage."""
    return "-" if not isinstance(value, int | float) else f"{value * 100:.0f}%"


def _scale(value: object, base: int, units: tuple[str, ...]) -> str:
    if not isinstance(value, int | float):
        return "-"
    size, unit = float(value), 0
    while size >= base and unit < len(units) - 1:
        size, unit = size / base, unit + 1
    digits = 1 if unit and size < _TENTH_BELOW else 0
    return f"{size:.{digits}f}{units[unit]}"
