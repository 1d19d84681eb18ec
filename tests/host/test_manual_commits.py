"""Spec row H2: commits by hand, from the branch to the rows and the log, over the real broker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from fixtures.approvals import hold
from fixtures.meta_repo import git
from fixtures.world import World, world

from hive_core.errors import Internal
from hive_core.host.git import files
from hive_core.host.git.manual_commits import ManualCommits
from hive_core.host.git.worktree_status import WorkTreeStatus
from hive_core.host.storage.stores import Stores
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.config.settings import Paths, Settings
from hive_core.operations import load
from hive_core.reconcile.observed import ObservedState


@pytest.fixture
def running() -> Iterator[World]:
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
    running: World,
) -> None:
    ann, bob, carl = map(running.uuid, ("ann", "bob", "carl"))
    running.call("root", "send", to="ann", body="are you there?")
    oid = commit(running, {"root": None, "bob": "carl", "carl": "root"})
    hand(running).check_branch()
    assert running.hive.commit == running.ledger.head == oid
    assert running.hive.topology.parents == {"root": None, "bob": "carl", "carl": "root"}
    assert running.ledger.archives.is_tombstone(ann)
    assert [letter["kind"] for letter in running.mail("bob")] == ["moved"]
    assert running.mail("carl") == []
    assert [letter["kind"] for letter in running.mail("root")] == ["dead_letter"]
    assert {ann, bob, carl} <= running.ledger.ranges.all().keys()
    (event,) = [event for event in running.events() if event["operation"] == "hand"]
    assert (event["kind"], event["allowed"], event["commit"]) == ("adopt", True, oid)


def test_an_agent_made_by_hand_should_run(running: World) -> None:
    spec = running.hive.spec("carl")
    folder = path(running) / "agents"
    other = spec.model_copy(update={"uuid": type(spec.uuid)(int=77 << 96)})
    (folder / "dora.json").write_bytes(files.spec_bytes(other))
    parents = {**running.hive.topology.parents, "dora": "carl"}
    commit(running, parents)
    hand(running).check_branch()
    run = running.ledger.runs.get(other.id)
    assert run is not None
    assert (run.wanted.value, run.reason) == ("running", "committed by hand")
    assert running.ledger.ranges.base(other.id) is not None


def put_spec(world_: World, name: str, number: int) -> AgentSpec:
    """Write the spec of a new agent."""
    like = world_.hive.spec("carl")
    spec = like.model_copy(update={"uuid": UUID(int=number << 96)})
    (path(world_) / "agents" / f"{name}.json").write_bytes(files.spec_bytes(spec))
    return spec


def commit_all(world_: World) -> str:
    git(path(world_), "add", "-A")
    git(path(world_), "commit", "-q", "-m", "by hand")
    return git(path(world_), "rev-parse", "HEAD")


PLACED = "was committed by hand without a place in topology.json: it was placed under root"


def test_a_spec_without_a_place_hangs_under_the_root_agent(running: World) -> None:
    """The default position; `status` says so until somebody moves it, for a day at most."""
    spec = put_spec(running, "dora", 77)
    put_spec(running, "kid", 78)
    parents = {**running.hive.topology.parents, "kid": "dora"}
    (path(running) / "topology.json").write_text(json.dumps(parents))
    oid = commit_all(running)
    made = hand(running)
    made.check_branch()
    assert running.hive.topology.parents == {**parents, "dora": "root"}
    assert running.ledger.runs.get(spec.id) is not None
    head = running.hive.commit
    assert running.repo.is_at(head)
    assert git(path(running), "rev-parse", f"{head}~1") == oid
    assert git(path(running), "log", "-1", "--format=%s", head) == "place dora under root"
    assert json.loads((path(running) / "topology.json").read_text())["dora"] == "root"
    assert git(path(running), "status", "--porcelain") == ""
    (event,) = [event for event in running.events() if event["operation"] == "hand"]
    assert "placed under root: dora" in str(event["reason"])

    def placement_alarms() -> list[str]:
        look = ObservedState.build(running.ledger, running.settings, running.hive, running.clock)
        return [alarm for alarm in look.alarms() if PLACED in alarm]

    assert placement_alarms() == [f"dora {PLACED} (change it with `hive move`)"]
    running.call("operator", "move", agent="dora", parent="carl")
    assert placement_alarms() == []
    running.call("operator", "move", agent="dora", parent="root")
    running.advance(86_400)
    assert placement_alarms() == []


def test_a_daemon_that_ends_before_it_took_the_place_over_places_it_again(running: World) -> None:
    """A ref that the ledger does not know yet counts for nothing: the branch stays."""
    put_spec(running, "dora", 77)
    oid = commit_all(running)
    recovery = running.repo.recover(running.hive.commit)
    assert recovery.placed == ("dora",)
    assert running.repo.is_at(oid)
    again = hand(running)
    again.check_branch()
    assert running.hive.topology.parent("dora") == "root"
    assert running.repo.is_at(running.hive.commit)


def test_a_ledger_that_has_the_place_and_a_branch_that_lags_agree_again(running: World) -> None:
    put_spec(running, "dora", 77)
    oid = commit_all(running)
    made = hand(running)
    made.apply_recovery(running.repo.recover(running.hive.commit))
    assert running.repo.is_at(oid)
    made.check_branch()
    assert running.repo.is_at(running.hive.commit)
    assert running.hive.topology.parent("dora") == "root"


@pytest.mark.parametrize("left", [{"root": None, "ann": "root", "bob": "ann"}, {}])
def test_an_agent_that_lost_its_place_is_put_nowhere(
    running: World, left: dict[str, str | None]
) -> None:
    """Else a lost file would flatten the tree."""
    before = running.hive
    (path(running) / "topology.json").write_text(json.dumps(left))
    commit_all(running)
    made = hand(running)
    made.check_branch()
    assert running.hive is before
    ((_, reason),) = made.look.parked
    assert "is not in both topology.json and agents/" in reason


def test_without_a_root_agent_no_agent_is_placed(running: World) -> None:
    running.repo.set_root_agent("boss")
    put_spec(running, "dora", 77)
    commit_all(running)
    made = hand(running)
    made.check_branch()
    ((_, reason),) = made.look.parked
    assert reason == "dora is not in topology.json, and no agent boss exists"


@pytest.mark.parametrize("right", ["network:lan", "network:veth", "fly"])
def test_a_right_that_has_no_effect_is_not_given_by_hand(running: World, right: str) -> None:
    before = running.hive
    file = path(running) / "agents" / "ann.json"
    spec = json.loads(file.read_text())
    file.write_text(json.dumps({**spec, "capabilities": ["spawn", right]}))
    commit(running, dict(running.hive.topology.parents))
    made = hand(running)
    made.check_branch()
    assert running.hive is before
    ((_, reason),) = made.look.parked
    assert re.search(f"ann: '{right}' (has no effect|is not a capability)", reason)


def test_what_was_held_of_old_stays_in_force_by_hand(running: World) -> None:
    """A commit that changes something else of it is adopted."""
    hold(running, "ann", "network:lan", "network:veth")
    file = path(running) / "agents" / "ann.json"
    spec = json.loads(file.read_text())
    file.write_text(json.dumps({**spec, "title": "new"}))
    oid = commit(running, dict(running.hive.topology.parents))
    hand(running).check_branch()
    assert running.hive.commit == oid
    assert {"network:lan", "network:veth"} <= set(running.hive.spec("ann").capabilities)


def test_a_refused_commit_is_shown_recorded_and_in_nobodys_way(running: World) -> None:
    before = running.hive
    bad = commit(running, {**before.topology.parents, "root": "carl"})
    hands = hand(running)
    running.call("root", "spawn", name="dora")  # noticed on the way, before any watch
    assert running.hive.commit != before.commit
    assert [oid for oid, _ in hands.look.parked_commits()] == [bad]
    (event,) = [event for event in running.events() if event["operation"] == "hand"]
    assert (event["kind"], event["allowed"], event["commit"]) == ("refusal", False, bad)
    assert "cycle" in str(event["reason"])
    hands.check_branch()
    assert hands.look.changed_paths == []


def test_attack_59_what_is_changed_in_the_work_tree_is_restored_at_the_next_look(
    running: World,
) -> None:
    """Seen: a deleted topology.json, and a line in flake.nix, stayed until some later commit."""
    before = {
        file_name: (path(running) / file_name).read_bytes()
        for file_name in ("topology.json", "flake.nix")
    }
    (path(running) / "topology.json").unlink()
    (path(running) / "flake.nix").write_bytes(before["flake.nix"] + b"# mine\n")
    git(path(running), "rm", "-q", "--cached", "agents/ann.json")
    (path(running) / "mine.txt").write_text("of no commit")
    hands = hand(running)
    hands.check_branch()
    for file, data in before.items():
        assert (path(running) / file).read_bytes() == data
    assert hands.look.changed_paths == ["mine.txt"]
    assert "changed in the folder of meta and not committed: mine.txt" in hands.look.alarms()
    (path(running) / "mine.txt").unlink()
    hands.check_branch()
    assert git(path(running), "status", "--porcelain") == ""


def test_the_uuid_of_a_destroyed_agent_does_not_come_back_by_hand(running: World) -> None:
    """attack 40, also for what was committed while the daemon was down."""
    old = running.hive
    commit(running, {"root": None, "carl": "root"})
    hand(running).check_branch()
    (path(running) / "agents" / "ann.json").write_bytes(files.spec_bytes(old.spec("ann")))
    commit(running, {"root": None, "carl": "root", "ann": "root"})
    running.ledger.close()
    state = running.repo.folder.parents[1]
    settings = Settings(paths=Paths(state=state))
    stores = Stores.open(settings)
    assert stores.recovery is not None
    assert "belonged to a destroyed agent" in stores.recovery.reason
    assert "ann" not in stores.hive.specs
    stores.ledger.close()
    running.ledger = Ledger.open(state / "hive.db")  # for the world to close


def test_a_capability_taken_by_hand_does_not_come_back_from_an_archive(running: World) -> None:
    """A right that an ancestor lost meanwhile stays lost, even if the ancestor got it back."""
    bob = running.uuid("bob")
    running.call("operator", "destroy", agent="bob")
    before = running.hive.spec("ann")
    less = before.model_copy(update={"capabilities": ("kill",)})
    for spec in (less, before):
        (path(running) / "agents/ann.json").write_bytes(files.spec_bytes(spec))
        commit(running, {"root": None, "ann": "root", "carl": "root"})
        hand(running).check_branch()
        assert running.hive.spec("ann") == spec
    lost = running.call("operator", "restore", id=bob)["lost"]
    assert isinstance(lost, list)
    assert "kill" not in lost
    assert running.hive.spec("bob").capabilities == ("kill",)


def test_an_agent_destroyed_by_hand_is_known_to_have_been_below_its_ancestors(
    running: World,
) -> None:
    """So that whoever it comes back under, they lose it."""
    bob = running.uuid("bob")
    commit(running, {"root": None, "ann": "root", "carl": "root"})
    hand(running).check_branch()
    archive = running.ledger.archives.get(bob)
    assert archive is not None
    assert archive.above == (running.uuid("root"), running.uuid("ann"))


def test_a_damaged_branch_is_mended_from_the_ledger_and_recorded(running: World) -> None:
    ref = running.repo.folder / "refs/heads/main"
    ref.write_bytes(b"")
    hands = hand(running)
    hands.check_branch()
    assert running.repo.is_at(running.hive.commit)
    assert hands.look.faults == []
    assert [event["operation"] for event in running.events()][-1] == "hand"


def test_a_damaged_object_is_an_alarm_and_what_is_in_force_stays(running: World) -> None:
    before = running.hive
    blob = git(path(running), "rev-parse", "HEAD:topology.json")
    file = Path(running.repo.folder, "objects", blob[:2], blob[2:])
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:20])
    hands = hand(running)
    hands.check_branch()
    assert [alarm for alarm in hands.look.alarms() if blob in alarm]
    assert running.hive == before
    running.call("root", "send", to="ann", body="still here")
    running.call("root", "spawn", name="dora")


def test_a_daemon_that_cannot_read_its_head_gives_no_authority(tmp_path: Path) -> None:
    settings = Settings(paths=Paths(state=tmp_path))
    stores = Stores.open(settings)
    with stores.ledger.transaction():
        stores.ledger.head = "1" * 40
    stores.ledger.close()
    stores = Stores.open(settings)
    assert stores.damage.startswith("the meta repository is damaged")
    assert stores.hive.specs == {}
    assert isinstance(stores.ledger, Ledger)
    stores.ledger.close()


def test_nothing_is_written_on_top_of_a_head_that_cannot_be_read(running: World) -> None:
    """Else the next commit would be a tree without all who stood in the damaged one."""
    blob = git(path(running), "rev-parse", "HEAD:topology.json")
    Path(running.repo.folder, "objects", blob[:2], blob[2:]).unlink()
    running.ledger.close()
    state = running.repo.folder.parents[1]
    stores = Stores.open(Settings(paths=Paths(state=state)))
    assert blob in stores.damage
    with pytest.raises(Internal, match=r"^cannot change the tree: the meta repository is damaged"):
        stores.repo.write(stores.hive, stores.hive, "a new agent", {})
    served = stores.served_operations(load())
    refused = {
        name for name, operation in served.items() if operation.handler != load()[name].handler
    }
    assert (
        refused
        == {name for name, operation in served.items() if operation.mutates}
        >= {"gc", "restore"}
    )
    stores.ledger.close()
    running.ledger = Ledger.open(state / "hive.db")  # for the world to close


def test_a_glance_finds_a_moved_branch_without_notice(running: World) -> None:
    hands = hand(running)
    hands.check_branch()
    hands.check_quickly()
    assert running.broker.hive.commit == running.repo.head()
    oid = commit(running, {"root": None})
    hands.check_quickly()
    assert running.broker.hive.commit == oid


def test_an_unchanged_work_tree_is_read_once_at_a_look(
    running: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a file for each agent, and is looked at every few seconds."""
    looks: list[str] = []
    look = WorkTreeStatus.changed_files

    def count(self: WorkTreeStatus, commit: str) -> list[str]:
        looks.append(commit)
        return look(self, commit)

    monkeypatch.setattr(WorkTreeStatus, "changed_files", count)
    manual = hand(running)
    manual.check_branch()
    assert looks == [running.hive.commit]
    (path(running) / "topology.json").write_text("{}")
    (path(running) / "notes.txt").write_text("mine")
    manual.check_branch()
    assert manual.look.changed_paths == ["notes.txt"]
    assert json.loads((path(running) / "topology.json").read_text())
