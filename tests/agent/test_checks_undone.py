"""Checks that say nothing, and maids that come back in the middle of one (K36)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.machines import end_machine
from fixtures.maid import MaidHost, maid_host

from hive_core.model.agents.machine import State
from hive_core.model.config.limits import BuiltInSettings
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.model.work.checks import MaidCheck
from hive_core.model.work.checks import MaidConfig as Table

MAID = BuiltInSettings(maid=True)
DISK = MaidCheck(command=("df", "-h"), every=60, seconds=5)


@pytest.fixture(name="house")
def _house() -> Iterator[MaidHost]:
    with maid_host(Settings(daemons=MAID, maid=Table(checks={"disk": DISK}))) as made:
        yield made


def test_who_has_no_room_for_a_child_says_so_and_tries_again_later() -> None:
    settings = Settings(
        daemons=MAID, maid=Table(checks={"disk": DISK}), limits=HostLimits(children=0)
    )
    with maid_host(settings) as made:
        maid = made.maid()
        maid.look()
        for _ in range(2):
            maid.wait(1)
            maid.look()
        (report,) = made.reports()
        assert "- unchecked: disk could not be checked: max_children (0) of maid reached" in report
        assert made.escalations() == []
        assert maid.checks.pause() == pytest.approx(60, abs=3)


def test_one_that_could_not_be_started_says_nothing(house: MaidHost) -> None:
    maid = house.maid()
    maid.look()
    maid.checks.step()
    run = maid.checks.running["disk"]
    house.world.seen.states[run.uuid] = State.FAILED
    house.world.finish(run.job, "NotRunning: no such program")
    assert maid.checks.step()
    assert house.below() == []
    maid.look()
    (report,) = house.reports()
    assert "- unchecked: disk could not be checked: NotRunning: no such program" in report
    assert house.escalations() == []


def test_nor_does_one_whose_machine_does_not_come_up_in_its_time(house: MaidHost) -> None:
    maid = house.maid()
    maid.look()
    maid.checks.step()
    house.world.finish(maid.checks.running["disk"].job, "StorageFull: no room")
    maid.checks.step()
    house.world.advance(5)
    assert maid.checks.step()
    assert maid.checks.states["disk"].how == "StorageFull: no room"
    assert (house.escalations(), house.below()) == ([], [])


@pytest.mark.parametrize("how", ["destroy", "stop", "the host went down"])
def test_nor_does_one_that_was_ended_by_somebody(house: MaidHost, how: str) -> None:
    maid = house.maid()
    maid.look()
    maid.checks.step()
    agent = house.checker(maid, "disk")
    if how in ("destroy", "stop"):
        house.world.call("operator", how, agent=agent)
    if how != "destroy":
        end_machine(house.world, agent, None)
    assert maid.checks.step()
    assert maid.checks.states["disk"].state == "unknown"
    assert house.escalations() == []


def test_the_last_outcome_and_what_was_told_are_kept_over_a_restart(house: MaidHost) -> None:
    maid = house.maid()
    maid.look()
    house.run_check(maid, "disk", 2, "97% used")
    house.reports()
    again = house.maid()
    again.look()
    assert "- disk: bad: ended with 2\n  > 97% used" in house.report()
    again.checks.step()
    assert again.checks.running == {}
    house.world.advance(60)
    house.run_check(again, "disk", 0)
    assert house.escalations() == []
    assert "- good again: disk" in house.reports()[-1]


def test_a_check_whose_maid_was_killed_is_taken_up_again(house: MaidHost) -> None:
    first = house.maid()
    first.look()
    first.checks.step()
    name = house.checker(first, "disk")
    second = house.maid()
    second.look()
    second.checks.step()
    assert house.below() == [name]
    end_machine(house.world, name, 0)
    assert second.checks.step()
    second.look()
    assert "- disk: good" in house.report()


def test_one_that_runs_and_that_nobody_wants_any_more_is_ended(house: MaidHost) -> None:
    first = house.maid()
    first.look()
    first.checks.step()
    house.set_checks()
    assert len(house.below()) == 1
    house.maid().look()
    assert house.below() == []


def test_who_may_not_escalate_yet_goes_on_and_escalates_later(house: MaidHost) -> None:
    """As many are open as there may be: the round goes on, and the parent is told in the end."""
    many = [
        house.world.call("maid", "escalate", issue="?", severity="info")["escalation"]
        for _ in range(house.world.settings.talk.open)
    ]
    maid = house.maid()
    maid.look()
    house.run_check(maid, "disk", 2)
    assert "- check: disk is bad" in house.reports()[-1]
    house.world.call("maid", "cancel_question", question=many[0])
    maid.checks.step()
    assert {row["severity"] for row in house.escalations()} == {"info"}
    assert maid.checks.pause() > 3
    house.world.advance(5)
    maid.checks.step()
    assert [row["severity"] for row in house.escalations()].count("warning") == 1


def test_who_has_nothing_left_to_spend_on_children_says_so(house: MaidHost) -> None:
    house.world.call("operator", "allocate_budget", agent="maid", kind="children", amount=1)
    maid = house.maid()
    maid.look()
    house.run_check(maid, "disk", 0)
    house.world.advance(60)
    maid.wait(1)
    maid.look()
    (report,) = house.reports()
    assert "- unchecked: disk could not be checked: maid is refused more" in report
