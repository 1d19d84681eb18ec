"""What a power cut leaves in the work tree is put right when the daemon starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fixtures.meta_repo import Meta, family

from hive_core.host.git.recovery import RecoveryKind
from hive_core.host.git.repo import MetaRepo

EDIT = '{"root": null, "anna": null}'


def restart(meta: Meta) -> MetaRepo:
    """The daemon, after the cut."""
    repo = MetaRepo.open(meta.path)
    repo.recover(meta.ledger.head)
    repo.repair_worktree()
    return repo


def record_syncs(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Record every sync from now on."""
    synced, real = list[Path](), os.fsync

    def fsync(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return synced


@pytest.mark.parametrize("left", ["", "\0" * 20, "{\n", "{\n\0\0\0"])
def test_a_file_of_ours_that_the_cut_tore_is_put_right(meta: Meta, left: str) -> None:
    meta.change(family("anna"))
    meta.edit("topology.json", left)
    assert restart(meta).changed_files() == []


def test_an_edit_that_was_not_committed_is_undone_at_a_start_as_at_each_look(
    meta: Meta, caplog: pytest.LogCaptureFixture
) -> None:
    meta.change(family("anna"))
    before = (meta.path / "topology.json").read_text()
    meta.edit("topology.json", EDIT)
    assert restart(meta).changed_files() == []
    assert (meta.path / "topology.json").read_text() == before
    assert "Restored 1 files of the meta repository at start: topology.json" in caplog.text


@pytest.mark.parametrize("part", ["HEAD^{tree}", "HEAD:topology.json"])
def test_a_commit_by_hand_that_the_cut_took_leaves_the_work_tree_at_the_commit_in_force(
    meta: Meta, part: str
) -> None:
    hive = meta.change(family("anna"))
    meta.by_hand("topology.json", EDIT)
    meta.object(meta.git("rev-parse", part)).unlink()
    repo = restart(meta)
    assert (repo.head(), repo.changed_files()) == (hive.commit, [])
    assert (meta.path / "topology.json").read_text() != EDIT


def test_a_text_by_hand_over_the_end_of_the_old_one_is_put_right(meta: Meta) -> None:
    """What an editor writes in place, and a cut leaves half done: the beginning of no version."""
    meta.change(family("anna"))
    before = (meta.path / "agents/anna.json").read_text()
    meta.by_hand("agents/anna.json", before.replace("{", "{ "))
    recovery = meta.repo.recover(meta.ledger.head)
    assert recovery.kind is RecoveryKind.ADOPT
    with meta.ledger.transaction():
        meta.ledger.head = recovery.head
    meta.edit("agents/anna.json", "{ " + before[:20] + before[30:])
    assert restart(meta).changed_files() == []


@pytest.mark.parametrize("shown", [True, False])
def test_a_damaged_index_is_made_anew_at_a_start(meta: Meta, *, shown: bool) -> None:
    """Also when the cut took the note of the commit that was shown."""
    meta.change(family("anna"))
    (meta.repo.folder / "index").write_bytes(b"")
    if not shown:
        (meta.repo.folder / "hive-shown").write_bytes(b"")
    assert restart(meta).changed_files() == []
    assert meta.git("status", "--porcelain") == ""


def test_a_damaged_index_is_made_anew_at_a_look(meta: Meta) -> None:
    meta.change(family("anna"))
    meta.edit("topology.json", EDIT)
    (meta.repo.folder / "index").write_bytes(b"nonsense")
    assert meta.repo.restore_files() == ["topology.json"]
    assert meta.repo.changed_files() == []
    assert meta.git("status", "--porcelain") == ""


@pytest.mark.parametrize("length", [0, 100, None])
@pytest.mark.parametrize("zeros", [0, 7])
def test_a_deleted_file_that_a_cut_brought_back_is_deleted_again(
    meta: Meta, length: int | None, zeros: int
) -> None:
    meta.change(family("anna", "bob"))
    file = meta.path / "agents/bob.json"
    text = file.read_text()
    meta.change(family("anna"))
    file.write_text(text[:length] + "\0" * zeros)
    assert restart(meta).changed_files() == []
    assert not file.exists()


@pytest.mark.parametrize("name", ["agents/bob.json", "agents/dora.json"])
def test_a_file_with_a_text_of_no_commit_is_an_operators_and_stays(meta: Meta, name: str) -> None:
    meta.change(family("anna", "bob"))
    meta.change(family("anna"))
    meta.edit(name, '{"title": "mine"}')
    assert restart(meta).changed_files() == [name]


def test_a_file_of_a_refused_commit_that_a_cut_brought_back_is_deleted_again(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    meta.by_hand("agents/kid.json", "nonsense")
    assert meta.repo.recover(hive.commit).kind is RecoveryKind.REFUSED
    meta.edit("agents/kid.json", "nons")
    assert restart(meta).changed_files() == []


def test_deletions_are_durable_when_the_work_tree_is_settled(
    meta: Meta, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a file that was made after it was settled before: no commit that is compared has it.

    A cut brought it back, and no later start took it for anything but a file of an operator.
    """
    hive = meta.change(family("anna"))
    meta.repo.pack(1)
    meta.change(family("anna", "bob"))
    meta.change(hive)
    synced = record_syncs(monkeypatch)
    meta.repo.pack(1)
    assert {meta.path, meta.path / "agents"} <= set(synced)


def test_an_object_that_a_cut_left_empty_does_not_stop_the_same_commit_by_hand(meta: Meta) -> None:
    """git does not write an object anew that it believes to have."""
    meta.change(family("anna"))
    text = (meta.path / "agents/anna.json").read_text().replace("{", "{ ")
    meta.edit("agents/anna.json", text)
    meta.object(meta.git("hash-object", "-w", "agents/anna.json")).write_bytes(b"")
    repo = restart(meta)
    meta.by_hand("agents/anna.json", text)
    assert repo.recover(meta.ledger.head).kind is RecoveryKind.ADOPT


def test_a_damaged_object_that_no_commit_needs_does_not_stop_packing(meta: Meta) -> None:
    meta.change(family("anna"))
    meta.edit("notes", "notes")
    damaged = meta.object(meta.git("hash-object", "-w", "notes"))
    damaged.write_bytes(damaged.read_bytes()[:5])
    assert meta.repo.pack(1) > 0
    assert damaged.exists()
    assert meta.repo.verify() == []
