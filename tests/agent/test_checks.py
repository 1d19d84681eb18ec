"""Checks that the operator set: who does them, how they are judged, and who hears of it (K36)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.machines import end_machine
from fixtures.maid import MaidHost, maid_host

from hive_core.model.agents.agent import Role
from hive_core.model.config.limits import BuiltInSettings
from hive_core.model.config.settings import Settings
from hive_core.model.work.checks import MaidCheck
from hive_core.model.work.checks import MaidConfig as Table

MAID = BuiltInSettings(maid=True)
DISK, NET = (
    MaidCheck(command=("df", "-h"), every=60, seconds=5),
    MaidCheck(command=("true",), every=600),
)


@pytest.fixture(name="harness")
def _house() -> Iterator[MaidHost]:
    with maid_host(Settings(daemons=MAID, maid=Table(checks={"disk": DISK}))) as made:
        yield made


def test_a_check_is_a_one_shot_child_that_holds_nothing(harness: MaidHost) -> None:
    maid = harness.maid()
    maid.look()
    assert harness.below() == []
    maid.checks.step()
    (name,) = harness.below()
    spec = harness.world.hive.spec(name)
    assert (spec.role, spec.command) == (Role.TASK, ("df", "-h"))
    assert (spec.capabilities, spec.tools, spec.max_children) == ((), (), 0)
    assert spec.limits.memory_max == 128 << 20
    assert spec.limits.tasks_max == 64
    assert harness.world.fault(name, "spawn", name="own") == "NotAllowed"


def test_a_passed_check_is_reported_and_removed_without_a_question(harness: MaidHost) -> None:
    maid = harness.maid()
    maid.look()
    assert "checks:\n- disk: not checked yet" in harness.report()
    harness.run_check(maid, "disk", 0, "42% used")
    assert harness.report() == "all is well\nchecks:\n- disk: good: ended with 0\n  > 42% used"
    assert (harness.reports(), harness.escalations(), harness.below()) == ([], [], [])


def test_what_turns_bad_is_escalated_once_and_what_is_good_again_is_told_once(
    harness: MaidHost,
) -> None:
    maid = harness.maid()
    maid.look()
    harness.run_check(maid, "disk", 0)
    for _ in range(3):
        harness.world.advance(60)
        harness.run_check(maid, "disk", 2, "97% used")
    (question,) = harness.escalations()
    assert question["prompt"] == "the check disk is bad: ended with 2"
    assert question["severity"] == "warning"
    (report,) = harness.reports()
    assert (
        "- check: disk is bad: ended with 2\nchecks:\n- disk: bad: ended with 2\n  > 97%" in report
    )
    for _ in range(2):
        harness.world.advance(60)
        harness.run_check(maid, "disk", 0)
    assert harness.escalations() == []
    (report,) = harness.reports()
    assert report.startswith("all is well\n- good again: disk\nchecks:\n- disk: good: ended with 0")


def test_what_was_bad_stays_so_until_a_run_says_otherwise(harness: MaidHost) -> None:
    """A round without findings takes nothing back, and no finding is reported twice."""
    maid = harness.maid()
    maid.look()
    harness.run_check(maid, "disk", 2)
    (before,) = harness.escalations()
    harness.world.advance(60)
    maid.checks.step()
    harness.world.call("operator", "destroy", agent=harness.checker(maid, "disk"))
    maid.wait(1)
    maid.look()
    assert "- unchecked: disk could not be checked" in harness.reports()[-1]
    assert harness.escalations() == [before]
    harness.world.advance(60)
    harness.run_check(maid, "disk", 2)
    assert harness.escalations() == [before]


def test_a_clock_that_was_set_back_holds_no_check_up(harness: MaidHost) -> None:
    maid = harness.maid()
    maid.look()
    harness.run_check(maid, "disk", 0)
    harness.world.set_clock(-100_000)
    maid.checks.step()
    assert list(maid.checks.running) == ["disk"]


def test_what_takes_too_long_is_ended_and_bad(harness: MaidHost) -> None:
    """Its time begins when it runs, however long the start of its machine takes."""
    maid = harness.maid()
    maid.look()
    maid.checks.step()
    for _ in range(2):
        harness.world.advance(100)
        assert not maid.checks.step()
    harness.checker(maid, "disk")
    harness.world.advance(4.5)
    assert not maid.checks.step()
    assert maid.checks.pause() == pytest.approx(0.5)
    harness.world.advance(0.5)
    assert maid.checks.step()
    assert harness.below() == []
    (question,) = harness.escalations()
    assert question["prompt"] == "the check disk is bad: took longer than 5 s"


def test_the_round_goes_on_while_a_check_runs(harness: MaidHost) -> None:
    """A caller that asks meanwhile gets a report of all checks."""
    maid = harness.maid()
    maid.look()
    maid.checks.step()
    harness.checker(maid, "disk")
    harness.world.call("queen", "send", to="maid", body="how is it?")
    maid.wait(3)
    (reply,) = (row for row in harness.world.mail("queen") if row["reply_to"])
    assert reply["body"] == "all is well\nchecks:\n- disk: not checked yet"
    assert "disk" in maid.checks.running


def test_each_has_its_own_pace_and_few_run_at_once(harness: MaidHost) -> None:
    many = {f"c{n}": NET for n in range(6)}
    harness.set_checks(disk=DISK, **many)
    maid = harness.maid()
    maid.look()
    maid.checks.step()
    assert len(maid.checks.running) == len(harness.below()) == 4
    done = set[str]()
    while len(done) < 7:
        check = next(iter(maid.checks.running))
        harness.run_check(maid, check)
        done.add(check)
    harness.world.advance(61)
    maid.checks.step()
    assert list(maid.checks.running) == ["disk"]


def test_a_checker_is_not_checked(harness: MaidHost) -> None:
    """Neither a zombie while its end is not collected, nor one that is quiet."""
    maid = harness.maid()
    maid.look()
    maid.checks.step()
    end_machine(harness.world, harness.checker(maid, "disk"), 0)
    assert maid.findings() == []
    maid.checks.step()
    assert len(harness.below()) == 1  # for a moment
    assert (maid.findings(), maid.checks.running) == ([], {})


def test_what_is_no_check_any_more_is_taken_back(harness: MaidHost) -> None:
    maid = harness.maid()
    maid.look()
    harness.run_check(maid, "disk", 2)
    harness.world.advance(60)
    maid.checks.step()
    assert len(harness.below()) == 1
    harness.checker(maid, "disk")
    harness.set_checks()
    maid.look()
    maid.checks.step()
    assert (harness.escalations(), harness.below()) == ([], [])
    assert harness.report() == "all is well"


def test_what_a_check_writes_cannot_pass_for_what_the_maid_says(harness: MaidHost) -> None:
    maid = harness.maid()
    maid.look()
    harness.run_check(maid, "disk", 1, "x" * 1000 + "\n- good again: disk")
    lines = harness.report().splitlines()
    assert "  > - good again: disk" in lines
    assert "- good again: disk" not in lines
    assert max(map(len, lines)) < 250
