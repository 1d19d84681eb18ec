"""What a power cut leaves in the work tree: ours is put right, somebody's work stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from host.meta import Meta, family

from hive_core.host.git import Kind, MetaRepo

EDIT = '{"root": null, "anna": null}'


def started(meta: Meta) -> MetaRepo:
    """The daemon, after the cut."""
    repo = MetaRepo.open(meta.path)
    repo.recover(meta.ledger.head)
    repo.mend()
    return repo


def watched(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What is made durable from now on."""
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
    assert started(meta).dirty() == []


def test_an_edit_that_was_not_committed_stays_after_a_cut(meta: Meta) -> None:
    meta.change(family("anna"))
    meta.edit("topology.json", EDIT)
    assert started(meta).dirty() == ["topology.json"]
    assert (meta.path / "topology.json").read_text() == EDIT


@pytest.mark.parametrize("part", ["HEAD^{tree}", "HEAD:topology.json"])
def test_an_edit_whose_commit_the_cut_took_stays_in_the_work_tree(meta: Meta, part: str) -> None:
    hive = meta.change(family("anna"))
    meta.by_hand("topology.json", EDIT)
    meta.object(meta.git("rev-parse", part)).unlink()
    repo = started(meta)
    assert (repo.head(), repo.dirty()) == (hive.commit, ["topology.json"])
    assert (meta.path / "topology.json").read_text() == EDIT
    assert started(meta).dirty() == ["topology.json"]


def test_a_damaged_index_is_made_anew_when_nobody_knows_what_was_shown(meta: Meta) -> None:
    meta.change(family("anna"))
    meta.edit("topology.json", EDIT)
    for name in ("index", "hive-shown"):
        (meta.repo.folder / name).write_bytes(b"")
    assert started(meta).dirty() == ["topology.json"]
    assert meta.git("diff", "--cached", "--name-only") == ""


def test_files_that_are_gone_are_durably_gone_when_the_work_tree_is_settled(
    meta: Meta, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta.change(family("anna", "bob"))
    meta.repo.pack(1)
    meta.change(family("anna"))
    synced = watched(monkeypatch)
    meta.repo.pack(1)
    assert meta.path / "agents" in synced


@pytest.mark.parametrize("text", [EDIT, '{"root": "anna", "anna": "root"}'])
def test_what_is_committed_by_hand_is_durable_in_the_work_tree_before_it_is_judged(
    meta: Meta, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a cut leaves it over the end of what was there before, which is no version."""
    hive = meta.change(family("anna"))
    meta.by_hand("topology.json", text)
    synced = watched(monkeypatch)
    assert meta.repo.recover(hive.commit).kind in (Kind.ADOPT, Kind.REFUSED)
    assert meta.path / "topology.json" in synced
