"""Triggers: what happens by itself, at which times, and which of those times count.

Two clocks are kept apart. A cron rule and a one-shot go by the wall clock: what counts is what the
clock on the wall has passed since `since`. An interval lasts so many seconds, whatever the clock
is set to: its times move along with it (ledger/triggers/storage.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from hive_core.errors import InvalidArgument
from hive_core.model.states import StateMachine, Transition

GRACE: Final = 60.0  # a time that is behind by no more is not a missed one
MOST: Final = 100  # missed times that are told apart
SET_BACK: Final = 3 * 3600.0  # as cron(8) of Debian: a clock that is put right by less repeats none
OUTPUT: Final = 4000
YEARS: Final = 10.0 * 366 * 86_400


class TriggerKind(StrEnum):
    CRON = "cron"
    EVERY = "every"
    AT = "at"
    WEBHOOK = "webhook"


class Missed(StrEnum):
    """What becomes of times at which nothing could be done."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


class TriggerAction(StrEnum):
    MESSAGE = "message"
    WAKE = "wake"
    TASK = "task"
    SPAWN = "spawn"


_SINGLE: Final = frozenset(
    {TriggerAction.TASK, TriggerAction.SPAWN}
)  # the next one waits for the end of the last

RUN: Final = StateMachine(
    noun="fire",
    start="open",
    finals=frozenset({"done", "skipped", "refused", "waits"}),
    transitions=(
        Transition("open", "finish", "done", "the daemon", "what it began has ended"),
        Transition(
            "open", "skip", "skipped", "the daemon", "it came too late, or the last one is open"
        ),
        Transition(
            "open", "refuse", "refused", "the daemon", "who set the trigger may not do it now"
        ),
        Transition("open", "wait", "waits", "the daemon", "it comes when the last one has ended"),
    ),
)


@dataclass(frozen=True, slots=True)
class TriggerRule:
    """When. `every` in seconds; `at` in seconds since 1970; what follows is about a webhook.

    `path`: of its address; empty: the id alone. `strict`: all of a request has to be signed.
    """

    kind: TriggerKind
    cron: str = ""
    zone: str = "UTC"
    every: float = 0.0
    at: float = 0.0
    methods: tuple[str, ...] = ()
    path: str = ""
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Trigger:
    """One row. `owner` set it, and `agent` is whom it is for: UUIDs, or `operator` as the owner.

    Everything up to `since` is accounted for. `due` is when to look at it next; None: never by
    itself. `open` is the number of a fire whose work goes on. `hook` is the id in the address of a
    webhook and `secret` the name under which its secret is kept.
    """

    number: int
    id: str
    owner: str
    agent: str
    name: str
    rule: TriggerRule
    act: TriggerAction
    action: Mapping[str, object]
    missed: Missed
    enabled: bool
    created: float
    since: float
    due: float | None
    parked: bool = False
    hook: str = ""
    secret: str = ""
    fired: int = 0
    open: int | None = None

    @property
    def single(self) -> bool:
        return self.act in _SINGLE


@dataclass(frozen=True, slots=True)
class TriggerRun:
    """One fire: `due` is the time it is for, `count` how many times it stands for (`more`: or
    more). `ref` is the task or the message; `spawned` the UUID of a new agent."""

    number: int
    id: str
    trigger: int
    agent: str
    at: float
    due: float
    count: int
    state: str
    detail: str = ""
    ref: str = ""
    spawned: str = ""
    ended: float | None = None
    status: str = ""
    code: int | None = None
    output: str = ""


@dataclass(frozen=True, slots=True)
class DueRuns:
    """What a look at a trigger comes to. `fires`: (time, how many times it stands for) each.

    `waits`: there is something to do, when the last fire has ended.
    """

    runs: tuple[tuple[float, int], ...] = ()
    skipped: int = 0
    since: float = 0.0
    due: float | None = None
    waits: bool = False


NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """What decides beside the rule: see `Trigger`. `room`: fires that the agent has left."""

    missed: Missed
    since: float
    now: float
    single: bool = False
    open: bool = False
    room: int = MOST


def zone_of(name: str) -> ZoneInfo:
    """A time zone of the machine, or InvalidArgument."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise InvalidArgument(f"{name[:64]!r} is no time zone", field="when.zone") from None


def check_cron(text: str, zone: str, now: float) -> None:
    """InvalidArgument that names the field of the expression, or says that it never fires."""
    where = zone_of(zone)
    try:
        found = CronSim(text, datetime.fromtimestamp(now, where))
    except CronSimError as error:
        reason = f"{text!r} is no cron expression: {str(error).lower()}"
        raise InvalidArgument(reason, field="when.cron") from None
    try:
        first: float | None = next(found).timestamp()
    except (StopIteration, OverflowError, ValueError):
        first = None
    if first is None or first > now + YEARS:
        reason = f"{text!r} does not fire in the next ten years"
        raise InvalidArgument(reason, field="when.cron")


def _cron_times(rule: TriggerRule, since: float) -> Iterator[float]:
    """Times after `since`, in order and each once.

    A time that the clock leaves out comes right after the gap, one that it has twice comes once,
    as in Debian's cron; where minute or hour begin with `*` the clock is followed as it goes.
    """
    start = datetime.fromtimestamp(since, UTC).astimezone(zone_of(rule.zone))
    last = since
    for each in CronSim(rule.cron, start):
        if (found := each.timestamp()) > last:
            last = found
            yield found


def times(rule: TriggerRule, since: float) -> Iterator[float]:
    """The times of a rule after `since`."""
    match rule.kind:
        case TriggerKind.CRON:
            yield from _cron_times(rule, since)
        case TriggerKind.EVERY:
            at = since + rule.every
            while True:
                yield at
                at += rule.every
        case TriggerKind.AT:
            if rule.at > since:
                yield rule.at
        case TriggerKind.WEBHOOK:
            return


def next_time(rule: TriggerRule, since: float) -> float | None:
    """The first time after `since`; none when the machine does not know the zone any more."""
    with suppress(InvalidArgument):
        return next(times(rule, since), None)
    return None


def _past_times(rule: TriggerRule, since: float, now: float) -> tuple[list[float], bool]:
    """The times after `since` up to now: the first of them, and whether there are too many."""
    found: list[float] = []
    for each in islice(times(rule, since), MOST + 1):
        if each > now:
            break
        found.append(each)
    return found[:MOST], len(found) > MOST


def _latest_time(rule: TriggerRule, since: float, now: float) -> float:
    """The last time up to now of a rule that had too many to walk through."""
    if rule.kind is TriggerKind.EVERY:
        return since + rule.every * ((now - since) // rule.every)
    start = datetime.fromtimestamp(now + 1, UTC).astimezone(zone_of(rule.zone))
    before = (each.timestamp() for each in CronSim(rule.cron, start, reverse=True))
    return next((each for each in before if each <= now), now)


def due_runs(rule: TriggerRule, asked: ScheduleState) -> DueRuns:
    """What is to be done about a trigger now, and when to look again."""
    since, now = asked.since, asked.now
    if rule.kind is TriggerKind.CRON and since > now:
        # The clock was set back. By little: what has fired does not fire again. By much: it was
        # wrong before, and is believed now.
        since = since if since - now < SET_BACK else now
    found, many = _past_times(rule, since, now)
    if not found:
        return DueRuns(since=since, due=next_time(rule, since))
    if asked.open and asked.missed is not Missed.SKIP:
        return DueRuns(since=since, due=None, waits=True)
    if asked.room < 1 and not asked.open:
        return DueRuns(since=since, due=now)
    return _select_runs(rule, asked, found, many=many)


def _select_runs(
    rule: TriggerRule, asked: ScheduleState, found: list[float], *, many: bool
) -> DueRuns:
    """Which of the times that have passed are fires."""
    last, skipped = found[-1], 0
    if many:
        last = max(last, _latest_time(rule, asked.since, asked.now))
    fires: tuple[tuple[float, int], ...] = ((last, len(found)),)
    if asked.missed is Missed.SKIP:
        fresh = asked.now - last <= GRACE and not asked.open
        fires, skipped = ((last, 1),) if fresh else (), len(found) - fresh
    elif asked.missed is Missed.ALL and not many:
        if asked.single:  # the others come one after the other
            fires = (((last := found[0]), 1),)
        elif len(found) <= asked.room:
            fires = tuple((each, 1) for each in found)
    return DueRuns(fires, skipped, last, next_time(rule, last))


def rule_text(rule: TriggerRule, address: str = "") -> str:
    """For people."""
    match rule.kind:
        case TriggerKind.CRON:
            return f"{CronSim(rule.cron, datetime.fromtimestamp(0, UTC)).explain()} ({rule.zone})"
        case TriggerKind.EVERY:
            return f"Every {rule.every:g} seconds"
        case TriggerKind.AT:
            moment = datetime.fromtimestamp(rule.at, UTC)
            with suppress(InvalidArgument):
                moment = moment.astimezone(zone_of(rule.zone))
            return f"Once, at {moment:%Y-%m-%d %H:%M:%S} ({moment.tzinfo})"
        case TriggerKind.WEBHOOK:
            what, all_ = " or ".join(rule.methods), ", all of it signed" if rule.strict else ""
            return f"When {what} comes to {address or 'its address'}{all_}"
