"""Newer inputs of the flake: the operator sees who follows, and what happens to each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from fixtures.approvals import THREE, Nothing, judge, show
from fixtures.world import Reply, World, rows, world

from hive_core.broker.call import Call, Change
from hive_core.model.agents.machine import State
from hive_core.model.config.settings import NixSettings, Settings
from hive_core.model.wire.record import OPERATOR
from hive_core.operations.approvals.views import ROWS_MOST

NIX = Settings(nix=NixSettings(inputs={"nixpkgs": "github:a/b"}), images={"nix": None})
SYSTEM = "/nix/store/" + "0" * 32 + "-system"


def build(made: World, systems: Mapping[str, str | None]) -> None:
    """What the deploy path does for agents of image `nix`: a configuration, a system of it."""

    def change(call: Call) -> Change[Nothing]:
        hive = call.hive
        for name, system in systems.items():
            update = {"config": "1a" * 20, "system": system}
            hive = hive.with_spec(name, hive.spec(name).model_copy(update=update))
        return Change(Nothing(), hive, "build")

    made.broker.perform("build", change)
    made.run()


@pytest.fixture(name="made")
def _made() -> Iterator[World]:
    """A second root beside the root agent; of image `nix`: one that runs, one that is down though
    it should run, one that is stopped, one that was never built, and one of the second root."""
    with world(NIX, "root/a") as made:
        made.call(OPERATOR, "spawn", name="other", parent="")
        parents = {"up": "root", "down": "a", "off": "a", "fresh": "root", "far": "other"}
        for name, parent in parents.items():
            made.call(OPERATOR, "spawn", name=name, parent=parent, image="nix")
        build(made, {name: None if name == "fresh" else SYSTEM for name in parents})
        made.call(OPERATOR, "stop", agent="off")
        made.seen.states[made.uuid("down")] = State.FAILED
        yield made


def ask(made: World, caller: str = "root") -> str:
    id_ = made.call(caller, "request_update_meta_inputs", message="cves")["approval"]
    return judge(made, str(id_))


def followers(result: Reply) -> dict[str, object]:
    return {str(follow["agent"]): follow["effect"] for follow in rows(result["follows"])}


def effect(result: Reply) -> object:
    approval = result["approval"]
    assert isinstance(approval, dict)
    return approval["effect"]


def test_the_operator_sees_the_followers_and_what_happens_to_each(made: World) -> None:
    result = show(made, ask(made))
    assert followers(result) == {
        "up": "switch", "down": "restart", "off": "next start", "fresh": "build", "far": "switch",
    }  # fmt: skip
    assert result["followers"] == 5
    assert effect(result) == "restart"


def test_what_is_said_is_true_of_now(made: World) -> None:
    """It may wait for a day, and agents stop and go meanwhile."""
    id_ = ask(made)
    for name in ("up", "down", "fresh", "far"):
        made.call(OPERATOR, "destroy", agent=name)
    result = show(made, id_)
    assert followers(result) == {"off": "next start"}
    assert effect(result) == "nothing"
    made.call(OPERATOR, "start", agent="off")
    assert effect(show(made, id_)) == "switch"
    done = made.call(OPERATOR, "approve", id=id_, commit=THREE[:8])
    assert done["effect"] == "switch"


def test_an_agent_that_asked_is_told_of_those_that_it_sees(made: World) -> None:
    assert set(followers(show(made, ask(made), "root"))) == {"up", "down", "off", "fresh"}
    assert set(followers(show(made, ask(made, "other"), "other"))) == {"far"}


def test_a_new_configuration_has_no_followers(made: World) -> None:
    collected = {"agent": "a", "commit": "2b" * 20, "message": "x"}
    id_ = judge(made, str(made.call("root", "request_apply_commit", **collected)["approval"]))
    assert (followers(show(made, id_)), show(made, id_)["followers"]) == ({}, 0)


def test_of_many_agents_a_page_has_the_first_and_their_number(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ROWS_MOST == 500
    monkeypatch.setattr("hive_core.operations.approvals.operations.ROWS_MOST", 3)
    result = show(made, ask(made))
    assert (len(rows(result["follows"])), result["followers"]) == (3, 5)
