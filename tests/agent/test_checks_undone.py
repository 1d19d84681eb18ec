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


@pytest.fixture(name="harness")
def _house() -> Iterator[MaidHost]:
    with maid_host(Settings(daemons=MAID, maid=Table(checks={"disk": DISK}))) as made:
        yield made


def test_a_lead_without_room_for_a_child_says_so_and_tries_again_later() -> None:
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


def test_one_that_could_not_be_started_says_nothing(harness: MaidHost) -> None:
    maid = harness.maid()
    maid.look()
    maid.checks.step()
    run = maid.checks.running["disk"]
    harness.world.seen.states[run.uuid] = State.FAILED
    harness.world.finish(run.job, "NotRunning: no such program")
    assert maid.checks.step()
    assert harness.below() == []
    maid.look()
    (report,) = harness.reports()
    assert "- unchecked: disk could not be checked: NotRunning: no such program" in report
    assert harness.escalations() == []


def test_nor_does_one_whose_machine_does_not_come_up_in_its_time(harness: MaidHost) -> None:
    maid = harness.maid()
    maid.look()
    maid.checks.step()
    harness.world.finish(maid.checks.running["disk"].job, "StorageFull: no room")
    maid.checks.step()
    harness.world.advance(5)
    assert maid.checks.step()
    assert maid.checks.states["disk"].how == "StorageFull: no room"
    assert (harness.escalations(), harness.below()) == ([], [])


@pytest.mark.parametrize("how", ["destroy", "stop", "the host went down"])
def test_nor_does_one_that_a_caller_ended(harness: MaidHost, how: str) -> None:
    maid = harness.maid()
    maid.look()
    maid.checks.step()
    agent = harness.checker(maid, "disk")
    if how in ("destroy", "stop"):
        harness.world.call("operator", how, agent=agent)
    if how != "destroy":
        end_machine(harness.world, agent, None)
    assert maid.checks.step()
    assert maid.checks.states["disk"].state == "unknown"
    assert harness.escalations() == []


def test_the_last_outcome_and_what_was_told_are_kept_over_a_restart(harness: MaidHost) -> None:
    maid = harness.maid()
    maid.look()
    harness.run_check(maid, "disk", 2, "97% used")
    harness.reports()
    again = harness.maid()
    again.look()
    assert "- disk: bad: ended with 2\n  > 97% used" in harness.report()
    again.checks.step()
    assert again.checks.running == {}
    harness.world.advance(60)
    harness.run_check(again, "disk", 0)
    assert harness.escalations() == []
    assert "- good again: disk" in harness.reports()[-1]


def test_a_check_whose_maid_was_killed_is_taken_up_again(harness: MaidHost) -> None:
    first = harness.maid()
    first.look()
    first.checks.step()
    name = harness.checker(first, "disk")
    second = harness.maid()
    second.look()
    second.checks.step()
    assert harness.below() == [name]
    end_machine(harness.world, name, 0)
    assert second.checks.step()
    second.look()
    assert "- disk: good" in harness.report()


def test_one_that_runs_and_is_wanted_no_more_is_ended(harness: MaidHost) -> None:
    first = harness.maid()
    first.look()
    first.checks.step()
    harness.set_checks()
    assert len(harness.below()) == 1
    harness.maid().look()
    assert harness.below() == []


def test_an_agent_that_may_not_escalate_yet_goes_on_and_escalates_later(harness: MaidHost) -> None:
    """All places are taken: the round goes on, and reports to the parent at its end."""
    many = [
        harness.world.call("maid", "escalate", issue="?", severity="info")["escalation"]
        for _ in range(harness.world.settings.talk.open)
    ]
    maid = harness.maid()
    maid.look()
    harness.run_check(maid, "disk", 2)
    assert "- check: disk is bad" in harness.reports()[-1]
    harness.world.call("maid", "cancel_question", question=many[0])
    maid.checks.step()
    assert {row["severity"] for row in harness.escalations()} == {"info"}
    assert maid.checks.pause() > 3
    harness.world.advance(5)
    maid.checks.step()
    assert [row["severity"] for row in harness.escalations()].count("warning") == 1


def test_a_lead_without_funds_for_children_says_so(harness: MaidHost) -> None:
    harness.world.call("operator", "allocate_budget", agent="maid", kind="children", amount=1)
    maid = harness.maid()
    maid.look()
    harness.run_check(maid, "disk", 0)
    harness.world.advance(60)
    maid.wait(1)
    maid.look()
    (report,) = harness.reports()
    assert "- unchecked: disk could not be checked: maid is refused more" in report
