"""Attack 46: whatever the clock is set to, triggers come; none twice, and never many at once."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from each import for_each
from fixtures.world import World, world
from long import figure, seed, times
from operations.test_triggers import fires, put

DAY, YEAR = 86_400.0, 365.25 * 86_400
STEPS = (-10 * YEAR, -DAY, -3600.0, 3600.0, DAY, 10 * YEAR)


def mail(hive: World) -> int:
    return len([message for message in hive.mail("a") if message["kind"] == "trigger"])


@for_each("step", STEPS)
def test_an_interval_keeps_its_length_across_clock_jumps(step: float) -> None:
    with world(None, "root/a") as hive:
        put(hive, when={"every": 600.0})
        hive.advance(300)
        hive.set_clock(step)
        hive.advance(290)
        assert mail(hive) == 0
        hive.advance(20)
        assert mail(hive) == 1
        hive.advance(590)
        assert mail(hive) == 2


@for_each(
    "missed, step", [(missed, step) for missed in ["skip", "latest", "all"] for step in STEPS]
)
def test_cron_follows_the_wall_clock_without_a_burst(step: float, missed: str) -> None:
    with world(None, "root/a") as hive:
        id_ = put(hive, when={"cron": "*/10 * * * *"}, missed=missed)["id"]
        hive.advance(600)
        before = mail(hive)
        assert before == 1
        hive.set_clock(step)
        hive.advance(15)
        most = 0 if step < 0 or missed == "skip" else 1
        assert mail(hive) - before <= most
        hive.advance(6 * 3600)
        late = 3600.0 if -3 * 3600 < step < 0 else 0.0
        assert mail(hive) - before >= (6 * 3600 - late) // 600 - 1
        for first, second in pairwise(fires(hive, id_)):
            assert second["due"] != first["due"]


@for_each("step", [3600.0, DAY, 10 * YEAR])
def test_a_skipped_time_fires_once_if_missed_fires_are_wanted(step: float) -> None:
    with world(None, "root/a") as hive:
        at = hive.clock.now() + 600
        once = put(hive, name="once", when={"at": f"{at}"})["id"]
        hive.set_clock(step)
        hive.advance(15)
        assert [fire["due"] for fire in fires(hive, once)] == [at]
        hive.advance(DAY)
        assert len(fires(hive, once)) == 1


def test_a_one_shot_trigger_waits_for_its_time_after_the_clock_goes_back() -> None:
    with world(None, "root/a") as hive:
        once = put(hive, when={"at": f"{hive.clock.now() + 600}"})["id"]
        hive.set_clock(-DAY)
        hive.advance(DAY)
        assert fires(hive, once) == []
        hive.advance(601)
        assert len(fires(hive, once)) == 1


@for_each("missed, counts", [("skip", [5]), ("latest", [5]), ("all", [1] * 5)])
def test_fires_missed_without_a_daemon_follow_the_missed_setting(
    missed: str, counts: list[int]
) -> None:
    with world(None, "root/a") as hive:
        id_ = put(hive, when={"cron": "0 * * * *"}, missed=missed)["id"]
        hive.advance(3600 - hive.clock.now() % 3600 + 1800)
        assert mail(hive) == 1
        hive.restart(off=5 * 3600)
        hive.advance(1)
        result = fires(hive, id_)[1:]
        assert [fire["count"] for fire in result] == counts
        assert {fire["state"] for fire in result} == {"skipped" if missed == "skip" else "done"}
        assert mail(hive) == (1 if missed == "skip" else 2)


def test_ten_years_without_a_daemon_fire_once() -> None:
    with world(None, "root/a") as hive:
        for number, missed in enumerate(("skip", "latest", "all")):
            put(hive, name=f"t{number}", when={"cron": "* * * * *"}, missed=missed)
        hive.restart(off=10 * YEAR)
        hive.advance(1)
        assert mail(hive) == 1
        hive.advance(600)
        assert mail(hive) <= 12


@pytest.mark.sized
def test_no_sequence_of_jumps_loses_a_trigger_or_causes_a_burst() -> None:
    """An interval and a cron each, under jumps at random: so many fires as time has passed."""
    number, cases = seed(), times(6, 300)
    chance = random.Random(number)  # noqa: S311 - no secret
    for case in range(cases):
        with world(None, "root/a") as hive:
            every = put(hive, name="every", when={"every": 900.0})["id"]
            put(hive, name="cron", when={"cron": "0,30 * * * *"})
            passed = jumps = 0.0
            for _ in range(chance.randint(1, 6)):
                hive.set_clock(chance.choice(STEPS) * chance.random())
                jumps += 1
                step = chance.uniform(60, 7200)
                hive.advance(step)
                passed += step
            result = hive.ledger.triggers.fires.of(1, None, 100)
            count = hive.ledger.triggers.require(str(every)).fired
            assert count == passed // 900, (number, case)
            assert len({fire.due for fire in result}) == len(result)
            cron = hive.ledger.triggers.require(
                str(put(hive, name="cron", when={"every": 9.0})["id"])
            )
            # One for each jump forward at most; back by less than three hours costs those hours.
            assert passed // 1800 - 8 * jumps <= cron.fired <= passed // 1800 + 2 * jumps + 1
    figure("clock jumps of triggers", cases=cases, seed=number)
