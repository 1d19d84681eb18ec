"""A journal in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from hive_core.errors import HiveError
from hive_core.model.wire.record import LogLine, LogQuery
from hive_core.testing.clock import TIME


@dataclass
class MemoryJournal:
    """Lines that a test wrote."""

    lines: list[tuple[str, LogLine]] = field(default_factory=list)
    fault: HiveError | None = None
    _new: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, uuid: str, text: str, unit: str = "", time: float = TIME) -> None:
        cursor = str(len(self.lines) + 1)
        self.lines.append((uuid, LogLine(time, unit, text, cursor)))
        self._new.set()

    async def read(self, query: LogQuery) -> Sequence[LogLine]:
        if self.fault is not None:
            raise self.fault
        lines = self._matching(query)
        return lines[: query.lines] if query.after else lines[-query.lines :]

    def _matching(self, query: LogQuery) -> list[LogLine]:
        return [
            line for uuid, line in self.lines
            if uuid == query.uuid and query.grep in line.text and line.time >= (query.since or 0)
            and int(line.cursor) > int(query.after or 0)
        ]  # fmt: skip

    async def follow(self, query: LogQuery) -> AsyncIterator[LogLine]:
        seen = query
        while True:
            for line in self._matching(seen):
                seen = replace(seen, after=line.cursor)
                yield line
            self._new.clear()
            await self._new.wait()
