"""allow, disallow, grant_capability, revoke_capability: what the operator gives."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.approvals import hold
from fixtures.world import World, texts

from hive_core.errors import InvalidArgument
from hive_core.operations.agents.grants import MOST

PAIRS = [
    ("allow", {"agent": "a1", "other": "a2"}),
    ("disallow", {"agent": "a1", "other": "a2"}),
    ("grant_capability", {"agent": "a1", "capability": "meta.read"}),
    ("revoke_capability", {"agent": "a1", "capability": "spawn"}),
]


@for_each(
    "operation, params, caller",
    [(*case, caller) for case in PAIRS for caller in ["root", "a", "a1"]],
)
def test_they_are_the_operators_alone(
    world: World, operation: str, params: dict[str, object], caller: str
) -> None:
    before = world.hive
    assert world.fault(caller, operation, **params) == "NotAllowed"
    assert world.hive is before


def test_the_list_names_the_agents_that_it_allows(world: World) -> None:
    assert world.call("operator", "allow", agent="a1", other="b1")["allow"] == ["b1"]
    assert world.call("operator", "allow", agent="a1", other="b")["allow"] == ["b", "b1"]
    assert world.call("operator", "disallow", agent="a1", other="b1")["allow"] == ["b"]


def test_what_is_so_already_makes_no_commit(world: World) -> None:
    world.call("operator", "allow", agent="a1", other="b1")
    before = world.hive
    world.call("operator", "allow", agent="a1", other="b1")
    world.call("operator", "disallow", agent="a1", other="b")
    world.call("operator", "grant_capability", agent="a1", capability="spawn")
    world.call("operator", "revoke_capability", agent="a1", capability="meta.read")
    assert world.hive is before


def test_the_list_holds_identities_not_names(world: World) -> None:
    """Attack 40."""
    world.call("operator", "allow", agent="a1", other="b1")
    world.call("operator", "destroy", agent="b1")
    world.call("b", "spawn", name="b1")
    assert world.call("operator", "allow", agent="a1", other="b")["allow"] == ["b"]


def test_destroyed_agents_take_no_room_in_the_list(world: World) -> None:
    """Archived agents stay on the list; the limit counts only the living."""
    for number in range(MOST):
        world.call("operator", "spawn", name=f"x{number}", parent="b", max_children=0)
        world.call("operator", "allow", agent="a1", other=f"x{number}")
    assert world.fault("operator", "allow", agent="a1", other="b1") == "LimitReached"
    result = world.uuid("x1")
    for name in ("x0", "x1"):
        world.call("operator", "destroy", agent=name)
    assert world.fault("operator", "allow", agent="a1", other="b1") == "LimitReached"
    with world.ledger.transaction():
        for archive in world.ledger.archives.all():
            if archive.uuid != result:
                world.ledger.archives.drop(archive.uuid)
    assert "b1" in texts(world.call("operator", "allow", agent="a1", other="b1")["allow"])
    assert result in map(str, world.hive.spec("a1").allow)
    assert len(world.hive.spec("a1").allow) == MOST


def test_an_agent_is_not_allowed_to_itself(world: World) -> None:
    with pytest.raises(InvalidArgument):
        world.call("operator", "allow", agent="a1", other="a1")


@pytest.mark.parametrize(("agent", "other"), [("nobody", "a"), ("a", "nobody"), ("a", "")])
def test_both_must_live(world: World, agent: str, other: str) -> None:
    assert world.fault("operator", "allow", agent=agent, other=other) == "NotFound"


def test_a_granted_capability_is_held_and_can_be_handed_on(world: World) -> None:
    reply = world.call("operator", "grant_capability", agent="a", capability="secret:web")
    assert "secret:web" in texts(reply["capabilities"])
    assert "secret:web" in texts(world.call("a", "whoami")["capabilities"])
    assert world.fault("a", "spawn", name="new", capabilities=["secret:web"]) == ""


USELESS = ("network:veth", "network:foo")


@pytest.mark.parametrize("capability", USELESS)
def test_a_capability_that_nothing_reads_cannot_be_given(world: World, capability: str) -> None:
    """It was granted, held, shown, and had no effect."""
    with pytest.raises(InvalidArgument, match=f"'{capability}' has no effect: .*th") as refused:
        world.call("operator", "grant_capability", agent="a", capability=capability)
    assert refused.value.field == "capability"
    agent = {"role": "worker", "capabilities": [capability]}
    then = {"kind": "spawn", "text": "x", "agent": {"name": "by-clock", **agent}}
    when = {"cron": "0 5 * * *"}
    tries: list[tuple[str, dict[str, object]]] = [
        ("spawn", {"name": "new", **agent}),
        ("spawn", {"name": "new", "add_capabilities": [capability]}),
        ("set_definition", {"name": "kind", "agent": agent}),
        ("set_trigger", {"agent": "a", "name": "t", "when": when, "action": then}),
    ]
    for operation, value in tries:
        with pytest.raises(InvalidArgument, match="has no effect"):
            world.call("operator", operation, **value)
    assert not [entry for entry in world.hive.specs.values() if capability in entry.capabilities]


def test_an_old_holder_keeps_it_and_hands_it_on_to_no_agent(world: World) -> None:
    """The spec loads, and an unrelated grant does not remove it."""
    hold(world, "a", *USELESS)
    assert world.repo.read(world.hive.commit).spec("a") == world.hive.spec("a")
    reply = world.call("operator", "grant_capability", agent="a", capability="broadcast")
    assert {*USELESS, "broadcast"} <= set(texts(reply["capabilities"]))
    assert world.fault("a", "spawn", name="x", capabilities=["network:foo"]) == "InvalidArgument"
    assert world.fault("a", "spawn", name="x", capabilities=["network:host"]) == "NotAllowed"
    assert world.fault("a", "spawn", name="x") == ""
    for capability in USELESS:
        world.call("operator", "revoke_capability", agent="a", capability=capability)
    assert not set(USELESS) & set(world.hive.spec("a").capabilities)


@for_each("capability", ["fly", "spawn:x", "secret", "network:", "secret:a b", ""])
def test_the_list_of_capabilities_is_closed(world: World, capability: str) -> None:
    for operation in ("grant_capability", "revoke_capability"):
        error = world.fault("operator", operation, agent="a", capability=capability)
        assert error == "InvalidArgument"


def test_a_revoked_capability_is_gone_at_once(world: World) -> None:
    world.call("operator", "revoke_capability", agent="a1", capability="spawn")
    assert world.fault("a1", "spawn", name="new") == "NotAllowed"
    assert world.fault("a11", "spawn", name="new") == ""


def test_it_can_be_revoked_from_a_whole_subtree_in_one_commit(world: World) -> None:
    before = len(world.events())
    world.call("operator", "revoke_capability", agent="a", capability="spawn", recursive=True)
    entries = [name for name, spec in world.hive.specs.items() if "spawn" in spec.capabilities]
    assert sorted(entries) == ["b", "b1", "root"]
    assert len(world.events()) == before + 1


def test_what_an_agent_holds_stays_readable(world: World) -> None:
    """A spec is bounded, so that the meta repo can be read back."""
    result = 0
    while not world.fault(
        "operator", "grant_capability", agent="a", capability=f"secret:{result:064d}"
    ):
        result += 1
    assert 100 < result <= 128
    assert world.repo.read(world.hive.commit).spec("a") == world.hive.spec("a")
