"""What all pages share: a mirror of the agents, the newest events, and what waits for the operator.

Each change is rendered once, as a frame, and offered to all streams that follow its topic. hived is
read on behalf of any login that there is; without a login nothing is read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from hive_core.errors import HiveError
from hive_core.services.replies import rows_of
from hive_core.varlink import Message
from hive_core.web.audit_feed import MAIL, AuditFeed
from hive_core.web.frames import BEAT, GAP, Frame, FrameLog
from hive_core.web.live_turns import TurnFollowers
from hive_core.web.logins import BrowserLogin, Logins
from hive_core.web.mirror import AgentMirror, Row
from hive_core.web.spending import Spending
from hive_core.web.stream import EventStream
from hive_core.web.timeline import History

log = logging.getLogger(__name__)
BEAT_SECONDS: Final = 2.0
# Rows a second of the audit log; of more that come at once, the newest are shown. Mail has half of
# them, so that a flood of it pushes nothing else out.
_EVENTS_A_SECOND: Final = 200
_MAIL_A_SECOND: Final = _EVENTS_A_SECOND // 2
TODO_SECONDS: Final = 0.5
AGES_SECONDS: Final = 60.0
EVENTS_KEPT: Final = 200
_WAIT: Final = 0.3
_EVERY: Final = 0.1
_EVENTS_EVERY: Final = 0.25  # with a shorter one hived makes more pages of the same rows
# Rows of one frame; more changes at once are several frames.
_ROWS_MOST: Final = 200
TOPICS: Final = frozenset({"tree", "attention", "audit", "timeline", "tasks", "cost", "agent"})
_DELAYS: Final = 10  # ticks
# What has to be followed for the pages to be as they say: without one of them there is no beat.
_AGENTS, _TODO, _EVENTS = "agents", "todo", "events"
_NEEDED: Final = frozenset({_AGENTS, _TODO})
# Pages that are read again when something has changed: how many ticks at least are between two
# frames of a topic, and after how many there is one in any case.
TICK_SECONDS: Final = 1.0
_PACE: Final[Mapping[str, tuple[int, int]]] = {
    "timeline": (1, 10), "tasks": (1, 60), "cost": (10, 60),
}  # fmt: skip

RenderRow = Callable[[Row], str]
Item = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Renderers:
    """How the pages draw what is live; a frame holds exactly what the page would."""

    agent: Callable[[Row], str]
    item: Callable[[Item], tuple[str, str]]  # its id in the page, and its row
    event: Callable[[Item], tuple[str, str]]


@dataclass(slots=True)
class Hub:
    """Follows hived, and tells the streams what has changed.

    `forget_reads` is called before pages are told to read again: a reply from before the change may
    be kept still, and the next frame of the topic may be a minute away. A loop that an unexpected
    fault ends begins again after `fault_pause` seconds.
    """

    logins: Logins
    renderers: Renderers
    forget_reads: Callable[[], None]
    fault_pause: float = 10.0
    frames: FrameLog = field(default_factory=FrameLog)
    agents: AgentMirror = field(default_factory=AgentMirror)
    events: deque[Item] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))
    history: History = field(default_factory=History)
    spending: Spending = field(default_factory=Spending)
    todo: Message = field(default_factory=dict)
    streams: set[EventStream] = field(default_factory=set)
    turns: TurnFollowers = field(init=False)
    _changed: set[str] = field(default_factory=set)
    _parties: set[str] = field(default_factory=set)  # of events since the last tick
    _items: dict[str, str] = field(default_factory=dict)
    _cells: dict[str, tuple[Row, str]] = field(default_factory=dict)
    _feed: AuditFeed = field(default_factory=lambda: AuditFeed(EVENTS_KEPT))
    _came: asyncio.Event = field(default_factory=asyncio.Event)
    _delays: deque[float] = field(default_factory=lambda: deque([0.0], maxlen=_DELAYS))
    _after: str | None = None
    _followed: set[str] = field(default_factory=set)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _stale: asyncio.Event = field(default_factory=asyncio.Event)
    _filled: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.turns = TurnFollowers(self.logins, self._offer, self.fault_pause)

    def start(self) -> None:
        loops: tuple[Coroutine[object, object, None], ...] = (
            self._keep(_AGENTS, self._follow_agents), self._keep(_EVENTS, self._follow_events),
            self._keep(_TODO, self._follow_todo), self._repeat(self._beat),
            self._repeat(self._tell_changes), self._repeat(self._tell_events),
        )  # fmt: skip
        self._tasks = [asyncio.create_task(loop) for loop in loops]

    async def stop(self) -> None:
        for stream in list(self.streams):
            stream.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.turns.stop()

    def wake(self) -> None:
        """Start following hived now, because a login was opened."""
        self._wake.set()
        self._wake = asyncio.Event()

    async def ready(self, seconds: float) -> bool:
        """Wait at most `seconds` for the first full list of agents; return whether it came."""
        try:
            async with asyncio.timeout(seconds):
                await self._filled.wait()
        except TimeoutError:
            return False
        return True

    def join(self, stream: EventStream, after: str) -> None:
        """Add a stream. It first gets the frames that it has missed."""
        for frame in self.frames.after(after, stream.topics) if after else [GAP]:
            stream.replay(frame)
        self.streams.add(stream)
        self.turns.join(stream)

    def leave(self, stream: EventStream) -> None:
        """Take a stream away that has ended."""
        self.streams.discard(stream)
        if not any(other.agent == stream.agent for other in self.streams):
            self.turns.leave(stream.agent)

    def cells(self, row: Row) -> str:
        """The cells of an agent's row, drawn once for each value that it has."""
        uuid = str(row.get("uuid"))
        known = self._cells.get(uuid)
        if known is not None and known[0] is row:
            return known[1]
        if len(self._cells) > 2 * len(self.agents.rows):  # most are of agents that are gone
            self._cells.clear()
        html = self.renderers.agent(row)
        self._cells[uuid] = row, html
        return html

    def refresh_todo(self) -> None:
        self._stale.set()

    def _publish(self, topic: str, values: Mapping[str, object]) -> None:
        self._offer(self.frames.add(topic, values))

    def _offer(self, frame: Frame) -> None:
        for stream in list(self.streams):
            stream.offer(frame)

    @property
    def _is_live(self) -> bool:
        """Whether the pages show what is so now."""
        return self._followed >= _NEEDED

    async def _keep(
        self, name: str, follow: Callable[[BrowserLogin], Coroutine[object, object, None]]
    ) -> None:
        """Run `follow` on behalf of one login; switch to another login when that one ends."""
        while True:
            login = self.logins.any()
            try:
                if login is not None:
                    await follow(login)
            except HiveError as error:
                log.debug("Cannot follow %s: %s", name, error)
            except Exception:
                log.exception("Cannot follow %s", name)
                self._followed.discard(name)
                await asyncio.sleep(self.fault_pause)
            self._followed.discard(name)
            await self._pause(login)

    async def _repeat(self, loop: Callable[[], Coroutine[object, object, None]]) -> None:
        """Run a loop that has no end; after a fault it begins anew."""
        while True:
            try:
                await loop()
            except Exception:
                log.exception("Cannot tell the pages what has changed")
                await asyncio.sleep(self.fault_pause)

    async def _pause(self, login: BrowserLogin | None) -> None:
        wake = self._wake
        try:
            async with asyncio.timeout(_WAIT if login is not None else None):
                await wake.wait()
        except TimeoutError:
            return

    async def _follow_agents(self, login: BrowserLogin) -> None:
        connection = await self.logins.open_stream_connection(login)
        try:
            parameters: Message = {"every": _EVERY, "figures": True}
            async for page in connection.stream("watch_agents", parameters):
                self._apply(page)
        finally:
            connection.close()

    def _apply(self, page: Message) -> None:
        self._followed.add(_AGENTS)
        changed, moved = self.agents.apply(page)
        if self.agents.is_whole:
            self._filled.set()
        if moved:
            self._publish("tree", {"tree": True})
        if page.get("reset") or (moved and not page.get("synced")):
            return  # all rows of it are loaded
        for at in range(0, len(changed), _ROWS_MOST):
            part = changed[at : at + _ROWS_MOST]
            rows = {f"a-{row['uuid']}": self.cells(row) for row in part}
            self._publish("tree", {"rows": rows})

    async def _follow_events(self, login: BrowserLogin) -> None:
        connection = await self.logins.open_stream_connection(login)
        newest: Message = {"last": EVENTS_KEPT, "limit": EVENTS_KEPT}
        parameters = newest if self._after is None else {"after": self._after, "limit": EVENTS_KEPT}
        parameters = {**parameters, "every": _EVENTS_EVERY, "mail_rate": _MAIL_A_SECOND}
        try:
            async for page in connection.stream("list_events", parameters):
                self._take_events(page, is_first=self._after is None)
        finally:
            connection.close()

    def _take_events(self, page: Message, *, is_first: bool) -> None:
        listed = page.get("events")
        events = (
            [event for event in listed if isinstance(event, dict)]
            if isinstance(listed, list)
            else []
        )
        following = page.get("next")
        self._after = str(following) if following else self._after
        self.events.extend(events)
        is_adjacent = not is_first and page.get("gap") is None
        if self.history.take(events, is_adjacent=is_adjacent):
            self._changed.add("timeline")
        if not events:
            return
        self.spending.take(events, is_adjacent=is_adjacent)
        parties = _skipped_parties(page)
        parties |= {str(event.get(key)) for event in events for key in ("caller", "target")}
        self._parties |= parties
        self._changed.add("cost")
        if any(event.get("operation") not in MAIL for event in events):
            self._changed.add("tasks")
            self._stale.set()
        elif "operator" in parties:
            self._stale.set()
        if not is_first:
            self._feed.add(events, _skipped_count(page))
            self._came.set()

    async def _tell_events(self) -> None:
        """Show events as they come; in a flood, so many rows a second of the newest."""
        while True:
            await self._came.wait()
            self._came.clear()
            events, left_out = self._feed.take()
            drawn = [list(self.renderers.event(event)) for event in events]
            self._publish("audit", {"first": drawn, "left_out": left_out})
            await asyncio.sleep(len(drawn) / _EVENTS_A_SECOND)

    async def _follow_todo(self, login: BrowserLogin) -> None:
        """Read the todo list again after an event, at most once a pause."""
        while True:
            self._take_todo(await login.connection.call("todo"))
            await asyncio.sleep(TODO_SECONDS)
            with suppress(TimeoutError):  # the ages go on
                async with asyncio.timeout(AGES_SECONDS):
                    await self._stale.wait()
            self._stale.clear()

    def _take_todo(self, reply: Message) -> None:
        self.todo = reply
        items = dict(map(self.renderers.item, rows_of(reply, "todo")))
        changed = {key: html for key, html in items.items() if self._items.get(key) != html}
        if changed or list(items) != list(self._items):
            order = list(items)
            self._publish("attention", {"order": order, "rows": changed, "waiting": self.waiting})
        self._items = items
        self._followed.add(_TODO)

    @property
    def lag(self) -> float:
        """Seconds by which frames left late, at most, in the last ten seconds."""
        return max(self._delays)

    @property
    def waiting(self) -> int:
        """How many items wait for the operator."""
        more = self.todo.get("more")
        return len(rows_of(self.todo, "todo")) + (more if isinstance(more, int) else 0)

    async def _beat(self) -> None:
        """Send a heartbeat to all streams every two seconds while hived answers."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            if self._is_live:
                self._offer(BEAT)

    async def _tell_changes(self) -> None:
        """Tell pages that reload as a whole that their data changed; rate-limited."""
        ticks = dict.fromkeys(_PACE, 0)
        while True:
            due = asyncio.get_running_loop().time() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            self._delays.append(max(0.0, asyncio.get_running_loop().time() - due))
            if self._is_live and (self._parties or self._changed):
                self.forget_reads()
            if self._parties and self._is_live:
                self._publish("agent", {"names": sorted(self._parties)})
                self._parties.clear()
            for topic, (least, most) in _PACE.items():
                ticks[topic] += 1
                is_due = topic in self._changed and ticks[topic] >= least
                if self._is_live and (is_due or ticks[topic] >= most):
                    ticks[topic] = 0
                    self._changed.discard(topic)
                    self._publish(topic, {})


def _skipped_parties(page: Message) -> set[str]:
    """Who sent or got the mail that hived did not list."""
    names = _skipped_mail(page).get("parties")
    return set(map(str, names)) if isinstance(names, list) else set()


def _skipped_count(page: Message) -> int:
    count = _skipped_mail(page).get("count")
    return count if isinstance(count, int) else 0


def _skipped_mail(page: Message) -> Item:
    skipped = page.get("skipped")
    return skipped if isinstance(skipped, dict) else {}
