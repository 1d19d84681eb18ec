"""The only reader of the host's journal.

Lines are selected by trusted fields of the journal: the unit, and the UUID that systemd adds to
every line of the unit, because names are reused. The log of a booted guest arrives under the
agent's unit as `ident[pid]: text`; the name before the colon is the guest's claim.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, Final

from systemd import journal

from hive_core.errors import Busy, InvalidArgument
from hive_core.model.wire.record import LogLine, LogQuery

_GUEST: Final = re.compile(r"([\w.@:\\+-]{1,255}?)(?:\[\d+\])?: (.*)", re.ASCII | re.DOTALL)
_SCAN_MOST: Final = 20_000  # entries examined for one answer
_BATCH: Final = 50
_SECONDS: Final = 30.0
_QUIET: Final = 20.0  # shorter than the timeout of a slow read
_AT_ONCE: Final = 2


class HostJournal:
    """The port `Journal` on a real host. Reads in threads, a few lines at a time."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def read(self, query: LogQuery) -> Sequence[LogLine]:
        async with self._slots:
            try:
                async with asyncio.timeout(_SECONDS):
                    return await asyncio.to_thread(_read, query)
            except TimeoutError as error:
                raise Busy(
                    f"reading the journal took more than {_SECONDS:.0f} s; try again"
                ) from error

    async def follow(self, query: LogQuery) -> AsyncIterator[LogLine]:
        # Not closed explicitly: after a cancellation, a thread may still read. The reader closes
        # with its last reference.
        reader = await asyncio.to_thread(_reader_of, query)
        async with aclosing(_follow(reader, query)) as lines:
            async for line in lines:
                yield line


async def _follow(reader: Any, query: LogQuery) -> AsyncGenerator[LogLine]:  # noqa: ANN401
    """The lines behind the place of the reader, until none comes for a while."""
    # The first call makes the watch. Made behind the first read, it would miss what is written
    # between them. https://www.freedesktop.org/software/systemd/man/sd_journal_get_fd.html
    await asyncio.to_thread(reader.fileno)
    while True:
        lines = await asyncio.to_thread(_batch, reader, query)
        for line in lines:
            yield line
        if not lines:
            if not await _news(reader):
                return
            reader.process()


async def _news(reader: Any) -> bool:  # noqa: ANN401 - systemd-python has no types
    """Wait until the journal has grown. Watched only meanwhile, because it stays ready until read.

    Ends after a time, because the follower may have lost its right or its client by then.
    """
    loop, news = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(reader.fileno(), news.set)
    try:
        async with asyncio.timeout(_QUIET):
            return await news.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(reader.fileno())


def _open(query: LogQuery) -> Any:  # noqa: ANN401
    reader = journal.Reader()
    reader.add_match(_SYSTEMD_UNIT=query.unit)
    reader.add_match(HIVE_UUID=query.uuid)
    if query.invocation:
        reader.add_match(_SYSTEMD_INVOCATION_ID=query.invocation)
    return reader


def _reader_of(query: LogQuery) -> Any:  # noqa: ANN401
    """A reader after the cursor of the query, or after the newest line."""
    reader = _open(query)
    if query.after:
        _seek(reader, query.after)
    else:
        reader.seek_tail()
        reader.get_previous()
    return reader


def _seek(reader: Any, cursor: str) -> None:  # noqa: ANN401
    """Move to the line after this cursor, or to where it would be."""
    try:
        reader.seek_cursor(cursor)
    except (OSError, ValueError) as error:
        raise InvalidArgument("this is not a position in the log", field="after") from error
    entry = reader.get_next()
    if entry and not reader.test_cursor(cursor):
        reader.get_previous()


def _read(query: LogQuery) -> list[LogLine]:
    """The newest lines, or with `after` the first lines after that cursor."""
    if query.after:
        reader = _reader_of(query)
        lines = list(_forward(reader, query, query.lines))
    else:
        reader = _open(query)
        reader.seek_tail()
        lines = list(_backward(reader, query))[::-1]
    reader.close()
    return lines


def _batch(reader: Any, query: LogQuery) -> list[LogLine]:  # noqa: ANN401
    """The next few lines; many entries may be examined for them."""
    return list(_forward(reader, query, _BATCH))


def _forward(reader: Any, query: LogQuery, most: int) -> Iterator[LogLine]:  # noqa: ANN401
    for _ in range(_SCAN_MOST):
        if most <= 0 or not (entry := reader.get_next()):
            return
        line = _line(entry, query)
        if query.grep in line.text and line.time >= (query.since or 0.0):
            most -= 1
            yield line


def _backward(reader: Any, query: LogQuery) -> Iterator[LogLine]:  # noqa: ANN401
    left = query.lines
    for _ in range(_SCAN_MOST):
        if left <= 0 or not (entry := reader.get_previous()):
            return
        line = _line(entry, query)
        if line.time < (query.since or 0.0):
            return
        if query.grep in line.text:
            left -= 1
            yield line


def _line(entry: dict[str, Any], query: LogQuery) -> LogLine:
    text, unit = entry.get("MESSAGE", ""), query.unit
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    if query.boot and (guest := _GUEST.fullmatch(str(text))):
        unit, text = guest.groups()
    when = entry.get("__REALTIME_TIMESTAMP")
    time = when.timestamp() if isinstance(when, datetime) else 0.0
    return LogLine(time, unit, str(text), str(entry.get("__CURSOR", "")))
