"""destroy, restore, list_archives: the end of an agent and the way back."""

from __future__ import annotations

import pytest
from fixtures.approvals import hold
from fixtures.world import World, fields, names, rows

from hive_core.errors import AlreadyExists, Expired, NotAllowed, NotFound
from hive_core.model.agents.machine import DesiredState

MAY = {
    ("operator", "a"): "", ("root", "a"): "", ("a", "a1"): "", ("root", "a11"): "",
    ("a", "a"): "NotAllowed", ("a1", "a"): "NotAllowed", ("a11", "root"): "NotAllowed",
    ("a1", "a2"): "NotAllowed", ("a", "b"): "NotAllowed", ("a", "b1"): "NotFound",
    ("a", "nobody"): "NotFound",
}  # fmt: skip


@pytest.mark.parametrize(("caller", "target"), MAY)
def test_never_itself_never_an_ancestor(world: World, caller: str, target: str) -> None:
    """Row H22; attack 41."""
    before = world.hive
    assert world.fault(caller, "destroy", agent=target) == MAY[caller, target]
    assert (world.hive is before) is bool(MAY[caller, target])


def test_children_go_to_the_nearest_living_ancestor(world: World) -> None:
    """Rows H22 and K9."""
    reply = world.call("root", "destroy", agent="a")
    assert (reply["agents"], reply["adopted"], reply["adopter"]) == (["a"], ["a1", "a2"], "root")
    parents = world.hive.topology.parents
    assert (parents["a1"], parents["a2"], parents["a11"]) == ("root", "root", "a1")
    assert world.repo.read(world.repo.head()).topology == world.hive.topology


def test_adopter_and_adopted_are_told(world: World) -> None:
    """Row K9: with event and notice."""
    world.call("operator", "destroy", agent="a")
    (result,) = world.mail("root")
    assert (result["relation"], result["kind"]) == ("daemon", "adopted")
    assert "a1, a2" in str(result["body"])
    (result,) = world.mail("a1")
    assert (result["from"], result["kind"]) == ("daemon", "adopted")
    assert "root" in str(result["body"])
    assert world.mail("a11") == []
    assert fields(world.events()[-1])["adopted"] == ["a1", "a2"]


def test_adoption_may_exceed_the_number_of_children(world: World) -> None:
    """Rows K4 and K9; after it the quota refuses new ones."""
    world.call("operator", "spawn", name="narrow", parent="root", max_children=1)
    world.grow("narrow/mid", "mid/x", "mid/y")
    world.call("operator", "destroy", agent="mid")
    assert world.hive.topology.children("narrow") == ("x", "y")
    assert world.fault("narrow", "spawn", name="z") == "LimitReached"


def test_children_of_a_destroyed_root_become_roots(world: World) -> None:
    world.grow("other", "other/child")
    reply = world.call("operator", "destroy", agent="other")
    assert (reply["adopted"], reply["adopter"]) == (["child"], None)
    assert "child" in world.hive.topology.roots


def test_recursive_takes_the_whole_subtree_leaves_first(world: World) -> None:
    reply = world.call("root", "destroy", agent="a", recursive=True)
    assert (reply["agents"], reply["adopted"]) == (["a11", "a1", "a2", "a"], [])
    assert set(world.hive.topology) == {"root", "b", "b1"}


def test_the_root_agent_is_kept_by_the_daemon(world: World) -> None:
    """Row H16."""
    with pytest.raises(NotAllowed):
        world.call("operator", "destroy", agent="root")


def test_unread_mail_becomes_dead_letters_and_each_sender_is_told_once(world: World) -> None:
    """Attack 37: one notice, however many letters."""
    for text in ("one", "two"):
        world.call("root", "send", to="a1", body=text)
    world.call("a2", "send", to="a1", body="three")
    world.call("operator", "destroy", agent="a1")
    for name in ("root", "a2"):
        (result,) = world.mail(name)
        assert (result["kind"], result["relation"]) == ("dead_letter", "daemon")
        assert "a1 was destroyed" in str(result["body"])


def test_the_sockets_side_of_a_destroyed_agent_is_dead_at_once(world: World) -> None:
    """Row H30, attack 38: a connection that it still has gives it no access."""
    uuid = world.uuid("a1")
    waiting = world.ask("a1", "recv", wait=50)
    world.call("operator", "destroy", agent="a1")
    assert str(waiting.replies[-1]["error"]).endswith("NotFound")
    for operation in ("whoami", "recv", "list_agents"):
        asked = world.ask_as(uuid, operation, {})
        assert str(asked.replies[-1]["error"]).endswith("NotFound")


def test_it_stops_to_be_wanted_and_its_job_asks_for_its_absence(world: World) -> None:
    uuid = world.uuid("a1")
    job = world.call("a", "destroy", agent="a1")["job"]
    run = world.ledger.runs.get(uuid)
    assert run is not None
    assert run.wanted is DesiredState.STOPPED
    row = world.ledger.jobs.get(str(job))
    assert row is not None
    assert row.goals == {uuid: "absent"}


def test_a_restored_agent_is_the_same_one(world: World) -> None:
    """Archived 24 h."""
    world.call("operator", "allow", agent="a11", other="b1")
    world.call("operator", "allow", agent="a1", other="b1")
    before, base = world.hive.spec("a11"), world.ledger.ranges.base(world.uuid("a11"))
    nonce = max(run.nonce for run in world.ledger.runs.all().values())
    world.call("a1", "destroy", agent="a11")
    (row,) = rows(world.call("operator", "list_archives")["archives"])
    assert (row["name"], row["parent"], row["id"]) == ("a11", "a1", before.id)
    assert row["expires_at"] == world.clock.now() + 86_400
    reply = world.call("operator", "restore", id=before.id)
    assert (reply["name"], reply["uuid"], reply["parent"]) == ("a11", before.id, "a1")
    assert world.hive.spec("a11") == before
    assert world.ledger.ranges.base(before.id) == base
    run = world.ledger.runs.get(before.id)
    assert run is not None
    assert run.wanted is DesiredState.RUNNING
    assert run.nonce > nonce, "an exit of its former life must not be taken for one of this"
    assert world.call("operator", "list_archives")["archives"] == []
    assert world.fault("root", "send", to="a11", body="welcome back") == ""


def test_a_restored_agent_has_no_dead_letters_of_the_daemon(world: World) -> None:
    """It was told of two moves, and read neither. What an agent wrote waits for the operator."""
    for parent in ("root", "a1"):
        world.call("operator", "move", agent="a11", parent=parent)
    assert [row["kind"] for row in world.mail("a11")] == ["moved", "moved"]
    uuid = world.uuid("a11")
    for dead in (0, 1):
        if dead:
            world.call("a1", "send", to="a11", body="are you there?")
        world.call("operator", "destroy", agent="a11")
        world.call("operator", "restore", id=uuid)
        todo = rows(world.call("operator", "todo")["todo"])
        counted = [row["text"] for row in todo if row["agent"] == "a11"]
        assert counted == ["1 that a11 did not receive"] * dead


def test_archives_come_in_pages_also_when_one_that_was_listed_is_gone(world: World) -> None:
    gone = ["a11", "a1", "a2", "b1"]
    for name in gone:
        world.call("operator", "destroy", agent=name)
        world.advance(1)
    page = world.call("operator", "list_archives", limit=2)
    assert names(page["archives"]) == gone[:2]
    world.call("operator", "restore", id=rows(page["archives"])[1]["id"])
    rest = world.call("operator", "list_archives", after=page["next"])
    assert (names(rest["archives"]), rest["next"]) == (gone[2:], None)
    pages = world.ask("operator", "list_archives", limit=1, more=True).pages
    assert [names(entry["archives"]) for entry in pages] == [["a11"], ["a2"], ["b1"]]
    assert world.fault("operator", "list_archives", after="yesterday") == "InvalidArgument"


def test_what_was_taken_from_its_family_meanwhile_does_not_come_back(world: World) -> None:
    """It gets what its parent can grant now; the reply and a message list what was cut."""
    world.call("operator", "allow", agent="a11", other="b1")
    world.call("operator", "allow", agent="a11", other="a2")
    uuid = world.uuid("a11")
    world.call("a1", "destroy", agent="a11")
    world.call("operator", "revoke_capability", agent="a", capability="spawn", recursive=True)
    reply = world.call("operator", "restore", id=uuid)
    assert (reply["lost"], reply["disallowed"]) == (["spawn"], ["b1"])
    spec = world.hive.spec("a11")
    assert "spawn" not in spec.capabilities
    assert "kill" in spec.capabilities
    assert [str(entry) for entry in spec.allow] == [world.uuid("a2")]
    (result,) = world.mail("a11")
    assert result["kind"] == "restored"
    assert result["body"] == "you were restored without spawn, writing to b1"
    assert fields(world.events()[-1])["lost"] == ["spawn"]
    assert world.fault("a11", "send", to="b1", body="x") == "NotFound"


def test_a_capability_taken_from_one_above_and_given_back_there_does_not_come_back(
    world: World,
) -> None:
    """What was taken meanwhile stays taken, also where its parent holds it again."""
    uuid = world.uuid("a11")
    world.call("a1", "destroy", agent="a11")
    world.call("operator", "revoke_capability", agent="a", capability="spawn", recursive=True)
    for name in ("a", "a1"):
        world.call("operator", "grant_capability", agent=name, capability="spawn")
    assert world.call("operator", "restore", id=uuid)["lost"] == ["spawn"]
    assert "spawn" not in world.hive.spec("a11").capabilities
    assert "kill" in world.hive.spec("a11").capabilities


def test_a_parent_that_comes_back_with_less_gives_its_child_no_more_later(world: World) -> None:
    parent, child = world.uuid("a1"), world.uuid("a11")
    world.call("operator", "destroy", agent="a1", recursive=True)
    world.call("operator", "revoke_capability", agent="a", capability="spawn")
    assert world.call("operator", "restore", id=parent)["lost"] == ["spawn"]
    for name in ("a", "a1"):
        world.call("operator", "grant_capability", agent=name, capability="spawn")
    assert world.call("operator", "restore", id=child)["lost"] == ["spawn"]


def test_attack_58_a_former_ancestor_is_restarted(world: World) -> None:
    """Its old parent is gone, so it comes under the root agent: others above it lose it."""
    world.grow("a11/x")
    uuid = world.uuid("x")
    world.call("operator", "destroy", agent="x")
    world.call("operator", "destroy", agent="a11")
    reply = world.call("operator", "restore", id=uuid)
    assert (reply["parent"], reply["restarts"]) == ("root", ["a", "a1", "a2"])
    (revocation,) = world.ledger.revocations.open()
    assert (revocation.agent, revocation.came_back) == (uuid, True)
    assert revocation.lost == (world.uuid("a"), world.uuid("a1"))
    assert revocation.job == reply["job"]


def test_under_its_old_parent_no_agent_is_restarted(world: World) -> None:
    uuid = world.uuid("a11")
    world.call("operator", "destroy", agent="a11")
    assert world.call("operator", "restore", id=uuid)["restarts"] == []


def test_what_has_no_effect_does_not_come_back(world: World) -> None:
    """Not even where the parent holds it, and to a root neither."""
    world.grow("other")
    for name in ("a1", "a11", "other"):
        hold(world, name, "network:lan", "network:veth")
    root = world.uuid("other")
    world.call("operator", "destroy", agent="other")
    assert world.call("operator", "restore", id=root)["lost"] == ["network:lan", "network:veth"]
    uuid = world.uuid("a11")
    world.call("a1", "destroy", agent="a11")
    assert world.call("operator", "restore", id=uuid)["lost"] == ["network:lan", "network:veth"]


def test_a_root_comes_back_with_what_the_operator_gave_it(world: World) -> None:
    world.grow("other")
    world.call("operator", "grant_capability", agent="other", capability="secret:key")
    world.call("operator", "allow", agent="other", other="b1")
    world.call("operator", "allow", agent="other", other="a11")
    before = world.hive.spec("other")
    world.call("operator", "destroy", agent="other")
    gone = world.uuid("b1")
    world.call("operator", "destroy", agent="b1")
    reply = world.call("operator", "restore", id=before.id)
    assert (reply["lost"], reply["disallowed"]) == ([], [gone])
    assert world.hive.spec("other").capabilities == before.capabilities


def test_its_children_stay_where_they_were_adopted(world: World) -> None:
    uuid = world.uuid("a1")
    world.call("operator", "destroy", agent="a1")
    world.call("operator", "restore", id=uuid)
    assert world.hive.topology.children("a1") == ()
    assert world.hive.topology.parent("a11") == "a"


def test_without_its_old_parent_it_comes_under_the_root_agent(world: World) -> None:
    uuid = world.uuid("a11")
    world.call("operator", "destroy", agent="a", recursive=True)
    assert world.call("operator", "restore", id=uuid)["parent"] == "root"


def test_a_subtree_comes_back_as_it_was_from_the_top_down(world: World) -> None:
    uuids = [world.uuid(name) for name in ("a", "a1", "a2", "a11")]
    before = world.hive.topology
    world.call("operator", "destroy", agent="a", recursive=True)
    for uuid in uuids:
        world.call("operator", "restore", id=uuid)
    assert world.hive.topology == before


def test_a_name_that_was_taken_meanwhile_is_in_the_way(world: World) -> None:
    uuid = world.uuid("a1")
    world.call("operator", "destroy", agent="a1")
    world.call("b", "spawn", name="a1")
    with pytest.raises(AlreadyExists):
        world.call("operator", "restore", id=uuid)
    assert names(world.call("operator", "list_archives")["archives"]) == ["a1"]


def test_after_its_time_nothing_can_be_restored(world: World) -> None:
    uuid = world.uuid("a1")
    world.call("operator", "destroy", agent="a1")
    world.advance(86_401)
    assert world.call("operator", "list_archives")["archives"] == []
    with pytest.raises(Expired):
        world.call("operator", "restore", id=uuid)


def test_nothing_is_restored_that_was_not_destroyed(world: World) -> None:
    with pytest.raises(NotFound):
        world.call("operator", "restore", id=world.uuid("a1"))


@pytest.mark.parametrize("operation", ["restore", "list_archives"])
def test_archives_are_the_operators(world: World, operation: str) -> None:
    uuid = world.uuid("a11")
    world.call("a1", "destroy", agent="a11")
    result = {"id": uuid} if operation == "restore" else {}
    assert world.fault("root", operation, **result) == "NotAllowed"
