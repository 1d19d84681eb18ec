"""The loop of hive-notify: what waits and happened, which notices are due, and their delivery."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hive_core.errors import HiveError
from hive_core.model.config.notify import NotifyRoute
from hive_core.notify.deliveries import (
    DeliveryOutcome,
    NoticeDelivery,
    NotifyState,
    TryLater,
    due_deliveries,
    enqueue_notices,
    settle_delivery,
)
from hive_core.notify.items import NoticeItem, event_item, silent_item, todo_items
from hive_core.notify.links import linked_thing
from hive_core.notify.notices import Notice, RouteState, decide_notices, hold_events
from hive_core.notify.outcomes import SettledItem
from hive_core.notify.senders import Sender
from hive_core.notify.source import NoticeSource
from hive_core.services.service_files import ServiceStateFile

log = logging.getLogger(__name__)
EVERY: Final = 1.0
LOOK_EVERY: Final = 30.0  # seconds between two looks at what waits, though nothing happened
SILENT_AFTER: Final = 60.0


@dataclass
class Notifier:
    """One step asks hived, queues what is due, saves that, and then sends.

    `faults`: why routes cannot be used. Their notices stay queued, and go out once that is mended.
    """

    source: NoticeSource
    routes: Mapping[str, NotifyRoute]
    senders: Mapping[str, Sender]
    file: ServiceStateFile[NotifyState]
    now: Callable[[], float]
    faults: Mapping[str, str] = field(default_factory=dict)
    state: NotifyState = field(default_factory=NotifyState)
    _waiting: tuple[NoticeItem, ...] = ()
    _looked: float = 0.0
    _answered: float = 0.0
    _has_reported: bool = False  # the faults; hived keeps them over its restarts
    _reported: float = 0.0  # when it was tried last
    _sending: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _is_saved: bool = True

    def load(self) -> None:
        self.state = self.file.load()
        self._answered = self.now()

    async def run(self) -> None:
        """Notify until cancelled."""
        try:
            while True:
                await self.step()
                await asyncio.sleep(EVERY)
        finally:
            for task in self._sending.values():
                task.cancel()

    async def step(self) -> None:
        """Ask, decide, save, send. What was saved is sent at least once.

        What cannot be saved is sent as well: it may be the notice that the disk is full.
        """
        happened, cursor = await self._ask()
        before = self.state
        await self._decide(happened, cursor)
        if self.state != before or not self._is_saved:
            self._is_saved = self.file.save(self.state)
        await self._deliver()

    async def _ask(self) -> tuple[list[NoticeItem], str | None]:
        """Read the events since the last step, and the waiting items after an event or a pause.

        The second value is the place in the log behind them.
        """
        try:
            events, cursor = await self.source.events(self.state.cursor)
            # First: the list below has an alarm about each route that hived was told of.
            await self._report_faults()
            now = self.now()
            if cursor != self.state.cursor or not 0 <= now - self._looked < LOOK_EVERY:
                self._waiting, self._looked = tuple(todo_items(await self.source.todo())), now
            self._answered = self.now()
        except HiveError as error:
            log.warning("Cannot ask hived: %s", error)
            return [], self.state.cursor
        return [item for event in events if (item := event_item(event)) is not None], cursor

    async def _report_faults(self) -> None:
        """Tell hived once which routes cannot be used; where it refuses, the others still send.

        That is tried again as often as it is asked what waits though nothing happened.
        """
        now = self.now()
        if self._has_reported or 0 <= now - self._reported < LOOK_EVERY:
            return
        self._reported = now
        try:
            await self.source.report(self.faults)
            self._has_reported = True
        except HiveError as error:
            log.warning("Cannot tell hived which routes cannot be used: %s", error)

    async def _decide(self, happened: list[NoticeItem], cursor: str | None) -> None:
        """Queue what is due, with the place in the log: notices may be sent meanwhile."""
        now, waiting = self.now(), self._waiting
        if now - self._answered >= SILENT_AFTER:
            waiting = (*waiting, silent_item())
        stored, due = self.state.routes, dict[str, list[Notice]]()
        routes = {name: stored[name] for name in self.faults if name in stored}
        for name, route in self.routes.items():
            state = hold_events(stored.get(name, RouteState()), route, happened)
            is_known = bool(self._looked)  # else hived has not said yet what waits
            if not is_known and now - self._answered < SILENT_AFTER:
                routes[name] = state
                continue
            notices, routes[name] = decide_notices(route, state, waiting, now, is_all=is_known)
            due[name] = [await self._complete(route, notice) for notice in notices]
        there = self.routes.keys() | self.faults.keys()
        queue = tuple(delivery for delivery in self.state.queue if delivery.route in there)
        for name, notices in due.items():
            queue = enqueue_notices(queue, name, notices, now)
        self.state = self.state.model_copy(
            update={"cursor": cursor, "routes": routes, "queue": queue}
        )

    async def _complete(self, route: NotifyRoute, notice: Notice) -> Notice:
        """The notice with what hived says of it: its links, or by whom it was settled."""
        if notice.kind == "settled" and route.text != "none":
            return await self._with_outcome(notice)
        return await self._with_links(route, notice)

    async def _with_outcome(self, notice: Notice) -> Notice:
        item = SettledItem(*notice.item, notice.agent, notice.since)
        if not item.is_logged:
            return notice
        try:
            return notice.model_copy(update={"body": await self.source.outcome(item)})
        except HiveError as error:
            log.warning("Cannot ask hived who settled %s: %s", notice.key, error)
            return notice

    async def _with_links(self, route: NotifyRoute, notice: Notice) -> Notice:
        """Add links to the notice. If hived offers none, send the notice without links."""
        thing = linked_thing(route, notice)
        if thing is None:
            return notice
        try:
            links = await self.source.links(thing)
        except HiveError as error:
            log.warning("Cannot offer links of %s: %s", notice.key, error)
            return notice
        return notice.model_copy(update={"links": tuple(links)})

    async def _deliver(self) -> None:
        """Send what is due, to all receivers at once and to each in order.

        A receiver that is slow holds up neither the others nor the next step.
        """
        for name in self.routes.keys() - self._sending.keys():
            self._sending[name] = asyncio.create_task(self._deliver_to(name))
        if self._sending:
            await asyncio.wait(self._sending.values(), timeout=EVERY)
        for name in [name for name, task in self._sending.items() if task.done()]:
            self._sending.pop(name).result()

    async def _deliver_to(self, name: str) -> None:
        while True:
            due = [one for one in due_deliveries(self.state.queue, self.now()) if one.route == name]
            if not due:
                return
            await self._send(due[0])

    async def _send(self, delivery: NoticeDelivery) -> None:
        outcome = await self._try_to_send(delivery)
        queue = settle_delivery(self.state.queue, delivery, outcome, self.now())
        self.state = self.state.model_copy(update={"queue": queue})
        self._is_saved = self.file.save(self.state)

    async def _try_to_send(self, delivery: NoticeDelivery) -> DeliveryOutcome:
        """Send once. A fault of a sender holds up its own route alone, and is tried again."""
        try:
            return await self.senders[delivery.route].send(delivery)
        except Exception as error:  # noqa: BLE001 - apprise and its plugins raise what they like
            # Without its text, which may hold an address with a password.
            reason = f"its sender failed with {type(error).__name__}"
            log.error("Cannot notify %s now: %s", delivery.route, reason)  # noqa: TRY400 - as above
            return TryLater(reason)
