"""Triggers: their rules, their times, and for which of the missed times they fire.

A cron rule and a one-shot follow the wall clock: they are due when the wall clock has passed their
time since `since`. An interval lasts a number of seconds, whatever the clock is set to: its times
move along with the clock (ledger/triggers/storage.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import Final, Literal, assert_never
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from hive_core.errors import InvalidArgument
from hive_core.model.states import StateMachine, Transition

GRACE: Final = 60.0  # seconds of delay up to which a time is not missed
MOST: Final = 100  # missed times that are counted one by one
SET_BACK: Final = (
    3 * 3600.0
)  # as cron(8) of Debian: a clock that is set back by less repeats no fire
OUTPUT: Final = 4000
YEARS: Final = 10.0 * 366 * 86_400


TriggerClock = Literal["interval", "wall clock", "none"]


class TriggerKind(StrEnum):
    CRON = "cron"
    EVERY = "every"
    AT = "at"
    WEBHOOK = "webhook"

    @property
    def clock(self) -> TriggerClock:
        """What its times follow, which decides how they move when the host's clock is set."""
        match self:
            case TriggerKind.EVERY:
                return "interval"
            case TriggerKind.CRON | TriggerKind.AT:
                return "wall clock"
            case TriggerKind.WEBHOOK:
                return "none"
            case _:
                assert_never(self)


class Missed(StrEnum):
    """What happens to missed times."""

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

FIRE: Final = StateMachine(
    noun="fire",
    start="open",
    finals=frozenset({"done", "skipped", "refused", "waits"}),
    transitions=(
        Transition("open", "finish", "done", "the daemon", "its work has ended"),
        Transition(
            "open", "skip", "skipped", "the daemon", "it came too late, or the fire before is open"
        ),
        Transition(
            "open", "refuse", "refused", "the daemon", "the owner of the trigger may not do it now"
        ),
        Transition(
            "open", "wait", "waits", "the daemon", "it comes when the fire before has ended"
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class TriggerRule:
    """When a trigger fires. `every` in seconds, `at` in seconds since 1970, the rest for webhooks.

    `path`: end of its address; empty: only the id. `strict`: the whole request has to be signed.
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
    """One row. `owner` set it, `agent` is its target: UUIDs; the owner may be `operator`.

    All times up to `since` are handled. `due`: when to check it next; None: never. `open`: number
    of a fire whose work goes on. `hook`: the id in the address of a webhook. `secret`: the name of
    its stored secret.
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
class TriggerFire:
    """One fire of a trigger. `due`: its time; `count`: the number of times that it stands for.

    `ref`: the task or the message; `spawned`: UUID of a new agent.
    """

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
class DueFires:
    """The fires that are due. `fires`: for each its time, and the number of times it stands for.

    `waits`: a fire is due as soon as the open one has ended.
    """

    fires: tuple[tuple[float, int], ...] = ()
    skipped: int = 0
    since: float = 0.0
    due: float | None = None
    waits: bool = False


NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """State that decides beside the rule: see `Trigger`. `room`: fires that the agent has left."""

    missed: Missed
    since: float
    now: float
    single: bool = False
    open: bool = False
    room: int = MOST


def zone_of(name: str) -> ZoneInfo:
    """The time zone of this name on this machine, or InvalidArgument."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise InvalidArgument(f"{name[:64]!r} is not a time zone", field="when.zone") from None


def check_cron(text: str, zone: str, now: float) -> None:
    """Refuse an expression that is not valid or never fires; the error names the field."""
    where = zone_of(zone)
    try:
        schedule = CronSim(text, datetime.fromtimestamp(now, where))
    except CronSimError as error:
        reason = f"{text!r} is not a cron expression: {str(error).lower()}"
        raise InvalidArgument(reason, field="when.cron") from None
    try:
        first: float | None = next(schedule).timestamp()
    except (StopIteration, OverflowError, ValueError):
        first = None
    if first is None or first > now + YEARS:
        reason = f"{text!r} does not fire in the next ten years"
        raise InvalidArgument(reason, field="when.cron")


def _cron_times(rule: TriggerRule, since: float) -> Iterator[float]:
    """Times after `since`, in order and each once.

    A time that the clock skips comes right after the gap, and a time that it repeats comes once, as
    in Debian's cron. A rule whose minute or hour begins with `*` follows the clock.
    """
    start = datetime.fromtimestamp(since, UTC).astimezone(zone_of(rule.zone))
    last = since
    for moment in CronSim(rule.cron, start):
        if (time := moment.timestamp()) > last:
            last = time
            yield time


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
        case _:
            assert_never(rule.kind)


def next_time(rule: TriggerRule, since: float) -> float | None:
    """The first time after `since`; None when the machine no longer has the zone."""
    with suppress(InvalidArgument):
        return next(times(rule, since), None)
    return None


def _past_times(rule: TriggerRule, since: float, now: float) -> tuple[list[float], bool]:
    """The first `MOST` times after `since` up to now, and whether there are more."""
    past: list[float] = []
    for time in islice(times(rule, since), MOST + 1):
        if time > now:
            break
        past.append(time)
    return past[:MOST], len(past) > MOST


def _latest_time(rule: TriggerRule, since: float, now: float) -> float:
    """The last time up to now of a rule with too many times to go through."""
    match rule.kind:
        case TriggerKind.EVERY:
            return since + rule.every * ((now - since) // rule.every)
        case TriggerKind.CRON:
            start = datetime.fromtimestamp(now + 1, UTC).astimezone(zone_of(rule.zone))
            before = (time.timestamp() for time in CronSim(rule.cron, start, reverse=True))
            return next((time for time in before if time <= now), now)
        case TriggerKind.AT:
            return rule.at
        case TriggerKind.WEBHOOK:
            return since  # a webhook has no times
        case _:
            assert_never(rule.kind)


def due_fires(rule: TriggerRule, state: ScheduleState) -> DueFires:
    """The fires of a trigger that are due now, and when to check it again."""
    since, now = state.since, state.now
    if rule.kind is TriggerKind.CRON and since > now:
        # The clock was set back. By a little: no fire is repeated. By a lot: it was wrong before,
        # and is right now.
        since = since if since - now < SET_BACK else now
    past, many = _past_times(rule, since, now)
    if not past:
        return DueFires(since=since, due=next_time(rule, since))
    if state.open and state.missed is not Missed.SKIP:
        return DueFires(since=since, due=None, waits=True)
    if state.room < 1 and not state.open:
        return DueFires(since=since, due=now)
    return _select_fires(rule, state, past, many=many)


def _select_fires(
    rule: TriggerRule, state: ScheduleState, past: list[float], *, many: bool
) -> DueFires:
    """For which of the past times the trigger fires."""
    last, skipped = past[-1], 0
    if many:
        last = max(last, _latest_time(rule, state.since, state.now))
    fires: tuple[tuple[float, int], ...] = ((last, len(past)),)
    if state.missed is Missed.SKIP:
        fresh = state.now - last <= GRACE and not state.open
        fires, skipped = ((last, 1),) if fresh else (), len(past) - fresh
    elif state.missed is Missed.ALL and not many:
        if state.single:  # the others follow one by one
            fires = (((last := past[0]), 1),)
        elif len(past) <= state.room:
            fires = tuple((time, 1) for time in past)
    return DueFires(fires, skipped, last, next_time(rule, last))


def rule_text(rule: TriggerRule, address: str = "") -> str:
    """The rule in words, for people."""
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
            methods, all_ = " or ".join(rule.methods), ", all of it signed" if rule.strict else ""
            return f"When {methods} comes to {address or 'its address'}{all_}"
