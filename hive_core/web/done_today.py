"""How many tasks are done since midnight (UTC), by the audit log: each event is read once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from hive_core.errors import HiveError
from hive_core.services.replies import rows_of
from hive_core.varlink import Message

_DAY: Final = 86_400
_PAGE: Final = 1000
_PAGES: Final = 20  # in one count; the next count goes on

ReadEvents = Callable[[str, Message], Awaitable[Message]]


@dataclass(slots=True)
class DoneToday:
    """`is_whole`: all events of the day were read."""

    is_whole: bool = False
    _day: int = -1
    _after: str | None = None
    _tasks: set[str] = field(default_factory=set)

    async def count(self, now: float, call: ReadEvents) -> int:
        """The number of tasks; `call` makes a call of hived."""
        if (day := int(now // _DAY)) != self._day:
            self._day, self._after, self._tasks = day, None, set()
        self.is_whole = False
        for _ in range(_PAGES):
            parameters: Message = {"kinds": ["task"], "since": day * _DAY, "limit": _PAGE}
            if self._after is not None:
                parameters["after"] = self._after
            try:
                page = await call("list_events", parameters)
            except HiveError:  # what waits is shown without a whole count
                break
            self._take(page)
            if page.get("next") is None:
                self.is_whole = True
                break
        return len(self._tasks)

    def _take(self, page: Message) -> None:
        events, following = rows_of(page, "events"), page.get("next")
        for event in events:
            fields = event.get("fields")
            if isinstance(fields, dict) and fields.get("state") == "done":
                self._tasks.add(str(fields.get("task")))
        if following is not None:
            self._after = str(following)
        elif events:
            self._after = str(events[-1].get("seq"))
