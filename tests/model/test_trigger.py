"""When triggers fire, against a walk through every minute; and which of the missed times count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from each import for_each
from hypothesis import example, given, settings
from hypothesis import strategies as st
from long import times as sized

from hive_core.errors import InvalidArgument
from hive_core.model.work.trigger import (
    GRACE,
    MOST,
    SET_BACK,
    Missed,
    ScheduleState,
    TriggerKind,
    TriggerRule,
    check_cron,
    due_fires,
    next_time,
    rule_text,
    times,
)

DAY = 86_400.0
# Gaps and repeats at two and at midnight; none at all; a day that was left out.
ZONES = (
    # Not Lord Howe: where clocks change by half an hour cronsim leaves out the half hour after it.
    "UTC", "Europe/Berlin", "America/New_York", "Africa/Cairo",
    "America/Santiago", "Asia/Kolkata", "Pacific/Apia",
)  # fmt: skip
CHANGES = {
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Africa/Cairo": ("2026-04-24", "2026-10-30"),
    "America/Santiago": ("2026-04-05", "2026-09-06"),
    "Pacific/Apia": ("2011-12-30", "2012-04-01"),
}
_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


@dataclass(frozen=True)
class Part:
    """A field of an expression, with what it stands for: worked out here, and not by the code."""

    text: str
    values: frozenset[int]


def _parts(low: int, high: int, names: tuple[str, ...] = ()) -> st.SearchStrategy[Part]:
    every = range(low, high + 1)

    def name(value: int) -> str:
        return names[value - low] if value - low < len(names) and value % 2 else str(value)

    one = st.sampled_from(every).map(lambda value: Part(name(value), frozenset({value})))
    ranges = st.tuples(st.sampled_from(every), st.sampled_from(every)).map(sorted)
    spans = ranges.map(lambda ends: Part(
        f"{name(ends[0])}-{name(ends[1])}", frozenset(range(ends[0], ends[1] + 1))
    ))  # fmt: skip
    steps = st.tuples(ranges, st.integers(1, 12)).filter(lambda it: it[0][0] != it[0][1]).map(
        lambda it: Part(f"{it[0][0]}-{it[0][1]}/{it[1]}",
                        frozenset(range(it[0][0], it[0][1] + 1, it[1]))))  # fmt: skip
    stars = st.integers(1, 20).map(
        lambda step: Part("*" if step == 1 else f"*/{step}", frozenset(every[::step]))
    )
    lists = st.lists(st.one_of(one, spans), min_size=2, max_size=3).map(
        lambda parts: Part(",".join(entry.text for entry in parts),
                           frozenset().union(*(entry.values for entry in parts))))  # fmt: skip
    return st.one_of(stars, one, spans, steps, lists)


@dataclass(frozen=True)
class Expression:
    minute: Part
    hour: Part
    day: Part
    month: Part
    weekday: Part

    @property
    def text(self) -> str:
        result = (self.minute, self.hour, self.day, self.month, self.weekday)
        return " ".join(entry.text for entry in result)

    @property
    def fixed(self) -> bool:
        """Debian: what says neither `*` nor `*/n` for minute or hour runs at moments of the day."""
        return not (self.minute.text.startswith("*") or self.hour.text.startswith("*"))

    def fits(self, moment: datetime) -> bool:
        days = moment.day in self.day.values
        weekday = moment.isoweekday() % 7
        # Sunday is 0 and 7.
        weekdays = weekday in self.weekday.values or (weekday == 0 and 7 in self.weekday.values)
        both = self.day.text.startswith("*") or self.weekday.text.startswith("*")
        return (
            moment.minute in self.minute.values
            and moment.hour in self.hour.values
            and moment.month in self.month.values
            and ((days and weekdays) if both else (days or weekdays))
        )

    def walk(self, zone: ZoneInfo, since: float, until: float) -> list[float]:
        """Every minute is looked at."""
        if not self.fixed:
            first = int(since // 60) * 60
            minutes = range(first, int(until) + 60, 60)
            return [
                float(minute)
                for minute in minutes
                if since < minute <= until
                and self.fits(datetime.fromtimestamp(minute, UTC).astimezone(zone))
            ]
        start = datetime.fromtimestamp(since - DAY, UTC).astimezone(zone).replace(tzinfo=None)
        moment = start.replace(second=0, microsecond=0)
        result = set[float]()
        for _ in range(int((until - since + 4 * DAY) // 60)):
            if self.fits(moment):
                result.add(_real(moment, zone))
            moment += timedelta(minutes=1)
        return sorted(minute for minute in result if since < minute <= until)


def _real(moment: datetime, zone: ZoneInfo) -> float:
    """When a clock on that wall says so first; behind a gap when it never does."""
    while True:
        said = moment.replace(tzinfo=zone)
        if said.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == moment:
            return said.timestamp()
        moment += timedelta(minutes=1)


expressions = st.builds(
    Expression, _parts(0, 59), _parts(0, 23), _parts(1, 31), _parts(1, 12, _MONTHS),
    _parts(0, 7, _NAMES),
)  # fmt: skip
busy = st.builds(
    Expression, _parts(0, 59), _parts(0, 23), st.just(Part("*", frozenset(range(1, 32)))),
    st.just(Part("*", frozenset(range(1, 13)))), st.just(Part("*", frozenset(range(8)))),
)  # fmt: skip


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, float]:
    """A zone, and a moment that is likely to be near a change of its clocks."""
    zone = draw(st.sampled_from(ZONES))
    day = draw(st.sampled_from((*CHANGES.get(zone, ()), "2026-06-15", "2028-02-28")))
    noon = datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()
    return zone, noon + draw(st.integers(-DAY.__int__() * 3 // 2, int(DAY)))


def fires_between(rule: TriggerRule, since: float, until: float) -> list[float]:
    return list(takewhile(lambda time: time <= until, times(rule, since)))


@pytest.mark.sized
@settings(max_examples=sized(80, 5000), deadline=None)
@given(st.one_of(expressions, busy, busy), moments(), st.floats(0.1, 2.5))
def test_cron_fires_at_the_minutes_at_which_a_walk_does(
    expression: Expression, where: tuple[str, float], days: float
) -> None:
    zone, since = where
    until = since + days * DAY
    rule = TriggerRule(TriggerKind.CRON, cron=expression.text, zone=zone)
    try:
        expected = expression.walk(ZoneInfo(zone), since, until)
        check_cron(expression.text, zone, since)
    except InvalidArgument:  # no such day in those months
        assert expression.walk(ZoneInfo(zone), since, until) == []
        return
    assert fires_between(rule, since, until) == expected


def moment(text: str, zone: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def test_what_falls_into_the_gap_of_spring_comes_right_after_it_and_once() -> None:
    rule = TriggerRule(TriggerKind.CRON, cron="0,30 2 * * *", zone="Europe/Berlin")
    start = moment("2026-03-29T00:00", "Europe/Berlin")
    assert fires_between(rule, start, start + DAY - 3601) == [
        moment("2026-03-29T03:00", "Europe/Berlin")
    ]


def test_what_autumn_has_twice_comes_once() -> None:
    rule = TriggerRule(TriggerKind.CRON, cron="30 2 * * *", zone="Europe/Berlin")
    start = moment("2026-10-25T00:00", "Europe/Berlin")
    first = start + 2.5 * 3600
    assert fires_between(rule, start, start + 1.04 * DAY) == [first]
    assert fires_between(rule, first + 900, start + 1.04 * DAY) == []


def test_seconds_may_stand_in_front() -> None:
    rule = TriggerRule(TriggerKind.CRON, cron="*/20 0 12 * * *")
    noon = moment("2026-06-15T12:00", "UTC")
    assert fires_between(rule, noon - 1, noon + 3600) == [noon, noon + 20, noon + 40]


def test_day_of_month_or_day_of_week() -> None:
    rule = TriggerRule(TriggerKind.CRON, cron="0 0 13 * FRI")
    start = moment("2026-02-01T00:00", "UTC")
    days = [
        datetime.fromtimestamp(entry, UTC).day
        for entry in fires_between(rule, start, start + 27 * DAY)
    ]
    assert days == [6, 13, 20, 27]


JUNK = (
    "", "*", "* * * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 9",
    "*/0 * * * *", "5-1 * * * *", "a * * * *", "* * * * MONDAY", "@daily", "1,,2 * * * *",
    "* * L/ * *", "1-2-3 * * * *", "- * * * *", "0 0 31 2,4,6 *", "²  * * * *", "0 0 30 2 *",
    "MON#1/2 * * * *", "* * * * MON#9", "* * * * L", "* * LW/2 * 1#", "1L/2 1L 1L 1L 1L",
)  # fmt: skip


@for_each("text", JUNK)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        check_cron(text, "UTC", 1.8e9)


@settings(max_examples=100, deadline=None)
@given(st.text("0123456789*/,-LW#MONFRIJAN ", max_size=60))
def test_whatever_is_written_there_is_refused_or_has_times(text: str) -> None:
    try:
        check_cron(text, "Europe/Berlin", 1.8e9)
    except InvalidArgument:
        return
    some = list(
        islice(times(TriggerRule(TriggerKind.CRON, cron=text, zone="Europe/Berlin"), 1.8e9), 20)
    )
    assert some == sorted(set(some))
    assert some[0] > 1.8e9
    assert rule_text(TriggerRule(TriggerKind.CRON, cron=text, zone="Europe/Berlin"))


def rules() -> st.SearchStrategy[TriggerRule]:
    crons = st.sampled_from(
        ("* * * * *", "*/7 * * * *", "0 3 * * *", "30 2 * * *", "*/5 * * * * *")
    )
    return st.one_of(
        st.builds(lambda cron, zone: TriggerRule(TriggerKind.CRON, cron=cron, zone=zone),
                  crons, st.sampled_from(ZONES)),
        st.floats(1, 7 * DAY).map(lambda every: TriggerRule(TriggerKind.EVERY, every=every)),
    )  # fmt: skip


@st.composite
def looks(draw: st.DrawFn) -> tuple[TriggerRule, ScheduleState]:
    since = draw(st.floats(1.7e9, 1.8e9))
    late = draw(st.one_of(st.floats(0, 1), st.floats(0, 5 * DAY), st.just(10 * 365 * DAY)))
    asked = ScheduleState(
        draw(st.sampled_from(Missed)), since, since + late, single=draw(st.booleans()),
        open=draw(st.booleans()), room=draw(st.sampled_from((0, 1, 5, 100))),
    )  # fmt: skip
    return draw(rules()), asked


@pytest.mark.sized
@settings(max_examples=sized(100, 5000), deadline=None)
@given(looks())
@example(
    (TriggerRule(TriggerKind.EVERY, every=1.0), ScheduleState(Missed.ALL, 1.7e9, 1.7e9 + 3600))
)
def test_no_time_is_lost_none_counts_twice_and_there_is_no_storm(
    found_: tuple[TriggerRule, ScheduleState],
) -> None:
    """All times up to now stand in fires, are skipped where that was asked for, or still wait."""
    rule, asked = found_
    verdict = due_fires(rule, asked)
    passed = list(
        islice(takewhile(lambda entry: entry <= asked.now, times(rule, asked.since)), 101)
    )
    many = len(passed) > MOST
    counted = sum(count for _, count in verdict.fires) + verdict.skipped
    assert len(verdict.fires) <= max(1, min(MOST, asked.room))
    assert all(asked.since < due <= asked.now for due, _ in verdict.fires)
    if not passed:
        assert (verdict.fires, verdict.due) == ((), next_time(rule, asked.since))
    elif verdict.waits or (asked.room < 1 and not asked.open):
        assert (counted, verdict.since) == (0, asked.since)
    elif many:
        assert counted == MOST
        assert next(times(rule, verdict.since)) > asked.now - 1e-3
    else:
        rest = [entry for entry in passed if entry > verdict.since + 1e-3]
        assert counted + len(rest) == len(passed)
        assert not rest or (asked.missed is Missed.ALL and asked.single)


@given(looks())
@settings(max_examples=80, deadline=None)
def test_skip_fires_only_what_is_fresh_and_nothing_fires_beside_an_open_one(
    found_: tuple[TriggerRule, ScheduleState],
) -> None:
    rule, asked = found_
    verdict = due_fires(rule, asked)
    if asked.open:
        assert verdict.fires == ()
    if asked.missed is Missed.SKIP:
        assert all(asked.now - due <= GRACE for due, _ in verdict.fires)
        assert len(verdict.fires) <= 1


@pytest.mark.parametrize(("back", "again"), [(SET_BACK - 1, False), (SET_BACK + 1, True)])
def test_a_clock_set_back_by_little_repeats_nothing_and_by_much_is_believed(
    back: float,
    again: bool,  # noqa: FBT001 - of the table
) -> None:
    rule = TriggerRule(TriggerKind.CRON, cron="0 * * * *")
    fired = 1_800_000_000.0
    verdict = due_fires(rule, ScheduleState(Missed.LATEST, fired, fired - back))
    assert verdict.fires == ()
    assert verdict.due is not None
    assert (verdict.due <= fired) == again


def every_kind() -> Iterator[TriggerRule]:
    yield TriggerRule(TriggerKind.CRON, cron="30 2 * * MON-FRI", zone="Europe/Berlin")
    yield TriggerRule(TriggerKind.EVERY, every=90.0)
    yield TriggerRule(TriggerKind.AT, at=1.8e9, zone="Europe/Berlin")
    yield TriggerRule(TriggerKind.WEBHOOK, methods=("POST", "PUT"))


def test_rules_are_put_in_words() -> None:
    assert [rule_text(entry) for entry in every_kind()] == [
        "At 02:30 on Monday through Friday (Europe/Berlin)",
        "Every 90 seconds",
        "Once, at 2027-01-15 09:00:00 (Europe/Berlin)",
        "When POST or PUT comes to its address",
    ]
