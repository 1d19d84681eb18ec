"""Triggers: permissions, what a fire does, and what it leaves behind (K31, Q32-Q34)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from each import for_each
from fixtures.world import Reply, World, fields, rows, world

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentStarted, emit
from hive_core.errors import InvalidArgument, LimitReached, NotFound
from hive_core.model.agents.machine import DesiredState
from hive_core.model.config.settings import Settings
from hive_core.operations.triggers.fires import TriggerFireCount

DAY = 86_400.0
SAY = {"kind": "message", "text": "look at the queue"}
DO = {"kind": "task", "text": "count the lines"}
MAKE = {"kind": "spawn", "text": "sweep", "agent": {"name": "sweeper", "role": "task"}}


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with world(None, "root/a", "a/a1:worker", "a/a2", "root/b") as made:
        yield made


def put(hive: World, by: str = "a", /, **params: object) -> Reply:
    said = {"name": "nightly", "when": {"every": 60.0}, "action": SAY, **params}
    return hive.call(by, "set_trigger", **said)


def listed_triggers(hive: World, agent: str) -> list[Reply]:
    return rows(hive.call("operator", "list_triggers", agent=agent)["triggers"])


def fires(hive: World, trigger: object) -> list[Reply]:
    """The oldest first."""
    return rows(hive.call("operator", "list_fires", trigger=trigger)["fires"])[::-1]


def bodies(hive: World, name: str) -> list[str]:
    return [str(letter["body"]) for letter in hive.mail(name) if letter["kind"] == "trigger"]


WHO = {
    "a": "", "root": "", "operator": "", "a2": "NotAllowed", "b": "NotFound", "a1": "NotAllowed",
}  # fmt: skip


@for_each("caller, error", WHO.items())
def test_an_agent_sets_triggers_for_itself_and_what_is_below_it(
    hive: World, caller: str, error: str
) -> None:
    params = {"name": "x", "agent": "a", "when": {"every": 60.0}, "action": SAY}
    if caller == "b":
        params["agent"] = "a1"
    assert hive.fault(caller, "set_trigger", **params) == error


def test_without_the_capability_an_agent_sets_none(hive: World) -> None:
    assert hive.fault("a1", "set_trigger", name="x", when={"every": 60.0}, action=SAY) == (
        "NotAllowed"
    )


def test_what_an_ancestor_set_for_it_an_agent_sees_and_cannot_remove(hive: World) -> None:
    id_ = put(hive, "root", agent="a")["id"]
    assert [trigger["id"] for trigger in rows(hive.call("a", "list_triggers")["triggers"])] == [id_]
    assert hive.fault("a", "remove_trigger", trigger=id_) == "NotAllowed"
    assert hive.fault("b", "remove_trigger", trigger=id_) == "NotAllowed"
    assert hive.fault("a2", "remove_trigger", trigger="0" * 12) == "NotFound"
    assert hive.call("root", "remove_trigger", trigger=id_) == {"name": "nightly"}
    assert listed_triggers(hive, "a") == []


def test_an_own_name_replaces_a_trigger_and_the_name_of_another_owner_does_not(hive: World) -> None:
    first = put(hive, "a")["id"]
    assert put(hive, "root", agent="a")["id"] != first
    assert put(hive, "a", when={"every": 5.0})["id"] == first
    assert sorted(str(trigger["when"]) for trigger in listed_triggers(hive, "a")) == ["5", "60"]


REFUSED = {
    "cron minute": ({"cron": "61 * * * *"}, "bad minute"),
    "cron day": ({"cron": "0 0 32 * *"}, "bad day-of-month"),
    "cron weekday": ({"cron": "0 0 * * 8"}, "bad day-of-week"),
    "cron fields": ({"cron": "0 0 *"}, "wrong number of fields"),
    "cron range": ({"cron": "0 9-5 * * *"}, "bad hour"),
    "cron that never fires": ({"cron": "0 0 31 2 *"}, "bad day-of-month"),
    "cron in ten years": ({"cron": "0 0 * 2 MON#5"}, "does not fire in the next ten years"),
    "zone": ({"cron": "0 0 * * *", "zone": "Europe/Atlantis"}, "is not a time zone"),
    "way out": ({"cron": "0 0 * * *", "zone": "a/../../etc/passwd"}, ""),
    "nothing": ({}, "set one of"),
    "two": ({"every": 5.0, "at": "9999999999"}, "set one of"),
    "past": ({"at": "2020-01-01T00:00:00Z"}, "not in the next ten years"),
    "no moment": ({"at": "tomorrow"}, "is not a time"),
    "nan": ({"at": "nan"}, "not in the next ten years"),
    "zone of an interval": ({"every": 5.0, "zone": "UTC"}, "has no time zone"),
    "too often": ({"every": 0.5}, "greater than or equal to 1"),
}


@for_each("when, why", REFUSED.values())
def test_a_rule_that_makes_no_sense_is_refused_and_says_what_of_it(
    hive: World, when: Reply, why: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        put(hive, when=when)
    assert why in str(refused.value)
    assert refused.value.field.startswith("when")


def test_a_task_text_is_mandatory_and_a_new_agent_belongs_to_spawn(hive: World) -> None:
    for action in ({"kind": "task", "text": ""}, {"kind": "spawn", "text": "x"},
                   {**SAY, "agent": MAKE["agent"]}, {**SAY, "deadline": 5.0}):  # fmt: skip
        with pytest.raises(InvalidArgument):
            put(hive, action=action)


def test_a_message_comes_at_its_times_also_to_one_that_is_stopped(hive: World) -> None:
    hive.call("operator", "stop", agent="a")
    id_ = str(put(hive, "operator", agent="a")["id"])
    hive.advance(59)
    assert bodies(hive, "a") == []
    hive.advance(1)
    (body,) = bodies(hive, "a")
    head, _, text = body.partition("\n\n")
    (fire,) = json.loads(head)["fires"]
    assert (fire["trigger"], fire["owner"], fire["count"]) == (id_, "operator", 1)
    assert text == "look at the queue"
    hive.advance(60)
    assert len(bodies(hive, "a")) == 2
    states = [(fire["state"], fire["count"]) for fire in fires(hive, id_)]
    assert states == [("done", 1)] * 2


def test_each_fire_is_an_event_with_its_id(hive: World) -> None:
    id_ = put(hive)["id"]
    hive.advance(60)
    (event,) = [event for event in hive.events() if event["kind"] == "trigger"]
    (fire,) = fires(hive, id_)
    assert fields(event)["fire"] == fire["id"]
    assert (event["target"], event["caller"]) == (hive.uuid("a"), "daemon")


def test_what_fires_at_once_for_one_agent_is_one_message(hive: World) -> None:
    for number in range(5):
        put(hive, name=f"t{number}", action={"kind": "message", "text": f"text {number}"})
    put(hive, "root", agent="a", name="t0")
    hive.advance(60)
    (body,) = bodies(hive, "a")
    assert len(json.loads(body.partition("\n\n")[0])["fires"]) == 6
    assert all(f"text {number}" in body for number in range(5))


def test_many_long_texts_at_once_still_are_one_message_that_fits(hive: World) -> None:
    for number in range(8):
        put(hive, name=f"t{number}", action={"kind": "message", "text": "x" * 16_000})
    hive.advance(60)
    (body,) = bodies(hive, "a")
    assert len(body.encode()) <= 64 * 1024
    assert body.count("is too long for this message") == 5


def test_an_agent_has_so_many_fires_a_minute_and_the_rest_is_one_later() -> None:
    settings = Settings.model_validate({"triggers": {"fires": 10}})
    with world(settings, "root/a") as hive:
        id_ = put(hive, when={"every": 1.0})["id"]
        hive.advance(50)
        assert [fire["count"] for fire in fires(hive, id_)] == [1] * 10
        hive.advance(12)
        counts = [fire["count"] for fire in fires(hive, id_)]
        assert counts == [1] * 10 + [51, 1]
        assert len(bodies(hive, "a")) == 12


def test_a_wake_has_a_sleeping_agent_run_again(hive: World) -> None:
    put(hive, action={"kind": "wake", "text": "good morning"})
    sleep(hive, "a", DesiredState.SLEEPING)
    hive.advance(60)
    run = hive.ledger.runs.get(hive.uuid("a"))
    assert run is not None
    assert run.wanted is DesiredState.RUNNING
    assert len(bodies(hive, "a")) == 1


def test_its_own_trigger_does_not_undo_that_an_agent_was_stopped(hive: World) -> None:
    put(hive, action={"kind": "wake", "text": "up"})
    sleep(hive, "a", DesiredState.STOPPED)
    hive.advance(60)
    run = hive.ledger.runs.get(hive.uuid("a"))
    assert run is not None
    assert run.wanted is DesiredState.STOPPED
    assert len(bodies(hive, "a")) == 1
    put(hive, "root", agent="a", action={"kind": "wake", "text": "up"})
    hive.advance(60)
    run = hive.ledger.runs.get(hive.uuid("a"))
    assert run is not None
    assert run.wanted is DesiredState.RUNNING


def sleep(hive: World, name: str, wanted: DesiredState) -> None:
    with hive.ledger.transaction():
        hive.ledger.runs.want(hive.uuid(name), wanted, hive.clock.now())


def test_a_one_shot_comes_once_and_is_over(hive: World) -> None:
    at = hive.clock.now() + 100
    id_ = put(hive, when={"at": f"{at}"})["id"]
    hive.advance(DAY)
    assert [fire["due"] for fire in fires(hive, id_)] == [at]
    assert listed_triggers(hive, "a")[0]["next"] is None


def test_one_that_lost_the_right_since_gets_a_refusal_and_nothing_happens(hive: World) -> None:
    id_ = put(hive)["id"]
    hive.call("operator", "revoke_capability", agent="a", capability="trigger")
    hive.advance(60)
    (fire,) = fires(hive, id_)
    assert fire["state"] == "refused"
    assert "you do not hold the capability trigger" in str(fire["detail"])
    assert bodies(hive, "a") == []


def test_an_agent_that_moved_away_is_not_reached_by_its_old_parent(hive: World) -> None:
    id_ = put(hive, "a", agent="a2")["id"]
    hive.call("operator", "move", agent="a2", parent="b")
    hive.advance(60)
    (fire,) = fires(hive, id_)
    assert fire["state"] == "refused"
    assert bodies(hive, "a2") == []


def test_what_is_switched_off_does_not_fire(hive: World) -> None:
    put(hive, enabled=False)
    hive.advance(600)
    assert bodies(hive, "a") == []
    put(hive)
    hive.advance(60)
    assert len(bodies(hive, "a")) == 1


def test_an_agent_has_so_many_and_one_shots_that_are_over_make_room() -> None:
    settings = Settings.model_validate({"triggers": {"each": 3}})
    with world(settings, "root/a") as hive:
        put(hive, name="once", when={"at": f"{hive.clock.now() + 5}"})
        put(hive, name="t1")
        put(hive, name="t2")
        with pytest.raises(LimitReached):
            put(hive, name="t3")
        hive.advance(6)
        put(hive, name="t3")
        assert sorted(str(trigger["name"]) for trigger in listed_triggers(hive, "a")) == [
            "t1",
            "t2",
            "t3",
        ]


def test_the_triggers_of_the_destroyed_come_back_with_them_and_go_with_the_archive(
    hive: World,
) -> None:
    id_ = put(hive, "operator", agent="a2")["id"]
    uuid = hive.uuid("a2")
    hive.call("operator", "destroy", agent="a2")
    hive.advance(600)
    assert fires(hive, id_) == []
    hive.call("operator", "restore", id=uuid)
    start_agent(hive, "a2")
    hive.advance(60)
    assert [fire["state"] for fire in fires(hive, id_)] == ["done"] * len(fires(hive, id_))
    assert fires(hive, id_)
    hive.call("operator", "destroy", agent="a2")
    with hive.ledger.transaction():
        hive.ledger.archives.drop(uuid)
    hive.advance(2 * DAY)
    with pytest.raises(NotFound):
        hive.call("operator", "list_fires", trigger=id_)


def start_agent(hive: World, name: str) -> None:
    """The machine of an agent runs, as the change path tells it."""
    uuid = hive.uuid(name)

    def tell(call: Call) -> Record[TriggerFireCount]:
        emit(call, AgentStarted(uuid, name, 1))
        return Record(TriggerFireCount(fires=0))

    hive.broker.perform("life", tell)
    hive.run()


def test_a_zone_that_is_gone_from_the_machine_stops_one_trigger_and_no_other(hive: World) -> None:
    broken = put(hive, name="broken", when={"cron": "* * * * *"})["id"]
    good = put(hive, name="good", when={"cron": "* * * * *"})["id"]
    with hive.ledger.transaction():
        hive.ledger.connection.run(
            "UPDATE triggers SET rule = replace(rule, 'UTC', 'Europe/Atlantis') WHERE id = ?",
            (broken,),
        )
    hive.advance(60)
    (fire,) = fires(hive, broken)
    assert fire["state"] == "refused"
    assert "not a time zone" in str(fire["detail"])
    assert [fire["state"] for fire in fires(hive, good)] == ["done"]
    assert [trigger["enabled"] for trigger in listed_triggers(hive, "a")] == [False, True]


def test_what_replaces_a_trigger_does_not_wait_for_what_that_began(hive: World) -> None:
    id_ = put(hive, action=DO)["id"]
    hive.advance(60)
    assert put(hive)["id"] == id_
    hive.advance(60)
    assert [fire["state"] for fire in fires(hive, id_)] == ["open", "done"]


def test_many_times_that_are_skipped_are_one_line_a_minute(hive: World) -> None:
    id_ = put(hive, when={"every": 1.0}, missed="skip", action={**DO, "deadline": 900.0})["id"]
    hive.advance(181)
    result = fires(hive, id_)
    assert [item["state"] for item in result] == ["open", *["skipped"] * 3]
    assert sum(int(str(item["count"])) for item in result) == 181


def test_few_fires_are_kept_of_each_however_many_triggers_take_turns(hive: World) -> None:
    ids = [put(hive, name=f"t{number}", when={"every": 90.0})["id"] for number in range(16)]
    hive.advance(90 * 60)
    for item in ids:
        assert 20 <= len(rows(hive.call("a", "list_fires", trigger=item, limit=100)["fires"])) <= 30


def test_pages_of_triggers_come_one_after_the_other(hive: World) -> None:
    for number in range(7):
        put(hive, name=f"t{number}")
    result, after = [], None
    while True:
        page = hive.call("a", "list_triggers", limit=3, after=after)
        result += [trigger["name"] for trigger in rows(page["triggers"])]
        after = page.get("next")
        if after is None:
            break
    assert result == [f"t{number}" for number in range(7)]
