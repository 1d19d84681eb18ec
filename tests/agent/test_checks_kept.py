"""What a maid keeps of its checks, whenever it is killed, and whom it takes for its own (K36)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from fixtures.machines import end_machine, start_machines
from fixtures.maid import MaidHost, maid_host

from hive_core.agent.maid import HostUsage, MaidAgent
from hive_core.model.config.limits import BuiltInSettings
from hive_core.model.config.settings import Settings
from hive_core.model.work.checks import MaidCheck
from hive_core.model.work.checks import MaidConfig as Table

MAID = BuiltInSettings(maid=True)
DISK = MaidCheck(command=("df", "-h"), every=60, seconds=5)
SMILE = "\N{GRINNING FACE}"


@pytest.fixture(name="harness")
def _house() -> Iterator[MaidHost]:
    with maid_host(Settings(daemons=MAID, maid=Table(checks={"disk": DISK}))) as made:
        yield made


def goes_bad(harness: MaidHost, maid: MaidAgent) -> None:
    """It has told that, and is killed before its next look."""
    maid.look()
    maid.checks.step()
    end_machine(harness.world, harness.checker(maid, "disk"), 2)
    maid.checks.step()
    assert len(harness.escalations()) == 1


def imposter(harness: MaidHost, name: str) -> None:
    harness.world.call("queen", "spawn", name=name, role="task", parent="maid", command=["true"])
    start_machines(harness.world, name)


def test_sixteen_checks_that_write_smiles_fit_into_what_is_kept() -> None:
    checks = {f"c{n}": MaidCheck(command=("true",), every=3600) for n in range(16)}
    with maid_host(Settings(daemons=MAID, maid=Table(checks=checks))) as made:
        maid = made.maid()
        maid.look()
        for name in checks:
            made.run_check(maid, name, 1, SMILE * 240)
        maid.samples = [HostUsage(0.3123, 0.4123)] * 240
        maid.reported = {("unanswered", f"agent-{n:03}-{'x' * 53}") for n in range(200)}
        maid.save()
        again = made.maid()
        assert {state.said for state in again.checks.states.values()} == {SMILE * 240}
        assert (again.samples, again.reported) == (maid.samples, maid.reported)


@pytest.mark.parametrize(
    ("size", "left"), [(100, (True, True)), (600, (False, True)), (2000, (False, False))]
)
def test_what_does_not_fit_is_left_out_and_the_rest_is_kept(
    harness: MaidHost, size: int, left: tuple[bool, bool]
) -> None:
    """Checks keep the beginning of what they printed; then alarms, which are raised again."""
    maid = harness.maid()
    maid.look()
    harness.run_check(maid, "disk", 1, SMILE * 240)
    maid.reported = {("left-over", f"{n:03}" + "x" * size) for n in range(105)}
    maid.save()
    again = harness.maid()
    disk = again.checks.states["disk"]
    assert (disk.state, len(again.samples)) == ("bad", 2)
    assert (bool(disk.said), bool(again.reported)) == left


def test_a_round_goes_on_when_nothing_can_be_kept_and_it_is_kept_later(harness: MaidHost) -> None:
    maid = harness.maid()
    maid.look()
    maid.checks.step()
    end_machine(harness.world, harness.checker(maid, "disk"), 0)
    harness.refuses.add("keep_snapshot")
    maid.wait(1)
    maid.look()
    assert "- disk: good" in harness.report()
    harness.refuses.clear()
    assert harness.maid().checks.states == {}
    maid.look()
    assert harness.maid().checks.states["disk"].state == "good"


def test_checks_go_on_while_no_checker_can_be_destroyed(harness: MaidHost) -> None:
    maid = harness.maid()
    maid.look()
    harness.world.call("queen", "spawn", name="once", role="task", command=["true"])
    start_machines(harness.world, "once")
    end_machine(harness.world, "once", 0)
    harness.refuses.add("reap_zombies")
    assert maid.try_look() == 5
    maid.checks.step()
    assert list(maid.checks.running) == ["disk"]
    harness.refuses.clear()
    assert maid.try_look() == 60


def test_no_check_begins_that_would_be_unknown_after_a_kill(harness: MaidHost) -> None:
    maid = harness.maid()
    maid.look()
    harness.refuses.add("keep_snapshot")
    maid.wait(1)
    maid.look()
    assert harness.below() == []
    assert "disk could not be checked: no keep_snapshot today" in harness.reports()[-1]


def test_an_escalation_is_known_to_the_next_maid_at_once(harness: MaidHost) -> None:
    goes_bad(harness, harness.maid())
    again = harness.maid()
    again.look()
    harness.world.advance(60)
    harness.run_check(again, "disk", 2)
    assert len(harness.escalations()) == 1
    harness.world.advance(60)
    harness.run_check(again, "disk", 0)
    assert harness.escalations() == []


@pytest.mark.parametrize("before", ["", '{"samples": [], "told": []}'])
def test_and_also_when_the_maid_was_killed_before_it_could_keep_that(
    harness: MaidHost, before: str
) -> None:
    """Neither told twice nor left open when it is good."""
    goes_bad(harness, harness.maid())
    harness.world.call("maid", "keep_snapshot", data=before)
    again = harness.maid()
    again.look()
    assert again.checks.states["disk"].state == "unknown"
    harness.run_check(again, "disk", 2)
    assert len(harness.escalations()) == 1
    harness.world.advance(60)
    harness.run_check(again, "disk", 0)
    assert harness.escalations() == []
    assert "- good again: disk" in harness.reports()[-1]


def test_what_was_told_of_a_check_that_is_none_any_more_is_taken_back(harness: MaidHost) -> None:
    goes_bad(harness, harness.maid())
    harness.world.call("maid", "keep_snapshot", data="")
    harness.set_checks()
    harness.maid().look()
    assert harness.escalations() == []


def test_what_the_maid_escalates_beside_its_checks_stays(harness: MaidHost) -> None:
    harness.world.call("maid", "escalate", issue="the roof leaks", severity="info")
    harness.maid().look()
    assert len(harness.escalations()) == 1


def test_an_agent_that_the_maid_did_not_make_passes_for_no_check(harness: MaidHost) -> None:
    maid = harness.maid()
    imposter(harness, "check-disk-0000")
    maid.look()
    assert maid.checks.running == {}
    end_machine(harness.world, "check-disk-0000", 0, output="all fine, says the queen")
    maid.look()
    assert "- zombie: check-disk-0000 ended, and its parent has not asked how" in harness.report()
    assert "says the queen" not in harness.report()


def test_one_that_was_being_made_when_the_maid_was_killed_is_its_own(harness: MaidHost) -> None:
    """Its name was recorded before it existed."""
    first = harness.maid()
    first.look()
    first.checks.step()
    (name,) = harness.below()
    assert json.loads(str(harness.world.call("maid", "get_snapshot")["data"]))["runs"] == {name: ""}
    second = harness.maid()
    second.look()
    assert [run.agent for run in second.checks.running.values()] == [name]


def test_one_that_has_the_name_of_a_check_that_is_gone_is_none(harness: MaidHost) -> None:
    first = harness.maid()
    first.look()
    first.checks.step()
    first.save()
    (name,) = harness.below()
    harness.world.call("operator", "destroy", agent=name)
    imposter(harness, name)
    second = harness.maid()
    second.look()
    assert second.checks.running == {}


def test_what_a_newer_daemon_says_of_a_check_is_passed_over(harness: MaidHost) -> None:
    maid = harness.maid()
    maid.checks.set_checks(
        [{"name": "disk", "command": ["df"], "every": 60.0, "seconds": 5.0, "newer": True}]
    )
    assert maid.checks.specs["disk"].command == ["df"]
