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


@pytest.fixture(name="house")
def _house() -> Iterator[MaidHost]:
    with maid_host(Settings(daemons=MAID, maid=Table(checks={"disk": DISK}))) as made:
        yield made


def goes_bad(house: MaidHost, maid: MaidAgent) -> None:
    """It has told that, and is killed before its next look."""
    maid.look()
    maid.checks.step()
    end_machine(house.world, house.checker(maid, "disk"), 2)
    maid.checks.step()
    assert len(house.escalations()) == 1


def imposter(house: MaidHost, name: str) -> None:
    house.world.call("queen", "spawn", name=name, role="task", parent="maid", command=["true"])
    start_machines(house.world, name)


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
    house: MaidHost, size: int, left: tuple[bool, bool]
) -> None:
    """What they printed first; then what was told, which is told again."""
    maid = house.maid()
    maid.look()
    house.run_check(maid, "disk", 1, SMILE * 240)
    maid.reported = {("left-over", f"{n:03}" + "x" * size) for n in range(105)}
    maid.save()
    again = house.maid()
    disk = again.checks.states["disk"]
    assert (disk.state, len(again.samples)) == ("bad", 2)
    assert (bool(disk.said), bool(again.reported)) == left


def test_a_round_goes_on_when_nothing_can_be_kept_and_it_is_kept_later(house: MaidHost) -> None:
    maid = house.maid()
    maid.look()
    maid.checks.step()
    end_machine(house.world, house.checker(maid, "disk"), 0)
    house.refuses.add("keep_snapshot")
    maid.wait(1)
    maid.look()
    assert "- disk: good" in house.report()
    house.refuses.clear()
    assert house.maid().checks.states == {}
    maid.look()
    assert house.maid().checks.states["disk"].state == "good"


def test_checks_go_on_while_nobody_can_be_cleared_away(house: MaidHost) -> None:
    maid = house.maid()
    maid.look()
    house.world.call("queen", "spawn", name="once", role="task", command=["true"])
    start_machines(house.world, "once")
    end_machine(house.world, "once", 0)
    house.refuses.add("reap_zombies")
    assert maid.try_look() == 5
    maid.checks.step()
    assert list(maid.checks.running) == ["disk"]
    house.refuses.clear()
    assert maid.try_look() == 60


def test_no_check_is_begun_that_nobody_would_know_after_a_kill(house: MaidHost) -> None:
    maid = house.maid()
    maid.look()
    house.refuses.add("keep_snapshot")
    maid.wait(1)
    maid.look()
    assert house.below() == []
    assert "disk could not be checked: no keep_snapshot today" in house.reports()[-1]


def test_an_escalation_is_known_to_the_next_maid_at_once(house: MaidHost) -> None:
    goes_bad(house, house.maid())
    again = house.maid()
    again.look()
    house.world.advance(60)
    house.run_check(again, "disk", 2)
    assert len(house.escalations()) == 1
    house.world.advance(60)
    house.run_check(again, "disk", 0)
    assert house.escalations() == []


@pytest.mark.parametrize("before", ["", '{"samples": [], "told": []}'])
def test_and_also_when_the_maid_was_killed_before_it_could_keep_that(
    house: MaidHost, before: str
) -> None:
    """Neither told twice nor left open when it is good."""
    goes_bad(house, house.maid())
    house.world.call("maid", "keep_snapshot", data=before)
    again = house.maid()
    again.look()
    assert again.checks.states["disk"].state == "unknown"
    house.run_check(again, "disk", 2)
    assert len(house.escalations()) == 1
    house.world.advance(60)
    house.run_check(again, "disk", 0)
    assert house.escalations() == []
    assert "- good again: disk" in house.reports()[-1]


def test_what_was_told_of_a_check_that_is_none_any_more_is_taken_back(house: MaidHost) -> None:
    goes_bad(house, house.maid())
    house.world.call("maid", "keep_snapshot", data="")
    house.set_checks()
    house.maid().look()
    assert house.escalations() == []


def test_what_the_maid_escalates_beside_its_checks_stays(house: MaidHost) -> None:
    house.world.call("maid", "escalate", issue="the roof leaks", severity="info")
    house.maid().look()
    assert len(house.escalations()) == 1


def test_who_was_made_by_somebody_else_passes_for_no_check(house: MaidHost) -> None:
    maid = house.maid()
    imposter(house, "check-disk-0000")
    maid.look()
    assert maid.checks.running == {}
    end_machine(house.world, "check-disk-0000", 0, output="all fine, says the queen")
    maid.look()
    assert "- zombie: check-disk-0000 ended, and its parent has not asked how" in house.report()
    assert "says the queen" not in house.report()


def test_one_that_was_being_made_when_the_maid_was_killed_is_its_own(house: MaidHost) -> None:
    """It was kept by name before it was there."""
    first = house.maid()
    first.look()
    first.checks.step()
    (name,) = house.below()
    assert json.loads(str(house.world.call("maid", "get_snapshot")["data"]))["runs"] == {name: ""}
    second = house.maid()
    second.look()
    assert [run.agent for run in second.checks.running.values()] == [name]


def test_one_that_has_the_name_of_a_check_that_is_gone_is_none(house: MaidHost) -> None:
    first = house.maid()
    first.look()
    first.checks.step()
    first.save()
    (name,) = house.below()
    house.world.call("operator", "destroy", agent=name)
    imposter(house, name)
    second = house.maid()
    second.look()
    assert second.checks.running == {}


def test_what_a_newer_daemon_says_of_a_check_is_passed_over(house: MaidHost) -> None:
    maid = house.maid()
    maid.checks.set_checks(
        [{"name": "disk", "command": ["df"], "every": 60.0, "seconds": 5.0, "newer": True}]
    )
    assert maid.checks.specs["disk"].command == ["df"]
