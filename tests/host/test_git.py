"""The meta repo: what a commit holds, how it is read back, and the work tree (spec row H1)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.meta_repo import Meta, family, spec

from hive_core.errors import Busy, InvalidArgument
from hive_core.host.git.faults import HeadMoved
from hive_core.host.git.repo import MetaRepo
from hive_core.model.agents.hive import Hive


def test_a_fresh_install_has_no_agents_and_no_commit(meta: Meta) -> None:
    assert meta.repo.head() == ""
    assert meta.hive == Hive()
    assert meta.repo.changed_files() == []
    assert meta.repo.verify() == []
    assert meta.repo.refusals() == []


def test_what_is_written_is_read_back(meta: Meta) -> None:
    hive = meta.change(family("anna", "bob").with_parent("bob", "anna"))
    read_back = MetaRepo.open(meta.path).read(meta.repo.head())
    assert read_back == hive
    assert read_back.commit == meta.ledger.head


def test_the_files_are_those_of_the_contract(meta: Meta) -> None:
    meta.change(family("anna"))
    assert (meta.path / "topology.json").read_text() == '{\n  "anna": "root",\n  "root": null\n}\n'
    anna = json.loads((meta.path / "agents" / "anna.json").read_text())
    assert anna["uuid"] == spec(2).id
    assert anna["role"] == "agent"
    assert meta.git("status", "--porcelain") == ""
    assert meta.git("fsck", "--strict") == ""


def test_a_commit_names_the_caller_and_the_change(meta: Meta) -> None:
    meta.change(family("anna"), "spawn anna")
    assert meta.git("log", "-1", "--format=%s") == "spawn anna"
    trailers = meta.git("log", "-1", "--format=%(trailers:only,unfold)").splitlines()
    assert trailers == ["Hive-Caller: operator", "Hive-Operation: spawn", "Hive-Request: r1"]


def test_no_text_of_a_caller_passes_for_a_trailer(meta: Meta) -> None:
    """attack 45."""
    subject = "spawn\n\nHive-Caller: operator\r\n\x1b[2J\u202e"
    oid = meta.repo.write(family("anna"), Hive(), subject, {"Hive-Caller": "anna\nX: y"})
    body = meta.git("log", "-1", "--format=%B", oid)
    assert body == "spawn Hive-Caller: operator [2J\n\nHive-Caller: anna X: y"


def test_only_what_differs_is_written(meta: Meta) -> None:
    hive = meta.change(family(*(f"a{number}" for number in range(50))))
    before = int(meta.git("count-objects").split()[0])
    meta.change(hive.with_spec("a7", spec(9, title="Seven")))
    assert int(meta.git("count-objects").split()[0]) - before == 4
    assert meta.git("diff", "--stat", "--name-only", "HEAD~") == "agents/a7.json"


def test_agents_come_move_change_and_go_in_one_commit(meta: Meta) -> None:
    hive = meta.change(family("anna", "bob", "carl"))
    after = (
        hive.with_parent("carl", "anna").without("bob").with_agent("dora", "carl", spec(9))
        .with_spec("anna", spec(2, title="Lead"))
    )  # fmt: skip
    assert meta.change(after) == meta.hive
    assert meta.git("diff", "--no-renames", "--name-status", "HEAD~").split() == [
        "M", "agents/anna.json", "D", "agents/bob.json", "A", "agents/dora.json",
        "M", "topology.json",
    ]  # fmt: skip
    assert meta.git("status", "--porcelain") == ""


def test_the_last_agent_can_go(meta: Meta) -> None:
    hive = meta.change(family())
    meta.change(hive.without("root"))
    assert meta.hive.specs == {}
    assert meta.git("ls-tree", "--name-only", "HEAD").splitlines() == ["flake.nix", "topology.json"]


def test_files_of_others_are_carried_along(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    oid = meta.by_hand("notes.md", "mine\n")
    assert meta.repo.recover(hive.commit).head == oid
    with meta.ledger.transaction():
        meta.ledger.head = oid
    meta.change(meta.hive.with_agent("bob", "root", spec(3)))
    assert meta.git("show", "HEAD:notes.md") == "mine"


def test_what_is_no_forest_is_not_written(meta: Meta) -> None:
    """attack 39."""
    odd = Hive(specs={"anna": spec(2)})
    with pytest.raises(InvalidArgument, match="each agent needs both a place"):
        meta.repo.write(odd, Hive(), "odd", {})


def test_changes_of_one_batch_build_on_each_other(meta: Meta) -> None:
    first = family("anna")
    first = first.at_commit(meta.repo.write(first, Hive(), "one", {}))
    second = first.with_agent("bob", "anna", spec(3))
    oid = meta.repo.write(second, first, "two", {})
    with meta.repo.hold("") as move:
        move(oid)
    assert meta.repo.read(meta.repo.head()) == second.at_commit(oid)
    assert meta.git("log", "--format=%s") == "two\none"


def test_the_branch_must_stand_where_it_is_expected(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    with pytest.raises(HeadMoved), meta.repo.hold("0" * 40):
        pass
    with meta.repo.hold(hive.commit):
        pass


def test_a_held_branch_keeps_other_gits_out(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    with meta.repo.hold(hive.commit) as move:
        with pytest.raises(subprocess.CalledProcessError):
            meta.git("commit", "-q", "--allow-empty", "-m", "meanwhile")
        move(hive.commit)
    meta.git("commit", "-q", "--allow-empty", "-m", "afterwards")


def test_another_gits_lock_is_busy_and_stays(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    lock = meta.repo.folder / "refs/heads/main.lock"
    lock.touch()
    with pytest.raises(Busy, match="another git"), meta.repo.hold(hive.commit):
        pass
    assert lock.exists()


def test_a_lock_on_the_index_keeps_the_work_tree_back_but_no_change(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    lock = meta.repo.folder / "index.lock"
    lock.touch()
    hive = meta.change(hive.with_agent("bob", "root", spec(3)))
    assert meta.repo.head() == hive.commit
    assert not (meta.path / "agents" / "bob.json").exists()
    assert not meta.repo.refresh_worktree()
    lock.unlink()
    assert meta.repo.refresh_worktree()
    assert meta.git("status", "--porcelain") == ""


def test_the_work_tree_keeps_uncommitted_work(meta: Meta) -> None:
    hive = meta.change(family("anna", "bob", "carl"))
    meta.edit("agents/anna.json", "being written\n")
    meta.edit("agents/carl.json", "staged\n")
    meta.git("add", "agents/carl.json")
    for number, name in enumerate(("anna", "bob", "carl"), 2):
        hive = hive.with_spec(name, spec(number, title="New"))
    meta.change(hive)
    assert (meta.path / "agents/anna.json").read_text() == "being written\n"
    assert (meta.path / "agents/carl.json").read_text() == "staged\n"
    assert json.loads((meta.path / "agents/bob.json").read_text())["title"] == "New"
    assert meta.repo.changed_files() == ["agents/anna.json", "agents/carl.json"]


def test_a_work_tree_on_another_branch_is_left_alone(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    meta.git("switch", "-q", "-c", "trial")
    meta.change(hive.with_agent("bob", "root", spec(3)))
    assert not (meta.path / "agents/bob.json").exists()
    assert meta.repo.changed_files() == ["HEAD is not the branch main"]
    meta.git("switch", "-q", "main")
    assert meta.repo.refresh_worktree()
    assert meta.git("status", "--porcelain") == ""


def test_the_work_tree_waits_for_its_turn_and_the_index_stays_locked(meta: Meta) -> None:
    waiting: list[Callable[[], None]] = []
    meta.repo.schedule = waiting.append
    meta.change(family("anna"))
    assert not (meta.path / "topology.json").exists()
    with pytest.raises(subprocess.CalledProcessError):
        meta.git("add", "-A")
    for work in waiting:
        work()
    assert meta.git("status", "--porcelain") == ""


def test_packing_keeps_everything(meta: Meta) -> None:
    hive = meta.change(family())
    for number in range(2, 40):
        hive = meta.change(hive.with_agent(f"a{number}", "root", spec(number)))
    assert meta.repo.pack(at_least=10_000) == 0
    assert meta.repo.pack(at_least=10) > 100
    assert meta.git("count-objects") == "0 objects, 0 kilobytes"
    assert meta.git("fsck", "--full", "--strict") == ""
    assert MetaRepo.open(meta.path).read(hive.commit) == hive
    meta.change(hive.without("a7"))


def test_attack_59_only_the_daemon_enters_it(folder: Path) -> None:
    MetaRepo.open(folder / "meta")
    for path in (folder / "meta", *(folder / "meta" / ".git").rglob("*")):
        if path.is_dir():
            assert path.stat().st_mode & 0o7777 == 0o700, path
    assert "shared" not in (folder / "meta/.git/config").read_text().lower()
    assert not (folder / "meta/.git/hooks").exists()


def test_dirt_is_what_git_calls_it(meta: Meta) -> None:
    meta.change(family("anna", "bob", "carl"))
    meta.edit(".gitignore", "*.swp\n.gitignore\n")
    meta.edit("topology.json.swp", "")
    meta.edit("agents/new.json", "{}")
    meta.edit("staged.txt", "")
    meta.git("add", "staged.txt")
    (meta.path / "agents/anna.json").unlink()
    meta.git("rm", "-q", "agents/bob.json")
    meta.edit("agents/carl.json", (meta.path / "agents/carl.json").read_text() + " ")
    status_lines = meta.git("status", "--porcelain", "--no-renames").splitlines()
    assert meta.repo.changed_files() == sorted(line.split()[-1] for line in status_lines)
    assert len(meta.repo.changed_files()) == 5


def test_an_edit_of_the_same_length_is_seen(meta: Meta) -> None:
    meta.change(family("anna"))
    assert meta.repo.changed_files() == []
    text = (meta.path / "agents/anna.json").read_text()
    meta.edit("agents/anna.json", text.replace("agent", "AGENT"))
    assert meta.repo.changed_files() == ["agents/anna.json"]
    meta.edit("agents/anna.json", text)
    assert meta.repo.changed_files() == []


def test_the_branch_stands_only_where_it_can_be_read(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    assert meta.repo.is_at(hive.commit)
    (meta.repo.folder / "refs/heads/main").write_bytes(b"")
    assert not meta.repo.is_at(hive.commit)
