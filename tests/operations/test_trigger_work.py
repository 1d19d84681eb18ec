"""Triggers that assign tasks and create agents: one at a time, with each result kept (K31)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.world import World, fields, rows, world
from operations.test_triggers import DO, MAKE, fires, put

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentEnded, emit
from hive_core.model.work.trigger import OUTPUT
from hive_core.operations.triggers.fires import TriggerFireCount
from hive_core.operations.triggers.lifecycle_hooks import pause_triggers


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with world(None, "root/a", "a/a1:worker", "a/a2", "root/b") as made:
        yield made


def finish(
    hive: World, fire: dict[str, object], agent: str = "a", summary: str = "4 lines"
) -> None:
    task = str(fire["ref"])
    hive.call(agent, "recv", max=100)
    hive.call(agent, "finish_task", task=task, status="success", summary=summary)


def assigned_tasks(hive: World, fire: dict[str, object]) -> tuple[str | None, str | None, str]:
    task = hive.ledger.tasks.require(str(fire["ref"]))
    names = (hive.hive.name(task.assigner), hive.hive.name(task.assignee))
    return (*names, task.request.description)


def test_a_task_is_assigned_by_the_owner_of_the_trigger_and_its_result_is_kept(hive: World) -> None:
    id_ = put(hive, "root", agent="a", action=DO)["id"]
    hive.advance(60)
    (fire,) = fires(hive, id_)
    assert fire["state"] == "open"
    assert assigned_tasks(hive, fire) == ("root", "a", "count the lines")
    hive.advance(10)
    finish(hive, fire, summary="x" * (OUTPUT + 500) + "end")
    (fire,) = fires(hive, id_)
    assert (fire["state"], fire["status"], fire["duration"]) == ("done", "success", 10.0)
    assert len(str(fire["output"])) == OUTPUT
    assert str(fire["output"]).endswith("end")


def test_an_agent_gives_itself_a_task_every_night(hive: World) -> None:
    id_ = put(hive, action=DO)["id"]
    hive.advance(60)
    assert [fire["state"] for fire in fires(hive, id_)] == ["open"]


@pytest.mark.parametrize("missed", ["latest", "all"])
def test_the_next_task_waits_for_the_end_of_the_last(hive: World, missed: str) -> None:
    id_ = put(hive, "root", agent="a", action=DO, missed=missed)["id"]
    hive.advance(60 * 5 + 1)
    states = [fire["state"] for fire in fires(hive, id_)]
    assert states == ["open", "waits"]
    finish(hive, fires(hive, id_)[0])
    hive.run()
    hive.advance(0)
    result = fires(hive, id_)
    assert [item["state"] for item in result][:3] == ["done", "waits", "open"]
    assert result[2]["count"] == (4 if missed == "latest" else 1)
    if missed == "all":
        assert result[2]["due"] == float(str(result[0]["due"])) + 60


def test_the_next_task_is_skipped_and_that_is_recorded(hive: World) -> None:
    id_ = put(hive, "root", agent="a", action={**DO, "deadline": 86_400.0}, missed="skip")["id"]
    hive.advance(60 * 30 + 1)
    result = fires(hive, id_)
    assert [item["state"] for item in result[-3:]] == ["skipped"] * 3
    assert "still open" in str(result[-1]["detail"])
    events = [fields(event) for event in hive.events() if event["kind"] == "trigger"]
    assert len([event for event in events if event["state"] == "skipped"]) == 29
    (open_,) = [
        item for item in hive.ledger.triggers.fires.of(1, None, 100) if item.state == "open"
    ]
    finish(hive, {"ref": open_.ref})
    hive.advance(60)
    assert fires(hive, id_)[-1]["state"] == "open"


def test_a_task_that_cannot_be_given_is_refused_and_the_next_time_is_tried(hive: World) -> None:
    id_ = put(hive, "a", agent="a1", action=DO)["id"]
    hive.call("operator", "revoke_capability", agent="a", capability="trigger")
    hive.advance(60)
    hive.call("operator", "grant_capability", agent="a", capability="trigger")
    hive.advance(60)
    assert [fire["state"] for fire in fires(hive, id_)] == ["refused", "open"]


def test_a_new_agent_is_made_below_with_a_task_and_its_end_is_kept(hive: World) -> None:
    id_ = put(hive, action=MAKE)["id"]
    hive.advance(60)
    (fire,) = fires(hive, id_)
    assert (fire["state"], fire["agent"]) == ("open", "sweeper-1")
    assert hive.hive.topology.parent("sweeper-1") == "a"
    *_, event = (event for event in hive.events() if event["kind"] == "change")
    assert event["target"] == "sweeper-1"
    assert assigned_tasks(hive, fire) == ("a", "sweeper-1", "sweep")
    end_agent(hive, "sweeper-1", 42)
    finish(hive, fire, "sweeper-1")
    (fire,) = fires(hive, id_)
    assert (fire["state"], fire["exit"], fire["output"]) == ("done", 42, "4 lines")


def test_a_new_agent_is_made_only_when_the_task_of_the_last_has_ended(hive: World) -> None:
    id_ = put(hive, action=MAKE)["id"]
    hive.advance(200)
    assert [fire["state"] for fire in fires(hive, id_)] == ["open", "waits"]
    finish(hive, fires(hive, id_)[0], "sweeper-1")
    hive.advance(1)
    assert [fire["state"] for fire in fires(hive, id_)] == ["done", "waits", "open"]
    assert fires(hive, id_)[-1]["agent"] == "sweeper-3"


def test_an_agent_that_may_not_spawn_any_more_makes_no_agent(hive: World) -> None:
    id_ = put(hive, action=MAKE)["id"]
    hive.call("operator", "revoke_capability", agent="a", capability="spawn")
    before = set(hive.hive.specs)
    hive.advance(60)
    (fire,) = fires(hive, id_)
    assert fire["state"] == "refused"
    assert "spawn" in str(fire["detail"])
    assert set(hive.hive.specs) == before


def test_the_destruction_of_the_assignee_ends_the_fire(hive: World) -> None:
    id_ = put(hive, action=MAKE)["id"]
    hive.advance(60)
    hive.call("operator", "destroy", agent="sweeper-1")
    (fire,) = fires(hive, id_)
    assert (fire["state"], fire["agent"]) == ("done", "")
    assert fire["status"] in ("failed", "stopped")


def test_all_triggers_of_some_agents_are_switched_off_at_once(hive: World) -> None:
    ids = [put(hive, "a")["id"], put(hive, "root", agent="a", name="x")["id"]]
    other = put(hive, "root", agent="b")["id"]
    paused: list[str] = []

    def pause(call: Call) -> Record[TriggerFireCount]:
        paused.extend(pause_triggers(call, frozenset({hive.uuid("a")})))
        return Record(TriggerFireCount(fires=0))

    hive.broker.perform("stop_work", pause)
    hive.advance(120)
    assert sorted(paused) == sorted(map(str, ids))
    assert fires(hive, ids[0]) == fires(hive, ids[1]) == []
    assert len(fires(hive, other)) == 2
    assert not rows(hive.call("a", "list_triggers")["triggers"])[0]["enabled"]


def end_agent(hive: World, name: str, code: int) -> None:
    """The machine of an agent ended, as the change path tells it."""
    result = AgentEnded(
        hive.uuid(name), name, code, "done", clean=False, asked=False, wanted="running",
        returns=True,
    )  # fmt: skip

    def tell(call: Call) -> Record[TriggerFireCount]:
        emit(call, result)
        return Record(TriggerFireCount(fires=0))

    hive.broker.perform("life", tell)
    hive.run()
