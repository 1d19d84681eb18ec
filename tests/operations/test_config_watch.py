"""hello and watch_config: the two sides of a change without a restart."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.world import Reply, World, fields

from hive_core.broker.call import Call, Change
from hive_core.broker.operation import Result
from hive_core.errors import Conflict
from hive_core.ledger.machines.check_ins import CheckIn
from hive_core.model.agents.machine import DesiredState, Machine

SYSTEM = "/nix/store/00000000000000000000000000000001-nixos-system-a"
OTHER = "/nix/store/00000000000000000000000000000002-nixos-system-a"


class Nothing(Result):
    pass


def deploy_fields(world: World, name: str, **values: object) -> None:
    """the change path deploys something."""

    def change(call: Call) -> Change[Nothing]:
        spec = call.hive.spec(name)
        hive = call.hive.with_spec(name, spec.model_copy(update=values))
        call.notify(f"config:{spec.id}")
        return Change(Nothing(), hive, "deploy")

    world.broker.perform("deploy", change)
    world.run()


def runs(world: World, name: str, nonce: int | None = None, active: str = "active") -> int:
    """The machine is seen with the wanted start, or with another one."""
    uuid = world.uuid(name)
    run = world.ledger.runs.get(uuid)
    assert run is not None
    seen = run.nonce if nonce is None else nonce
    world.seen.machines[uuid] = Machine(uuid, nonce=seen, active=active)
    return run.nonce


def check_in(world: World, name: str) -> CheckIn:
    row = world.ledger.hellos.get(world.uuid(name))
    assert row is not None
    return row


def restart(world: World, name: str) -> int:
    with world.ledger.transaction():
        wish = world.ledger.runs.want(
            world.uuid(name),
            DesiredState.RUNNING,
            world.clock.now(),
            grace=5,
            reason="x",
            fresh=True,
        )
    return wish.nonce


def test_a_hello_is_kept_with_the_start_that_speaks(world: World) -> None:
    nonce = runs(world, "a")
    deploy_fields(world, "a", config="c" * 40, system=SYSTEM)
    reply = world.call("a", "hello", commit="c" * 40, system=SYSTEM)
    assert reply == {"commit": "c" * 40, "system": SYSTEM}
    uuid, now = world.uuid("a"), world.clock.now()
    assert check_in(world, "a") == CheckIn(uuid, now, nonce, "c" * 40, SYSTEM, "")


def test_a_start_that_is_on_its_way_out_does_not_speak_for_the_next_one(world: World) -> None:
    old = runs(world, "a")
    new = restart(world, "a")
    world.call("a", "hello", commit="d" * 40)
    assert check_in(world, "a").nonce == old
    runs(world, "a", old, "inactive")
    world.call("a", "hello", commit="d" * 40)
    assert check_in(world, "a").nonce == new


def test_no_agent_speaks_for_another_and_the_operator_for_none(world: World) -> None:
    world.call("a", "hello", fault="it broke")
    assert check_in(world, "a").fault == "it broke"
    assert world.ledger.hellos.get(world.uuid("root")) is None
    for operation in ("hello", "watch_config"):
        with pytest.raises(Conflict):
            world.call("operator", operation)
    (event,) = [
        entry for entry in world.events() if entry["operation"] == "hello" and entry["allowed"]
    ][:1]
    assert fields(event).get("fault", "it broke") == "it broke"


@for_each(
    "params",
    [{"commit": "c" * 39}, {"commit": "C" * 40}, {"system": "/etc"}, {"fault": "x" * 2001},
     {"system": "/nix/store/../../etc/passwd"}],
)  # fmt: skip
def test_what_is_said_must_be_well_formed(world: World, params: Reply) -> None:
    assert world.fault("a", "hello", **params) == "InvalidArgument"


def test_a_follower_is_told_when_something_is_deployed(world: World) -> None:
    runs(world, "a")
    first = world.call("a", "watch_config")
    asked = world.ask("a", "watch_config", after=first["next"], wait=50)
    assert asked.pending
    deploy_fields(world, "a", system=SYSTEM)
    result = asked.result()
    assert result["system"] == SYSTEM
    assert result["next"] != first["next"]
    assert world.call("a", "watch_config", after=result["next"]) == result


def test_nothing_is_told_to_an_agent_that_is_about_to_be_started_again(world: World) -> None:
    """It would begin a switch, and be ended in the middle of it."""
    runs(world, "a")
    first = world.call("a", "watch_config")
    asked = world.ask("a", "watch_config", after=first["next"], wait=20)
    new = restart(world, "a")
    deploy_fields(world, "a", system=OTHER)
    assert asked.pending
    world.advance(20.1)
    assert asked.result()["next"] == first["next"]
    runs(world, "a", new)
    assert world.call("a", "watch_config", after=first["next"])["system"] == OTHER


def test_a_stream_tells_each_change(world: World) -> None:
    runs(world, "a")
    asked = world.ask("a", "watch_config", more=True)
    for commit in ("c" * 40, "d" * 40):
        deploy_fields(world, "a", config=commit)
    assert [page["commit"] for page in asked.pages][-2:] == ["c" * 40, "d" * 40]
    assert asked.pending
    asked.close()
