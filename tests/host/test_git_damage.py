"""Damage is found before use, named, and widens nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from fixtures.meta_repo import Meta, family, git, spec

from hive_core.errors import InvalidArgument
from hive_core.host.git.faults import DamagedRepo
from hive_core.host.git.locks import is_stale
from hive_core.host.git.recovery import RecoveryKind
from hive_core.host.git.repo import MetaRepo
from hive_core.host.storage.stores import Stores
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import Paths, Settings

PARTS = ["HEAD", "HEAD^{tree}", "HEAD:agents", "HEAD:topology.json", "HEAD:agents/anna.json"]


def spoil(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "empty":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "flipped":
        path.write_bytes(data[:-3] + bytes([data[-3] ^ 4]) + data[-2:])
    else:
        path.unlink()


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("how", ["empty", "cut", "flipped", "missing"])
def test_a_damaged_object_of_the_head_is_found_before_use(meta: Meta, part: str, how: str) -> None:
    hive = meta.change(family("anna"))
    spoil(meta.object(meta.git("rev-parse", part)), how)
    fresh = MetaRepo.open(meta.path)
    assert len(fresh.verify()) == 1
    with pytest.raises(DamagedRepo) as error:
        fresh.read(hive.commit)
    assert error.value.damage.why
    with pytest.raises(DamagedRepo):
        fresh.recover(hive.commit)
    assert meta.repo.head() == hive.commit


def test_what_was_read_before_the_damage_stays_in_force_and_can_be_changed(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    spoil(meta.object(meta.git("rev-parse", "HEAD:agents/anna.json")), "empty")
    assert meta.repo.verify()
    meta.change(hive.with_agent("bob", "root", spec(3)))
    assert meta.hive.topology.parents == {"root": None, "anna": "root", "bob": "root"}


def test_a_torn_copy_of_what_is_written_again_is_replaced(meta: Meta) -> None:
    """libgit2 does not write an object that it believes to have."""
    hive = meta.change(family("anna"))
    older = hive.with_spec("anna", spec(2, title="Old"))
    older = meta.change(older)
    spoil(meta.object(meta.git("rev-parse", "HEAD~:agents/anna.json")), "cut")
    fresh = MetaRepo.open(meta.path)
    oid = fresh.write(older.with_spec("anna", spec(2)), older, "back", {})
    assert MetaRepo.open(meta.path).read(oid).specs == hive.specs


@pytest.mark.parametrize("data", [b"", b"\0" * 41, b"nonsense\n", b"0" * 40 + b"\n"])
def test_a_damaged_ref_is_named_and_the_ledger_brings_it_back(meta: Meta, data: bytes) -> None:
    hive = meta.change(family("anna"))
    (meta.repo.folder / "refs/heads/main").write_bytes(data)
    assert any(
        "refs/heads/main" in damage.text or "000" in damage.text for damage in meta.repo.verify()
    )
    recovery = meta.repo.recover(hive.commit)
    assert recovery.kind is RecoveryKind.RESTORED
    assert meta.repo.head() == hive.commit
    assert meta.repo.verify() == []


def test_a_damaged_ref_without_a_ledger_head_is_only_reported(meta: Meta) -> None:
    (meta.repo.folder / "refs/heads/main").write_bytes(b"")
    with pytest.raises(DamagedRepo):
        meta.repo.recover("")


def test_a_commit_by_hand_that_lacks_an_object_is_refused(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    meta.by_hand("agents/anna.json", "{}")
    spoil(meta.object(meta.git("rev-parse", "HEAD:agents/anna.json")), "missing")
    recovery = MetaRepo.open(meta.path).recover(hive.commit)
    assert recovery.kind is RecoveryKind.REFUSED
    assert "damaged" in recovery.reason
    assert meta.repo.head() == hive.commit


def test_the_nearest_readable_ancestor_is_there_to_be_shown(meta: Meta) -> None:
    first = meta.change(family("anna"))
    second = meta.change(first.with_agent("bob", "root", spec(3)))
    spoil(meta.object(meta.git("rev-parse", "HEAD:topology.json")), "cut")
    fresh = MetaRepo.open(meta.path)
    assert fresh.last_good(second.commit) == first
    assert fresh.last_good(first.commit) is None


def test_an_odd_thing_in_place_of_an_object_is_refused(meta: Meta) -> None:
    meta.change(family("anna"))
    blob = meta.git("rev-parse", "HEAD:topology.json")
    with pytest.raises(DamagedRepo):
        meta.repo.read(blob)
    with pytest.raises(DamagedRepo):
        meta.repo.read("HEAD")
    with pytest.raises(InvalidArgument):
        meta.repo.write(Hive(specs={"a": spec(1)}), Hive(), "", {})


def test_a_directory_that_git_cannot_open_is_damage(folder: Path) -> None:
    (folder / "meta/.git").mkdir(parents=True)
    repo = MetaRepo.open(folder / "meta")
    assert [damage.what for damage in repo.verify()] == ["HEAD", "repository"]
    with pytest.raises(DamagedRepo, match="repository"):
        repo.recover("")


def test_a_lock_of_a_dead_daemon_is_taken_over(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    for name in ("refs/heads/main.lock", "index.lock"):
        (meta.repo.folder / name).write_text("hived 4194304 1 no-such-boot\n")
    assert meta.repo.verify() == []
    meta.change(hive.with_agent("bob", "root", spec(3)))
    assert meta.git("status", "--porcelain") == ""


def test_a_lock_from_before_a_reboot_is_dead_even_if_the_number_came_back(meta: Meta) -> None:
    lock = meta.repo.folder / "index.lock"
    lock.write_text(f"hived {os.getpid()} 1 {'0' * 32}\n")
    assert is_stale(lock, meta.repo.folder)


def test_a_lock_that_is_held_here_is_alive(meta: Meta) -> None:
    with meta.repo.hold(""):
        assert not is_stale(meta.repo.folder / "refs/heads/main.lock", meta.repo.folder)


@pytest.mark.parametrize("text", ["", "0" * 40 + "\n", "hived\n", "hived x y z\n", "git 1 1 1\n"])
def test_a_lock_of_another_process_is_never_removed(meta: Meta, text: str) -> None:
    lock = meta.repo.folder / "refs/heads/main.lock"
    lock.write_text(text)
    assert not is_stale(lock, meta.repo.folder)


def test_a_lock_without_a_holder_is_reported(meta: Meta) -> None:
    lock = meta.repo.folder / "index.lock"
    lock.touch()
    assert meta.repo.verify() == []
    long_ago = time.time() - 90
    os.utime(lock, (long_ago, long_ago))
    (damage,) = meta.repo.verify()
    assert (damage.what, damage.where) == ("index.lock", str(lock))


def test_a_damaged_index_is_dirt_and_no_obstacle(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    (meta.repo.folder / "index").write_bytes(b"DIRC nonsense")
    assert meta.repo.changed_files() != []
    hive = meta.change(hive.with_agent("bob", "root", spec(3)))
    assert meta.repo.head() == hive.commit
    assert meta.git("status", "--porcelain") == ""


def test_a_lock_from_before_the_host_last_started_is_nobodys(meta: Meta) -> None:
    """A power cut ends people's git as well."""
    hive = meta.change(family("anna"))
    for name in ("refs/heads/main.lock", "index.lock"):
        (meta.repo.folder / name).touch()
        os.utime(meta.repo.folder / name, (0, 0))
    meta.change(hive.with_agent("bob", "root", spec(3)))
    assert meta.git("status", "--porcelain") == ""


@pytest.mark.parametrize("how", ["empty", "cut", "missing"])
def test_what_a_damaged_repository_lacks_comes_from_packs_of_any_clone(
    folder: Path, how: str
) -> None:
    """No other git enters the repository for that."""
    meta = Meta(folder / "state")
    hive = meta.change(family("anna"))
    backup, restore = folder / "backup", folder / "restore"
    restore.mkdir()
    git(folder, "clone", "-q", "--mirror", "--no-hardlinks", str(meta.path), str(backup))
    git(backup, "pack-objects", "-q", "--all", str(restore / "pack"))
    lost = [meta.git("rev-parse", part) for part in PARTS[1:]]
    for oid in lost:
        spoil(meta.object(oid), how)
    meta.close()
    settings = Settings(paths=Paths(state=folder / "state"))
    damaged = Stores.open(settings, folder / "nothing")
    assert damaged.damage
    damaged.ledger.close()
    mended = Stores.open(settings, restore)
    assert (mended.damage, mended.hive.specs) == ("", hive.specs)
    assert mended.repo.verify() == []
    mended.ledger.close()
