"""Checks that the operator set: who does them, how they are judged, and who hears of it (K36)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator

import pytest
from agent.house import House, house
from operations.lives import ends
from operations.world import Reply, rows

from hive_core.agent.maid import REPORT
from hive_core.model.agent import Role
from hive_core.model.checks import Check
from hive_core.model.checks import Maid as Table
from hive_core.model.machine import State
from hive_core.model.settings import Bounds, Settings

DISK, NET = Check(command=("df", "-h"), every=60, seconds=5), Check(command=("true",), every=600)


@pytest.fixture(name="house")
def _house() -> Iterator[House]:
    with house(Settings(maid=Table(checks={"disk": DISK}))) as made:
        yield made


def report(house: House) -> str:
    """The newest that is stored."""
    found = house.world.call("queen", "get_artifact", name=REPORT, owner="maid")
    return b64decode(str(found["data"])).decode()


def asked(house: House) -> list[Reply]:
    """Escalations that wait on the queen."""
    return rows(house.world.call("queen", "list_questions")["questions"])


def test_a_check_is_a_one_shot_child_that_holds_nothing(house: House) -> None:
    maid = house.maid()
    maid.look()
    assert house.below() == []
    maid.checks.step()
    (name,) = house.below()
    spec = house.world.hive.spec(name)
    assert (spec.role, spec.command) == (Role.TASK, ("df", "-h"))
    assert (spec.capabilities, spec.tools, spec.max_children) == ((), (), 0)
    assert spec.limits.memory_max == 128 << 20
    assert spec.limits.tasks_max == 64
    assert house.world.fault(name, "spawn", name="own") == "NotAllowed"


def test_a_good_one_is_reported_and_cleared_away_and_bothers_nobody(house: House) -> None:
    maid = house.maid()
    maid.look()
    assert "checks:\n- disk: not checked yet" in report(house)
    house.checked(maid, "disk", 0, "42% used")
    assert report(house) == "all is well\nchecks:\n- disk: good: ended with 0\n  > 42% used"
    assert (house.told(), asked(house), house.below()) == ([], [], [])


def test_what_turns_bad_is_escalated_once_and_what_is_good_again_is_told_once(
    house: House,
) -> None:
    maid = house.maid()
    maid.look()
    house.checked(maid, "disk", 0)
    for _ in range(3):
        house.world.advance(60)
        house.checked(maid, "disk", 2, "97% used")
    (question,) = asked(house)
    assert question["prompt"] == "the check disk is bad: ended with 2"
    assert question["severity"] == "warning"
    (told,) = house.told()
    assert "- check: disk is bad: ended with 2\nchecks:\n- disk: bad: ended with 2\n  > 97%" in told
    for _ in range(2):
        house.world.advance(60)
        house.checked(maid, "disk", 0)
    assert asked(house) == []
    (told,) = house.told()
    assert told.startswith("all is well\n- good again: disk\nchecks:\n- disk: good: ended with 0")


def test_what_takes_too_long_is_ended_and_bad(house: House) -> None:
    """Its time begins when it runs, however long the start of its machine takes."""
    maid = house.maid()
    maid.look()
    maid.checks.step()
    house.world.advance(100)
    assert not maid.checks.step()
    house.checker(maid, "disk")
    house.world.advance(4.5)
    assert not maid.checks.step()
    assert maid.checks.pause() == pytest.approx(0.5)
    house.world.advance(0.5)
    assert maid.checks.step()
    assert house.below() == []
    (question,) = asked(house)
    assert question["prompt"] == "the check disk is bad: took longer than 5 s"


def test_the_round_goes_on_while_a_check_runs(house: House) -> None:
    """And who asks meanwhile gets a report with how all of them were."""
    maid = house.maid()
    maid.look()
    maid.checks.step()
    house.checker(maid, "disk")
    house.world.call("queen", "send", to="maid", body="how is it?")
    maid.attend(3)
    (reply,) = (each for each in house.world.mail("queen") if each["reply_to"])
    assert reply["body"] == "all is well\nchecks:\n- disk: not checked yet"
    assert "disk" in maid.checks.running


def test_each_has_its_own_pace_and_few_run_at_once(house: House) -> None:
    many = {f"c{n}": NET for n in range(6)}
    house.wants(disk=DISK, **many)
    maid = house.maid()
    maid.look()
    maid.checks.step()
    assert len(maid.checks.running) == len(house.below()) == 4
    done = set[str]()
    while len(done) < 7:
        check = next(iter(maid.checks.running))
        house.checked(maid, check)
        done.add(check)
    house.world.advance(61)
    maid.checks.step()
    assert list(maid.checks.running) == ["disk"]


def test_who_has_no_room_for_a_child_says_so_and_tries_again_later() -> None:
    settings = Settings(maid=Table(checks={"disk": DISK}), limits=Bounds(children=0))
    with house(settings) as made:
        maid = made.maid()
        maid.look()
        for _ in range(2):
            maid.attend(1)
            maid.look()
        (told,) = made.told()
        assert "- unchecked: disk could not be checked: maid has its 0 children" in told
        assert asked(made) == []
        assert maid.checks.pause() == pytest.approx(60, abs=3)


def test_one_that_could_not_be_started_says_nothing(house: House) -> None:
    maid = house.maid()
    maid.look()
    maid.checks.step()
    run = maid.checks.running["disk"]
    house.world.seen.states[run.uuid] = State.FAILED
    house.world.finish(run.job, "NotRunning: no such program")
    assert maid.checks.step()
    assert house.below() == []
    maid.look()
    (told,) = house.told()
    assert "- unchecked: disk could not be checked: NotRunning: no such program" in told
    assert asked(house) == []


@pytest.mark.parametrize("how", ["destroy", "stop", "the host went down"])
def test_nor_does_one_that_was_ended_by_somebody(house: House, how: str) -> None:
    maid = house.maid()
    maid.look()
    maid.checks.step()
    agent = house.checker(maid, "disk")
    if how in ("destroy", "stop"):
        house.world.call("operator", how, agent=agent)
    if how != "destroy":
        ends(house.world, agent, None)
    assert maid.checks.step()
    assert maid.checks.known["disk"].state == "unknown"
    assert asked(house) == []


def test_the_last_outcome_and_what_was_told_are_kept_over_a_restart(house: House) -> None:
    maid = house.maid()
    maid.look()
    house.checked(maid, "disk", 2, "97% used")
    house.told()
    again = house.maid()
    again.look()
    assert "- disk: bad: ended with 2\n  > 97% used" in report(house)
    again.checks.step()
    assert again.checks.running == {}
    house.world.advance(60)
    house.checked(again, "disk", 0)
    assert asked(house) == []
    assert "- good again: disk" in house.told()[-1]


def test_a_check_whose_maid_was_killed_is_taken_up_again(house: House) -> None:
    first = house.maid()
    first.look()
    first.checks.step()
    name = house.checker(first, "disk")
    second = house.maid()
    second.look()
    second.checks.step()
    assert house.below() == [name]
    ends(house.world, name, 0)
    assert second.checks.step()
    second.look()
    assert "- disk: good" in report(house)


def test_who_does_a_check_is_nobody_to_be_looked_after(house: House) -> None:
    """Neither a zombie while its end is not collected, nor one that is quiet."""
    maid = house.maid()
    maid.look()
    maid.checks.step()
    ends(house.world, house.checker(maid, "disk"), 0)
    assert maid.findings() == []


def test_what_is_no_check_any_more_is_taken_back(house: House) -> None:
    maid = house.maid()
    maid.look()
    house.checked(maid, "disk", 2)
    house.world.advance(60)
    maid.checks.step()
    assert len(house.below()) == 1
    house.checker(maid, "disk")
    house.wants()
    maid.look()
    maid.checks.step()
    assert (asked(house), house.below()) == ([], [])
    assert report(house) == "all is well"


def test_what_a_check_writes_cannot_pass_for_what_the_maid_says(house: House) -> None:
    maid = house.maid()
    maid.look()
    house.checked(maid, "disk", 1, "x" * 1000 + "\n- good again: disk")
    lines = report(house).splitlines()
    assert "  > - good again: disk" in lines
    assert "- good again: disk" not in lines
    assert max(map(len, lines)) < 250


def test_who_may_not_escalate_yet_goes_on_and_escalates_later(house: House) -> None:
    """As many are open as there may be: the round goes on, and the parent is told in the end."""
    many = [
        house.world.call("maid", "escalate", issue="?", severity="info")["escalation"]
        for _ in range(house.world.settings.talk.open)
    ]
    maid = house.maid()
    maid.look()
    house.checked(maid, "disk", 2)
    assert "- check: disk is bad" in house.told()[-1]
    house.world.call("maid", "cancel_question", question=many[0])
    maid.checks.step()
    assert {each["severity"] for each in asked(house)} == {"info"}
    assert maid.checks.pause() > 3
    house.world.advance(5)
    maid.checks.step()
    assert [each["severity"] for each in asked(house)].count("warning") == 1


def test_who_has_nothing_left_to_spend_on_children_says_so(house: House) -> None:
    house.world.call("operator", "allocate_budget", agent="maid", kind="children", amount=1)
    maid = house.maid()
    maid.look()
    house.checked(maid, "disk", 0)
    house.world.advance(60)
    maid.attend(1)
    maid.look()
    (told,) = house.told()
    assert "- unchecked: disk could not be checked: maid may do no more of this" in told
