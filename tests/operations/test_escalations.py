"""Escalations: to the parent, with priority and context, and upwards until an answer comes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from fixtures.questions import DAY, answer, escalate, hops, letters, row
from fixtures.world import World, fields, world

from hive_core.model.config.settings import Settings

SECONDS = {"critical": 60.0, "error": 300.0, "warning": 1800.0, "info": 14_400.0}


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(None, "root/a", "a/a1", "a1/t:task", "root/b") as made:
        yield made


@pytest.mark.parametrize(
    ("severity", "priority"), [("critical", 0), ("error", 1), ("warning", 2), ("info", 3)]
)
def test_it_goes_to_the_parent_with_its_severity_and_its_context(
    world: World, severity: str, priority: int
) -> None:
    """K28: not to the first process of all, and nothing of it is dropped."""
    reply = world.call("a1", "escalate", issue="disk full", severity=severity, context="df: 100%")
    assert reply["to"] == "a"
    letter = world.mail("a")[-1]
    assert (letter["kind"], letter["priority"]) == ("escalation", priority)
    assert "> df: 100%" in str(letter["body"]).split("\n")
    (notices,) = letters(world, "a", "escalation")
    assert (notices["severity"], notices["from"], notices["why"]) == (severity, "a1", "asked")
    assert world.mail("operator") == []


@pytest.mark.parametrize(("severity", "seconds"), SECONDS.items())
def test_unanswered_it_goes_up_level_by_level_to_the_operator_and_there_it_stays(
    world: World, severity: str, seconds: float
) -> None:
    id_ = escalate(world, "t", severity)
    for to in ("a1", "a", "root", "operator", "operator"):
        assert row(world, id_)["to"] == to
        world.advance(seconds + 0.1)
    assert row(world, id_)["climbs"] is None
    assert hops(world, id_) == [
        ("a1", "asked"), ("a", "climbed"), ("root", "climbed"), ("operator", "climbed"),
    ]  # fmt: skip
    names = [letters(world, name, "escalation")[0]["by"] for name in ("a", "root", "operator")]
    assert names == ["a1", "a", "root"]


def test_each_level_has_its_own_time_and_an_answer_ends_the_climb(world: World) -> None:
    id_ = escalate(world, "t", "critical")
    world.advance(59)
    assert row(world, id_)["to"] == "a1"
    world.advance(2)
    answer(world, "a", id_, "restart it")
    world.advance(DAY)
    assert row(world, id_)["to"] == "a"
    (got,) = letters(world, "t", "answer")
    assert (got["kind"], got["by"], got["answers"]) == ("escalation", "a", ["restart it"])
    assert letters(world, "root", "escalation") == []


def test_the_first_recipient_may_still_answer_after_an_escalation(world: World) -> None:
    id_ = escalate(world, "t", "critical")
    world.advance(121)
    world.call("root", "recv")
    answer(world, "a1", id_, "sorry, late")
    assert letters(world, "t", "answer")[0]["by"] == "a1"
    assert [letter["state"] for letter in letters(world, "root", "question_ended")] == ["answered"]


def test_a_relay_starts_the_time_of_the_next_level(world: World) -> None:
    id_ = escalate(world, "t", "critical")
    world.advance(59)
    world.call("a1", "relay_question", question=id_)
    world.advance(59)
    assert row(world, id_)["to"] == "a"
    world.advance(2)
    assert row(world, id_)["to"] == "root"


def test_without_propagation_it_stays_where_it_is(world: World) -> None:
    reply = world.call("t", "escalate", issue="x", severity="critical", propagate=False)
    assert reply["climbs"] is None
    world.advance(DAY)
    assert row(world, str(reply["escalation"]))["to"] == "a1"


def test_of_a_root_it_is_the_operator_s_also_without_the_capability_to_write_there(
    world: World,
) -> None:
    world.call("operator", "revoke_capability", agent="root", capability="message.operator",
               recursive=True)  # fmt: skip
    assert world.call("root", "escalate", issue="x", severity="info")["to"] == "operator"
    assert world.fault("root", "ask", items=[{"prompt": "x"}]) == "NotAllowed"


def test_a_deadline_ends_it_before_it_climbs_any_further(world: World) -> None:
    reply = world.call("t", "escalate", issue="x", severity="critical", deadline=90, default="wait")
    world.advance(DAY)
    result = row(world, str(reply["escalation"]))
    assert (result["state"], result["to"]) == ("defaulted", "a")
    assert letters(world, "t", "answer")[0]["answers"] == ["wait"]


def test_an_agent_without_the_capability_is_refused(world: World) -> None:
    world.call("operator", "revoke_capability", agent="a1", capability="escalate", recursive=True)
    assert world.fault("a1", "escalate", issue="x", severity="info") == "NotAllowed"
    assert world.fault("operator", "escalate", issue="x", severity="info") == "NotAllowed"
    assert world.fault("a", "escalate", issue="x", severity="bad") == "InvalidParameter"
    assert world.fault("a", "escalate", issue="x") == "InvalidParameter"


def test_each_hop_is_an_event(world: World) -> None:
    escalate(world, "t", "critical")
    world.advance(130)
    events = [event for event in world.events() if event["kind"] == "escalation"]
    assert [(event["operation"], event["caller"], event["target"]) for event in events] == [
        ("put", "t", "a1"), ("climbed", "daemon", "a"), ("climbed", "daemon", "root"),
    ]  # fmt: skip
    assert {fields(event)["severity"] for event in events} == {"critical"}


def test_it_climbs_past_levels_that_went_while_no_daemon_ran(world: World) -> None:
    id_ = escalate(world, "t", "critical")
    world.restart(10 * DAY)
    world.advance(1)
    assert row(world, id_)["to"] == "a"  # one level; the next has its full time
    world.advance(60)
    assert row(world, id_)["to"] == "root"


def test_the_times_are_settings() -> None:
    settings = Settings.model_validate({"talk": {"info": 5.0}})
    with world(settings, "root/a") as made:
        id_ = escalate(made, "a", "info")
        made.advance(5.1)
        assert row(made, id_)["to"] == "operator"


def test_the_mail_says_how_to_answer(world: World) -> None:
    id_ = escalate(world, "a1")
    body = str(world.mail("a")[-1]["body"])
    assert re.search(rf"^Answer: hive-agent answer {id_} TEXT$", body, re.MULTILINE)
    id_ = escalate(world, "root")
    body = str(world.mail("operator")[-1]["body"])
    assert body.endswith(f"\nAnswer: hive question answer {id_} TEXT")
