"""The journal's lines as we hand them on; that it is really read is shown end to end."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from each import for_each
from typing_extensions import override

from hive_core.host.systemd import journal
from hive_core.model.wire.record import LogQuery

QUERY = LogQuery("u", "hive-agent@bob.service")
GUEST = LogQuery("u", "hive-agent@bob.service", boot=True)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def entry(text: object, second: int = 0) -> dict[str, Any]:
    when = NOON.replace(second=second)
    return {"MESSAGE": text, "__REALTIME_TIMESTAMP": when, "__CURSOR": f"c{second}"}


class Reader:
    """Entries in order, and a place between them."""

    def __init__(self, *entries: dict[str, Any], at: int = 0) -> None:
        self.entries, self.at = entries, at

    def get_next(self) -> dict[str, Any]:
        self.at += 1
        return self.entries[self.at - 1] if self.at <= len(self.entries) else {}

    def get_previous(self) -> dict[str, Any]:
        self.at -= 1
        return self.entries[self.at] if self.at >= 0 else {}


@for_each(
    "text, unit, rest",
    [
        ("web.service[17]: ready: yes", "web.service", "ready: yes"),
        ("systemd: Started it", "systemd", "Started it"),
        ("no colon here", "hive-agent@bob.service", "no colon here"),
        ("two words: text", "hive-agent@bob.service", "two words: text"),
        ("\x1b[31mred: x", "hive-agent@bob.service", "\x1b[31mred: x"),
    ],
)
def test_a_booted_guest_names_its_own_units(text: str, unit: str, rest: str) -> None:
    line = journal._line(entry(text), GUEST)
    assert (line.unit, line.text) == (unit, rest)


def test_an_agent_that_does_not_boot_names_no_user() -> None:
    """Attack 45: the text of a plain agent is text."""
    line = journal._line(entry("web.service[17]: ready"), QUERY)
    assert (line.unit, line.text) == ("hive-agent@bob.service", "web.service[17]: ready")
    assert line.time == NOON.timestamp()


def test_bytes_and_nothing_are_texts_too() -> None:
    assert journal._line(entry(b"a\xffb"), QUERY).text == "a\ufffdb"
    assert journal._line({}, QUERY).text == ""


def test_the_newest_come_first_to_the_count_and_last_in_time() -> None:
    reader = Reader(*(entry(f"line {n}", n) for n in range(6)), at=6)
    query = LogQuery("u", "x", lines=2, grep="line", since=NOON.timestamp() + 1)
    lines = list(journal._backward(reader, query))
    assert [line.text for line in lines] == ["line 5", "line 4"]
    rest = list(journal._backward(reader, LogQuery("u", "x", since=NOON.timestamp() + 2)))
    assert [line.text for line in rest] == ["line 3", "line 2"]


def test_forward_takes_the_first_behind_the_mark() -> None:
    reader = Reader(*(entry(f"line {n}", n) for n in range(6)), at=2)
    lines = list(journal._forward(reader, LogQuery("u", "x", grep="line"), 2))
    assert [line.cursor for line in lines] == ["c2", "c3"]


class GrowingJournal(Reader):
    """A line is written behind the first read; who watches by then is told."""

    def __init__(self) -> None:
        super().__init__()
        self.news: int | None = None

    def fileno(self) -> int:
        if self.news is None:
            self.news = os.eventfd(0, os.EFD_NONBLOCK)
        return self.news

    @override
    def get_next(self) -> dict[str, Any]:
        if self.at < len(self.entries):
            return super().get_next()
        if not self.entries:
            self.entries = (entry("late"),)
            if self.news is not None:
                os.eventfd_write(self.news, 1)
        return {}

    def process(self) -> None:
        assert self.news is not None
        os.eventfd_read(self.news)


def test_a_line_that_is_written_behind_the_first_read_comes_at_once() -> None:
    async def first() -> str:
        async with asyncio.timeout(5), aclosing(journal._follow(GrowingJournal(), QUERY)) as lines:
            return (await anext(lines)).text

    assert asyncio.run(first()) == "late"
