"""Spec row H2: commits by hand, from the branch to the rows and the log, over the real broker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from host.meta import git
from operations.asked import hold
from operations.world import World, world

from hive_core.errors import Internal
from hive_core.host.git import files
from hive_core.host.git.manual_commits import ManualCommits
from hive_core.host.storage.stores import Stores
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.config.settings import Paths, Settings
from hive_core.operations import load
from hive_core.reconcile.observed import ObservedState


@pytest.fixture
def found() -> Iterator[World]:
    with world(None, "root/ann", "ann/bob", "root/carl") as made:
        yield made


def hand(world_: World) -> ManualCommits:
    parts = world_.broker.services
    look = ObservedState.build(parts.ledger, parts.settings, world_.broker.hive, parts.clock)
    made = ManualCommits(world_.repo, world_.broker, look)
    world_.broker.branch_moved = made.check_branch
    return made


def path(world_: World) -> Path:
    return world_.repo.folder.parent


def commit(world_: World, parents: dict[str, str | None]) -> str:
    """Somebody puts this topology into the repository."""
    folder = path(world_)
    (folder / "topology.json").write_text(json.dumps(parents))
    for file in (folder / "agents").iterdir():
        if file.stem not in parents:
            file.unlink()
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "by hand")
    return git(folder, "rev-parse", "HEAD")


def test_agents_that_come_go_and_move_by_hand_have_everything_that_belongs_to_it(
    found: World,
) -> None:
    ann, bob, carl = map(found.uuid, ("ann", "bob", "carl"))
    found.call("root", "send", to="ann", body="are you there?")
    oid = commit(found, {"root": None, "bob": "carl", "carl": "root"})
    hand(found).check_branch()
    assert found.hive.commit == found.ledger.head == oid
    assert found.hive.topology.parents == {"root": None, "bob": "carl", "carl": "root"}
    assert found.ledger.archives.is_tombstone(ann)
    assert [each["kind"] for each in found.mail("bob")] == ["moved"]
    assert found.mail("carl") == []
    assert [each["kind"] for each in found.mail("root")] == ["dead_letter"]
    assert {ann, bob, carl} <= found.ledger.ranges.all().keys()
    (event,) = [each for each in found.events() if each["operation"] == "hand"]
    assert (event["kind"], event["allowed"], event["commit"]) == ("adopt", True, oid)


def test_an_agent_made_by_hand_should_run(found: World) -> None:
    spec = found.hive.spec("carl")
    folder = path(found) / "agents"
    other = spec.model_copy(update={"uuid": type(spec.uuid)(int=77 << 96)})
    (folder / "dora.json").write_bytes(files.spec_bytes(other))
    parents = {**found.hive.topology.parents, "dora": "carl"}
    commit(found, parents)
    hand(found).check_branch()
    run = found.ledger.runs.get(other.id)
    assert run is not None
    assert (run.wanted.value, run.reason) == ("running", "committed by hand")
    assert found.ledger.ranges.base(other.id) is not None


def put_spec(world_: World, name: str, number: int) -> AgentSpec:
    """A file in agents/ of somebody new."""
    like = world_.hive.spec("carl")
    spec = like.model_copy(update={"uuid": UUID(int=number << 96)})
    (path(world_) / "agents" / f"{name}.json").write_bytes(files.spec_bytes(spec))
    return spec


def commit_all(world_: World) -> str:
    git(path(world_), "add", "-A")
    git(path(world_), "commit", "-q", "-m", "by hand")
    return git(path(world_), "rev-parse", "HEAD")


PLACED = "was committed by hand without a place in topology.json: it was placed under root"


def test_a_spec_without_a_place_hangs_under_the_root_agent(found: World) -> None:
    """The default position; `status` says so until somebody moves it, for a day at most."""
    spec = put_spec(found, "dora", 77)
    put_spec(found, "kid", 78)
    parents = {**found.hive.topology.parents, "kid": "dora"}
    (path(found) / "topology.json").write_text(json.dumps(parents))
    oid = commit_all(found)
    made = hand(found)
    made.check_branch()
    assert found.hive.topology.parents == {**parents, "dora": "root"}
    assert found.ledger.runs.get(spec.id) is not None
    head = found.hive.commit
    assert found.repo.is_at(head)
    assert git(path(found), "rev-parse", f"{head}~1") == oid
    assert git(path(found), "log", "-1", "--format=%s", head) == "place dora under root"
    assert json.loads((path(found) / "topology.json").read_text())["dora"] == "root"
    assert git(path(found), "status", "--porcelain") == ""
    (event,) = [each for each in found.events() if each["operation"] == "hand"]
    assert "placed under root: dora" in str(event["reason"])

    def said() -> list[str]:
        look = ObservedState.build(found.ledger, found.settings, found.hive, found.clock)
        return [each for each in look.alarms() if PLACED in each]

    assert said() == [f"dora {PLACED} (change it with `hive move`)"]
    found.call("operator", "move", agent="dora", parent="carl")
    assert said() == []
    found.call("operator", "move", agent="dora", parent="root")
    found.advance(86_400)
    assert said() == []


def test_a_daemon_that_ends_before_it_took_the_place_over_places_it_again(found: World) -> None:
    """What is written before the ledger knows it is nobody's: the branch stays where it was."""
    put_spec(found, "dora", 77)
    oid = commit_all(found)
    recovery = found.repo.recover(found.hive.commit)
    assert recovery.placed == ("dora",)
    assert found.repo.is_at(oid)
    again = hand(found)
    again.check_branch()
    assert found.hive.topology.parent("dora") == "root"
    assert found.repo.is_at(found.hive.commit)


def test_a_ledger_that_has_the_place_and_a_branch_that_lags_agree_again(found: World) -> None:
    put_spec(found, "dora", 77)
    oid = commit_all(found)
    made = hand(found)
    made.apply_recovery(found.repo.recover(found.hive.commit))
    assert found.repo.is_at(oid)
    made.check_branch()
    assert found.repo.is_at(found.hive.commit)
    assert found.hive.topology.parent("dora") == "root"


@pytest.mark.parametrize("left", [{"root": None, "ann": "root", "bob": "ann"}, {}])
def test_an_agent_that_lost_its_place_is_put_nowhere(
    found: World, left: dict[str, str | None]
) -> None:
    """Else a lost file would flatten the tree."""
    before = found.hive
    (path(found) / "topology.json").write_text(json.dumps(left))
    commit_all(found)
    made = hand(found)
    made.check_branch()
    assert found.hive is before
    ((_, reason),) = made.look.parked
    assert "is not in both topology.json and agents/" in reason


def test_without_a_root_agent_nobody_is_placed(found: World) -> None:
    found.repo.set_root_agent("boss")
    put_spec(found, "dora", 77)
    commit_all(found)
    made = hand(found)
    made.check_branch()
    ((_, reason),) = made.look.parked
    assert reason == "dora has no place in topology.json, and there is no agent boss"


@pytest.mark.parametrize("right", ["network:host", "subagents", "fly"])
def test_a_right_that_has_no_effect_is_not_given_by_hand(found: World, right: str) -> None:
    before = found.hive
    file = path(found) / "agents" / "ann.json"
    spec = json.loads(file.read_text())
    file.write_text(json.dumps({**spec, "capabilities": ["spawn", right]}))
    commit(found, dict(found.hive.topology.parents))
    made = hand(found)
    made.check_branch()
    assert found.hive is before
    ((_, reason),) = made.look.parked
    assert re.search(f"ann: '{right}' (has no effect|is not a capability)", reason)


def test_what_was_held_of_old_stays_in_force_by_hand(found: World) -> None:
    """A commit that changes something else of it is adopted."""
    hold(found, "ann", "network:host", "subagents")
    file = path(found) / "agents" / "ann.json"
    spec = json.loads(file.read_text())
    file.write_text(json.dumps({**spec, "title": "new"}))
    oid = commit(found, dict(found.hive.topology.parents))
    hand(found).check_branch()
    assert found.hive.commit == oid
    assert {"network:host", "subagents"} <= set(found.hive.spec("ann").capabilities)


def test_a_refused_commit_is_shown_recorded_and_in_nobodys_way(found: World) -> None:
    before = found.hive
    bad = commit(found, {**before.topology.parents, "root": "carl"})
    hands = hand(found)
    found.call("root", "spawn", name="dora")  # noticed on the way, before any watch
    assert found.hive.commit != before.commit
    assert [oid for oid, _ in hands.look.parked_commits()] == [bad]
    (event,) = [each for each in found.events() if each["operation"] == "hand"]
    assert (event["kind"], event["allowed"], event["commit"]) == ("refusal", False, bad)
    assert "cycle" in str(event["reason"])
    hands.check_branch()
    assert hands.look.changed_paths == []


def test_attack_59_what_is_changed_in_the_work_tree_is_restored_at_the_next_look(
    found: World,
) -> None:
    """Seen: a deleted topology.json, and a line in flake.nix, stayed until some later commit."""
    before = {each: (path(found) / each).read_bytes() for each in ("topology.json", "flake.nix")}
    (path(found) / "topology.json").unlink()
    (path(found) / "flake.nix").write_bytes(before["flake.nix"] + b"# mine\n")
    git(path(found), "rm", "-q", "--cached", "agents/ann.json")
    (path(found) / "mine.txt").write_text("of no commit")
    hands = hand(found)
    hands.check_branch()
    for file, data in before.items():
        assert (path(found) / file).read_bytes() == data
    assert hands.look.changed_paths == ["mine.txt"]
    assert "in the folder of meta, and in no commit: mine.txt" in hands.look.alarms()
    (path(found) / "mine.txt").unlink()
    hands.check_branch()
    assert git(path(found), "status", "--porcelain") == ""


def test_the_uuid_of_a_destroyed_agent_does_not_come_back_by_hand(found: World) -> None:
    """attack 40, also for what was committed while the daemon was down."""
    old = found.hive
    commit(found, {"root": None, "carl": "root"})
    hand(found).check_branch()
    (path(found) / "agents" / "ann.json").write_bytes(files.spec_bytes(old.spec("ann")))
    commit(found, {"root": None, "carl": "root", "ann": "root"})
    found.ledger.close()
    state = found.repo.folder.parents[1]
    settings = Settings(paths=Paths(state=state))
    stores = Stores.open(settings)
    assert stores.recovery is not None
    assert "belonged to a destroyed agent" in stores.recovery.reason
    assert "ann" not in stores.hive.specs
    stores.ledger.close()
    found.ledger = Ledger.open(state / "hive.db")  # for the world to close


def test_a_capability_taken_by_hand_does_not_come_back_from_an_archive(found: World) -> None:
    """What was taken from one above meanwhile is lost, whoever took it, and given back or not."""
    bob = found.uuid("bob")
    found.call("operator", "destroy", agent="bob")
    before = found.hive.spec("ann")
    less = before.model_copy(update={"capabilities": ("kill",)})
    for spec in (less, before):
        (path(found) / "agents/ann.json").write_bytes(files.spec_bytes(spec))
        commit(found, {"root": None, "ann": "root", "carl": "root"})
        hand(found).check_branch()
        assert found.hive.spec("ann") == spec
    lost = found.call("operator", "restore", id=bob)["lost"]
    assert isinstance(lost, list)
    assert "kill" not in lost
    assert found.hive.spec("bob").capabilities == ("kill",)


def test_who_is_destroyed_by_hand_is_known_to_have_been_below_those_above(found: World) -> None:
    """So that whoever it comes back under, they lose it."""
    bob = found.uuid("bob")
    commit(found, {"root": None, "ann": "root", "carl": "root"})
    hand(found).check_branch()
    archive = found.ledger.archives.get(bob)
    assert archive is not None
    assert archive.above == (found.uuid("root"), found.uuid("ann"))


def test_a_damaged_branch_is_mended_from_the_ledger_and_recorded(found: World) -> None:
    ref = found.repo.folder / "refs/heads/main"
    ref.write_bytes(b"")
    hands = hand(found)
    hands.check_branch()
    assert found.repo.is_at(found.hive.commit)
    assert hands.look.faults == []
    assert [each["operation"] for each in found.events()][-1] == "hand"


def test_a_damaged_object_is_an_alarm_and_what_is_in_force_stays(found: World) -> None:
    before = found.hive
    blob = git(path(found), "rev-parse", "HEAD:topology.json")
    file = Path(found.repo.folder, "objects", blob[:2], blob[2:])
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:20])
    hands = hand(found)
    hands.check_branch()
    assert [each for each in hands.look.alarms() if blob in each]
    assert found.hive == before
    found.call("root", "send", to="ann", body="still here")
    found.call("root", "spawn", name="dora")


def test_a_daemon_that_cannot_read_its_head_gives_nobody_authority(tmp_path: Path) -> None:
    settings = Settings(paths=Paths(state=tmp_path))
    stores = Stores.open(settings)
    with stores.ledger.transaction():
        stores.ledger.head = "1" * 40
    stores.ledger.close()
    stores = Stores.open(settings)
    assert stores.damage.startswith("the meta repo is damaged")
    assert stores.hive.specs == {}
    assert isinstance(stores.ledger, Ledger)
    stores.ledger.close()


def test_nothing_is_written_on_top_of_a_head_that_cannot_be_read(found: World) -> None:
    """Else the next commit would be a tree without all who stood in the damaged one."""
    blob = git(path(found), "rev-parse", "HEAD:topology.json")
    Path(found.repo.folder, "objects", blob[:2], blob[2:]).unlink()
    found.ledger.close()
    state = found.repo.folder.parents[1]
    stores = Stores.open(Settings(paths=Paths(state=state)))
    assert blob in stores.damage
    with pytest.raises(Internal, match=r"^the tree cannot be changed: the meta repo is damaged"):
        stores.repo.write(stores.hive, stores.hive, "a new agent", {})
    served = stores.served_operations(load())
    refused = {name for name, each in served.items() if each.handler != load()[name].handler}
    assert refused == {name for name, each in served.items() if each.mutates} >= {"gc", "restore"}
    stores.ledger.close()
    found.ledger = Ledger.open(state / "hive.db")  # for the world to close


def test_a_glance_finds_a_moved_branch_that_nobody_told_of(found: World) -> None:
    hands = hand(found)
    hands.check_branch()
    hands.check_quickly()
    assert found.broker.hive.commit == found.repo.head()
    oid = commit(found, {"root": None})
    hands.check_quickly()
    assert found.broker.hive.commit == oid
