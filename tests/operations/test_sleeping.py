"""sleep and resume: whose, what they do to whom, and what wakes a sleeper (row K13)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from each import for_each
from fixtures.machines import end_machine, run_of, start_machines
from fixtures.world import World, world

from hive_core.model.agents.machine import DesiredState

MAY = {
    ("operator", "lead"): "", ("root", "lead"): "", ("root", "plan"): "", ("lead", "plan"): "",
    ("lead", "lead"): "NotAllowed", ("plan", "lead"): "NotAllowed", ("other", "lead"): "NotAllowed",
    ("other", "plan"): "NotFound", ("lead", "nobody"): "NotFound",
}  # fmt: skip


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    edges = ("root/lead:lead", "lead/plan:architect", "lead/work:worker", "root/other:lead")
    with world(None, *edges) as made:
        made.call("lead", "spawn", name="light", role="worker", wakes=True)
        start_machines(made, "root", "lead", "plan", "work", "light", "other")
        yield made


def wanted_state(world: World, name: str) -> DesiredState:
    return run_of(world, name).wanted


@for_each("verb, caller, target", [(verb, *case) for verb in ["sleep", "resume"] for case in MAY])
def test_a_strict_ancestor_or_the_operator(
    world: World, verb: str, caller: str, target: str
) -> None:
    assert world.fault(caller, verb, agent=target) == MAY[caller, target]


def test_a_sleeper_comes_back_with_a_new_start(world: World) -> None:
    """K13: with its grace; by `resume`, and by `start` just so."""
    for verb in ("resume", "start"):
        before = run_of(world, "work").nonce
        assert world.call("lead", "sleep", agent="work", grace=12)["agents"] == ["work"]
        assert (wanted_state(world, "work"), run_of(world, "work").grace) == (
            DesiredState.SLEEPING,
            12.0,
        )
        assert world.call("lead", "sleep", agent="work")["agents"] == []
        assert world.call("lead", verb, agent="work")["agents"] == ["work"]
        assert (wanted_state(world, "work"), run_of(world, "work").nonce) == (
            DesiredState.RUNNING,
            before + 1,
        )


def test_asleep_is_not_stopped(world: World) -> None:
    """What was stopped is not put to sleep, nor woken."""
    world.call("lead", "stop", agent="work")
    assert world.call("lead", "sleep", agent="work")["agents"] == []
    assert world.fault("lead", "resume", agent="work") == "Conflict"
    world.call("lead", "sleep", agent="plan")
    assert world.call("lead", "stop", agent="plan")["agents"] == ["plan"]
    assert wanted_state(world, "plan") is DesiredState.STOPPED


def test_a_whole_subtree_sleeps_and_wakes(world: World) -> None:
    """Leaves first; a stopped agent stays stopped."""
    world.call("lead", "stop", agent="work")
    hit = world.call("root", "sleep", agent="lead", recursive=True)["agents"]
    assert isinstance(hit, list)
    assert (set(hit), hit[-1]) == ({"plan", "light", "lead"}, "lead")
    world.call("root", "resume", agent="lead", recursive=True)
    states = {name: wanted_state(world, name).value for name in ("lead", "plan", "light", "work")}
    assert states == {"lead": "running", "plan": "running", "light": "running", "work": "stopped"}


@pytest.mark.parametrize(("name", "woken"), [("light", True), ("work", False)])
def test_mail_wakes_the_agents_that_it_should(world: World, name: str, *, woken: bool) -> None:
    """K13, `wakes`: the others find it when they are woken."""
    world.call("lead", "sleep", agent=name)
    end_machine(world, name)
    world.call("lead", "send", to=name, body="work!")
    assert (wanted_state(world, name) is DesiredState.RUNNING) is woken
    assert [letter["body"] for letter in world.mail(name)] == ["work!"]


def test_mail_does_not_undo_a_stop(world: World) -> None:
    world.call("lead", "stop", agent="light")
    world.call("lead", "send", to="light", body="work!")
    assert wanted_state(world, "light") is DesiredState.STOPPED


def test_mail_that_waits_when_it_is_put_to_sleep_does_not_wake_it(world: World) -> None:
    """An ancestor wanted this sleep, whatever lies in the inbox."""
    world.call("lead", "send", to="light", body="before")
    world.call("lead", "sleep", agent="light")
    end_machine(world, "light")
    assert wanted_state(world, "light") is DesiredState.SLEEPING


def test_a_resume_can_bring_a_message(world: World) -> None:
    """K13: the message is there before the agent runs, whichever party resumes it."""
    world.call("lead", "sleep", agent="work")
    result = world.call("lead", "resume", agent="work", body="go on")
    (mail,) = world.mail("work")
    assert (mail["id"], mail["body"], mail["kind"]) == (result["message"], "go on", "resume")
    assert (mail["from"], mail["relation"]) == ("lead", "parent")
    assert world.call("lead", "resume", agent="work")["message"] is None


def test_an_agent_that_mail_wakes_is_waited_for_by_a_resume_with_a_message(
    world: World,
) -> None:
    world.call("lead", "sleep", agent="light")
    result = world.call("lead", "resume", agent="light", body="go on")
    assert result["agents"] == ["light"]
    assert result["job"]


def test_an_event_tells_of_the_sleep_and_of_the_way_back(world: World) -> None:
    """K5."""
    world.call("lead", "sleep", agent="work")
    world.call("lead", "resume", agent="work")
    events = [event["operation"] for event in world.events()]
    assert events.count("sleep") == events.count("resume") == 1
