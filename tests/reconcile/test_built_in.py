"""The queen and the maid are made at start when the settings say so (rows K33, K36)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.world import World, world

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import Profile, Role
from hive_core.model.agents.machine import DesiredState
from hive_core.model.config.limits import BuiltInSettings
from hive_core.model.config.settings import RootAgentSettings, Settings
from hive_core.model.work.checks import MaidCheck
from hive_core.model.work.checks import MaidConfig as Table
from hive_core.reconcile.built_in_agents import ensure_built_in_agents
from hive_core.reconcile.deps import BrokerHandle

BOTH = Settings(daemons=BuiltInSettings(queen=True, maid=True))


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with world(BOTH) as made:
        yield made


def start(world: World) -> list[str]:
    """What stands in the way at a start of the daemon."""
    handle = BrokerHandle(lambda: world.hive, world.broker.touch, world.broker.perform)
    return list(ensure_built_in_agents(handle, world.settings))


def test_they_are_made_once(world: World) -> None:
    for _ in range(2):
        assert start(world) == []
        assert dict(world.hive.topology.parents) == {
            "root": None, "queen": "root", "maid": "queen"
        }  # fmt: skip
    made = [event for event in world.events() if event["operation"] == "ensure_built_in"]
    assert [event["target"] for event in made] == ["queen", "maid"]
    for profile in Profile:
        spec = world.hive.spec(profile.value)
        run = world.ledger.runs.get(spec.id)
        assert (spec.role, spec.profile) == (Role.DAEMON, profile)
        assert spec.command == ("hive-agent", profile.value)
        assert run is not None
        assert run.wanted is DesiredState.RUNNING
    assert set(world.hive.spec("maid").capabilities) == {"artifact.write", "escalate"}


def test_the_operator_ends_one_for_good_by_the_settings(world: World) -> None:
    start(world)
    world.call("operator", "destroy", agent="maid")
    assert start(world) == []
    assert "maid" in world.hive.specs
    world.call("operator", "destroy", agent="queen")
    assert world.hive.topology.parent("maid") == "root"
    world.settings = Settings()
    start(world)
    assert "queen" not in world.hive.specs


def test_a_name_that_is_taken_is_told_and_the_other_is_made(world: World) -> None:
    world.grow("root/queen")
    assert start(world) == ["cannot create the queen: the name queen is taken"]
    assert world.hive.topology.parent("maid") == "root"


def test_without_a_root_agent_they_are_roots() -> None:
    settings = Settings(
        daemons=BuiltInSettings(maid=True), root=RootAgentSettings(name="boss", autostart=False)
    )
    with world(settings) as made:
        assert start(made) == []
        assert made.hive.topology.parent("maid") is None
        assert set(made.hive.spec("maid").capabilities) == {"artifact.write", "escalate"}


def test_two_of_a_kind_declared_by_hand_are_refused(world: World) -> None:
    """A hand commit is judged as a whole."""
    start(world)
    other = world.hive.spec("root").model_copy(update={"profile": Profile.QUEEN})
    hive = world.hive.with_spec("root", other)
    hive.__dict__.pop("checked", None)
    with pytest.raises(InvalidArgument, match="are both a queen"):
        hive.validate()


def test_a_maid_makes_children_as_long_as_there_are_checks(world: World) -> None:
    """K36: also one that was there before; what else it holds stays."""
    start(world)
    usual = {"artifact.write", "escalate"}
    checks = Table(checks={"disk": MaidCheck(command=("df",))})
    for settings, held in ((BOTH.model_copy(update={"maid": checks}), {"spawn"}), (BOTH, set())):
        world.settings = settings
        world.restart()
        assert start(world) == []
        commit = world.hive.commit
        assert start(world) == []
        assert world.hive.commit == commit
        assert {*world.hive.spec("maid").capabilities} == usual | held
        assert world.fault("maid", "spawn", name="own", role="task") == "NotAllowed" * (not held)


def test_what_the_operator_let_the_maid_do_is_not_taken_away(world: World) -> None:
    """Neither at a start without checks nor after some that were set for a while."""
    start(world)
    world.call("operator", "grant_capability", agent="maid", capability="spawn")
    checks = Table(checks={"disk": MaidCheck(command=("df",))})
    for settings in (BOTH, BOTH.model_copy(update={"maid": checks}), BOTH):
        world.settings = settings
        world.restart()
        before = world.call("operator", "list_events", limit=1000)["events"]
        assert start(world) == []
        assert world.call("operator", "list_events", limit=1000)["events"] == before
        assert "spawn" in world.hive.spec("maid").capabilities


def test_a_new_maid_holds_what_its_checks_take(world: World) -> None:
    """It does nothing when none are left."""
    world.settings = BOTH.model_copy(
        update={"maid": Table(checks={"a": MaidCheck(command=("df",))})}
    )
    world.restart()
    start(world)
    assert set(world.hive.spec("maid").capabilities) == {"artifact.write", "escalate", "spawn"}
    world.settings = BOTH
    world.restart()
    start(world)
    assert set(world.hive.spec("maid").capabilities) == {"artifact.write", "escalate"}
