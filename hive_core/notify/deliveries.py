"""Notices on their way: kept until a receiver has them, retried for a day, at most 1,000."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from pydantic import BaseModel, ConfigDict

from hive_core.notify.notices import Notice, RouteState
from hive_core.services.retries import pause_after

log = logging.getLogger(__name__)
QUEUED_MOST: Final = 1000
LONGEST: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Delivered:
    """The receiver has it."""


@dataclass(frozen=True, slots=True)
class TryLater:
    """The receiver was not reached, or asked to wait; `after` in seconds, if it said so."""

    reason: str
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class Rejected:
    """The receiver will never take it."""

    reason: str


DeliveryOutcome = Delivered | TryLater | Rejected


class NoticeDelivery(BaseModel):
    """One notice for one receiver; its id stays the same in all attempts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    route: str
    notice: Notice
    created: float
    due: float
    attempts: int = 0


class NotifyState(BaseModel):
    """All that outlives the program. What was decided is queued in the same write."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cursor: str | None = None
    routes: dict[str, RouteState] = {}
    queue: tuple[NoticeDelivery, ...] = ()


def enqueue_notices(
    queue: Sequence[NoticeDelivery], route: str, notices: Sequence[Notice], now: float
) -> tuple[NoticeDelivery, ...]:
    """The queue with these notices; beyond 1,000 the oldest leave, urgent ones last."""
    new = [
        NoticeDelivery(id=uuid4().hex, route=route, notice=notice, created=now, due=now)
        for notice in notices
    ]
    queued = [*queue, *new]
    over = len(queued) - QUEUED_MOST
    if over > 0:
        log.warning("Discarded %d notices: %d are queued", over, QUEUED_MOST)
        by_worth = sorted(queued, key=_worth)
        discarded = {delivery.id for delivery in by_worth[:over]}
        queued = [delivery for delivery in queued if delivery.id not in discarded]
    return tuple(queued)


def _worth(delivery: NoticeDelivery) -> tuple[bool, float]:
    return delivery.notice.notice_class == "urgent", delivery.created


def due_deliveries(queue: Sequence[NoticeDelivery], now: float) -> list[NoticeDelivery]:
    """The oldest delivery of each receiver, where it is due: the order of its notices is kept."""
    first: dict[str, NoticeDelivery] = {}
    for delivery in queue:
        first.setdefault(delivery.route, delivery)
    # After a clock that was set back nothing waits for longer than the longest pause.
    return [one for one in first.values() if one.due <= now or one.due > now + LONGEST]


def settle_delivery(
    queue: Sequence[NoticeDelivery], delivery: NoticeDelivery, outcome: DeliveryOutcome, now: float
) -> tuple[NoticeDelivery, ...]:
    """The queue after an attempt."""
    rest = {one.id: one for one in queue}
    match outcome:
        case Delivered():
            rest.pop(delivery.id, None)
        case Rejected(reason):
            log.error("Cannot notify %s: %s", delivery.route, reason)
            rest.pop(delivery.id, None)
        case TryLater(reason, after):
            if now - delivery.created >= LONGEST:
                log.error("Gave up notifying %s after 24 hours: %s", delivery.route, reason)
                rest.pop(delivery.id, None)
            elif delivery.id in rest:
                due = now + max(min(after, LONGEST), pause_after(delivery.attempts))
                changed = {"attempts": delivery.attempts + 1, "due": due}
                rest[delivery.id] = delivery.model_copy(update=changed)
    return tuple(rest.values())
