"""Which notices are due: new items, reminders, digests, items that are settled. Values only."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from hive_core.model.config.notify import NoticeClass, NotifyRoute
from hive_core.notify.items import NoticeItem
from hive_core.notify.outcomes import SETTLED

REMIND_FIRST: Final = 900.0
REMIND_SECOND: Final = 3600.0
REMIND_EVERY: Final = 14_400.0
WINDOW: Final = 600.0
WINDOW_MOST: Final = 10
_HELD_MOST: Final = 500
_LINES: Final = 20

NoticeKind = Literal["new", "reminder", "settled", "digest"]


class NoticeLink(BaseModel):
    """A button: what it says and where it leads."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str
    url: str


class Notice(BaseModel):
    """What is sent. Notices with the same `key` replace each other on a phone.

    `item`, `agent` and `task` say what it is about, `place` is the path of its page on the
    dashboard, and `since` is when an item that is settled was first sent.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: NoticeKind
    key: str
    notice_class: NoticeClass
    title: str
    body: str = ""
    links: tuple[NoticeLink, ...] = ()
    item: tuple[str, str] = ("", "")  # its kind and id; a digest has none
    agent: str = ""
    task: str = ""
    place: str = ""
    since: float = 0.0


def item_address(notice: Notice, dashboard: str) -> str:
    """The address at which the operator decides the item; empty if it is settled.

    Empty also if the settings name no dashboard.
    """
    return f"{dashboard}{notice.place}" if dashboard and notice.kind != "settled" else ""


def sequence_id(key: str) -> str:
    """A name of the item that says nothing about it."""
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


class ShownItem(BaseModel):
    """An item that waits and that the receiver was told of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: float
    reminders: int = 0
    alone: bool = True  # by a notice of its own, which can be replaced
    title: str = ""
    notice_class: NoticeClass = "needs-input"
    item: tuple[str, str] = ("", "")
    agent: str = ""


class HeldEvent(BaseModel):
    """Something that happened and that the receiver is not told of yet."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    kind: str
    notice_class: NoticeClass
    agent: str = ""
    text: str = ""
    id: str = ""
    task: str = ""
    outcome: str = ""

    @property
    def item(self) -> NoticeItem:
        return NoticeItem(**self.model_dump())


class RouteState(BaseModel):
    """What one receiver was told of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    shown: Mapping[str, ShownItem] = {}
    held: tuple[HeldEvent, ...] = ()
    sent: tuple[float, ...] = ()  # times in the last ten minutes
    digest_at: float = 0.0  # no earlier digest


def due_reminders(first: float, now: float) -> int:
    """How many reminders of an item have come due: after 15 min, 1 h, then each 4 h."""
    age = now - first
    if age < REMIND_SECOND:
        return int(age >= REMIND_FIRST)
    return 2 + int((age - REMIND_SECOND) // REMIND_EVERY)


def hold_events(state: RouteState, route: NotifyRoute, items: Sequence[NoticeItem]) -> RouteState:
    """Take what happened; the oldest leave where too much is held."""
    chosen = [item for item in items if item.is_for(route)]
    new = [
        HeldEvent(
            key=item.key, kind=item.kind, notice_class=item.notice_class, agent=item.agent,
            text=item.text, id=item.id, task=item.task, outcome=item.outcome,
        )
        for item in chosen
    ]  # fmt: skip
    return state.model_copy(update={"held": (*state.held, *new)[-_HELD_MOST:]})


def decide_notices(
    route: NotifyRoute, state: RouteState, waiting: Sequence[NoticeItem], now: float, *,
    is_all: bool = True,
) -> tuple[list[Notice], RouteState]:  # fmt: skip
    """The notices that are due now for one receiver, and what it was told of then.

    `waiting` is all that waits now; where it is not `is_all`, nothing counts as settled. Urgent
    items are sent at once. Others are not sent in quiet hours, and as one digest where more than
    ten would be sent in ten minutes.
    """
    waiting = [item for item in waiting if item.is_for(route)]
    recent = tuple(at for at in state.sent if now - WINDOW < at <= now)
    shown = dict(state.shown)
    notices = _settle(shown, {item.key for item in waiting}) if is_all else []
    fresh = [item for item in waiting if item.key not in shown]
    events = [held.item for held in state.held]
    urgent = [item for item in (*fresh, *events) if item.notice_class == "urgent"]
    notices += [_send(route, item, shown, now, waiting) for item in urgent]
    quiet = route.quiet_hours
    is_quiet = quiet is not None and quiet.contains(now)
    notices += _remind(route, shown, waiting, now, urgent_only=is_quiet)
    calm = [item for item in (*fresh, *events) if item.notice_class != "urgent"]
    held, digest_at = state.held, state.digest_at
    sent = (*recent, *(now for notice in notices if notice.kind != "settled"))
    if calm and not is_quiet:
        room = WINDOW_MOST - len(sent)
        if len(calm) <= room:
            notices += [_send(route, item, shown, now, waiting) for item in calm]
            sent, held = (*sent, *(now for _ in calm)), ()
        elif now >= digest_at:
            notices.append(_digest(route, calm, shown, now, waiting))
            sent, held, digest_at = (*sent, now), (), now + WINDOW
    held = tuple(event for event in held if event.notice_class != "urgent")
    return notices, RouteState(shown=shown, held=held, sent=sent, digest_at=digest_at)


def _settle(shown: dict[str, ShownItem], open_keys: set[str]) -> list[Notice]:
    """Remove settled items; a notice that was sent alone is replaced by a settled notice."""
    over = [key for key in shown if key not in open_keys]
    items = {key: shown.pop(key) for key in over}
    return [
        Notice(
            kind="settled", key=key, notice_class=item.notice_class, title=item.title,
            body=SETTLED, item=item.item, agent=item.agent, since=item.first,
        )
        for key, item in items.items() if item.alone
    ]  # fmt: skip


def _send(
    route: NotifyRoute, item: NoticeItem, shown: dict[str, ShownItem], now: float,
    waiting: Sequence[NoticeItem],
) -> Notice:  # fmt: skip
    title = item.title(route)
    if item in waiting:
        shown[item.key] = ShownItem(
            first=now, title=title, notice_class=item.notice_class, item=(item.kind, item.id),
            agent=item.agent,
        )  # fmt: skip
    return _notice_of(route, item, "new", title)


def _notice_of(route: NotifyRoute, item: NoticeItem, kind: NoticeKind, title: str) -> Notice:
    return Notice(
        kind=kind, key=item.key, notice_class=item.notice_class, title=title,
        body=item.body(route), item=(item.kind, item.id), agent=item.agent, task=item.task,
        place=item.place(route),
    )  # fmt: skip


def _remind(
    route: NotifyRoute, shown: dict[str, ShownItem], waiting: Sequence[NoticeItem], now: float, *,
    urgent_only: bool,
) -> list[Notice]:  # fmt: skip
    """Send one reminder for each item that is due, even if several fell into quiet hours."""
    notices = []
    for item in waiting:
        known = shown.get(item.key)
        if known is None or (urgent_only and item.notice_class != "urgent"):
            continue
        due = due_reminders(known.first, now)
        if due <= known.reminders:
            continue
        shown[item.key] = known.model_copy(update={"reminders": due})
        notices.append(_notice_of(route, item, "reminder", f"{item.title(route)} (reminder)"))
    if len(notices) > WINDOW_MOST:
        return [_sum_up("reminder", "reminders", notices)]
    return notices


def _digest(
    route: NotifyRoute, items: Sequence[NoticeItem], shown: dict[str, ShownItem], now: float,
    waiting: Sequence[NoticeItem],
) -> Notice:  # fmt: skip
    notices = [_send(route, item, shown, now, waiting) for item in items]
    for item in items:
        if item.key in shown:
            shown[item.key] = shown[item.key].model_copy(update={"alone": False})
    return _sum_up("digest", f"digest:{round(now)}", notices)


def _sum_up(kind: NoticeKind, key: str, notices: Sequence[Notice]) -> Notice:
    """Many notices as one: how many of each class, and the first titles."""
    counts = Counter(notice.notice_class for notice in notices)
    numbers = ", ".join(f"{count} {of}" for of, count in sorted(counts.items()))
    titles = [notice.title for notice in notices[:_LINES]]
    more = len(notices) - len(titles)
    lines = [*titles, *([f"and {more} more"] if more else [])]
    return Notice(
        kind=kind, key=key, notice_class=notices[0].notice_class,
        title=f"hive has {len(notices)} notices: {numbers}",
        body="\n".join(dict.fromkeys(lines)),
    )  # fmt: skip
