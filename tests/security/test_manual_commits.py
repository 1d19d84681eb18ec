"""Attacks 15 to 20, 39, 40 and 57: what a careless operator may commit into the meta repo."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from annotated_types import Le
from fixtures.meta_repo import Meta, family, spec
from fixtures.seeds import empty_ledger, empty_repo, folder_in_ram

from hive_core.host.git import files
from hive_core.host.git.recovery import RecoveryKind
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import HostLimits
from hive_core.model.names import NAME_MAX

FILE, FOLDER, LINK, MODULE = "100644", "40000", "120000", "160000"


@pytest.fixture
def meta() -> Iterator[Meta]:
    with folder_in_ram() as folder:
        empty_ledger().plant(folder)
        empty_repo().plant(folder)
        result = Meta(folder)
        result.change(family("anna", "bob"))
        yield result
        result.close()


def _object(meta: Meta, kind: str, data: bytes) -> str:
    """Any bytes as an object: git itself would refuse many of these."""
    done = subprocess.run(
        ["git", "hash-object", "-w", "--literally", "-t", kind, "--stdin"],
        cwd=meta.path, input=data, capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout.decode().strip()


def _tree(meta: Meta, *entries: tuple[str, bytes, str]) -> str:
    lines = (b"%s %s\0" % (mode.encode(), name) + bytes.fromhex(oid) for mode, name, oid in entries)
    return _object(meta, "tree", b"".join(lines))


def _push(meta: Meta, *more: tuple[str, bytes, str], tree: str = "") -> str:
    """Let the branch stand at a commit whose tree holds more than that of the head."""
    head = meta.git("rev-parse", "main")
    old = [
        (mode.lstrip("0"), name.encode(), oid)
        for mode, _, oid, name in (
            line.replace("\t", " ").split(" ") for line in meta.git("ls-tree", head).splitlines()
        )
    ]
    tree = tree or _tree(meta, *sorted((*old, *more), key=lambda entry: entry[1]))
    oid = meta.git("commit-tree", tree, "-p", head, "-m", "by hand")
    meta.git("update-ref", "refs/heads/main", oid)
    return oid


def _refusal_of(meta: Meta) -> str:
    """The reason why the commit is kept aside; the hive is as it was, and goes on."""
    before = meta.hive
    recover = meta.repo.recover(meta.ledger.head)
    assert recover.kind is RecoveryKind.REFUSED
    assert meta.hive == before
    after = meta.change(meta.hive.with_agent("next", "root", spec(99)))
    assert meta.repo.is_at(after.commit)
    return recover.reason


def _text(uuid: int, **more: object) -> str:
    return files.spec_bytes(spec(uuid, **more)).decode()


def test_attack_18_a_tree_that_expands_to_a_billion_files_is_refused(meta: Meta) -> None:
    level = _object(meta, "blob", b"x")
    mode = FILE
    for _ in range(10):
        level, mode = _tree(meta, *((mode, b"%d" % n, level) for n in range(10))), FOLDER
    _push(meta, (FOLDER, b"zz", level))
    assert "more than" in _refusal_of(meta)


def test_attack_18_a_tree_of_two_hundred_levels_is_refused(meta: Meta) -> None:
    level = _tree(meta, (FILE, b"f", _object(meta, "blob", b"x")))
    for _ in range(200):
        level = _tree(meta, (FOLDER, b"d", level))
    _push(meta, (FOLDER, b"zz", level))
    assert "deeper than" in _refusal_of(meta)


@pytest.mark.parametrize("name", [b".git", b".GIT", b"..", b".", b"a/b", b"\xff\xfe"])
def test_attack_19_no_name_in_a_commit_leads_out_of_the_work_tree(meta: Meta, name: bytes) -> None:
    evil = _object(meta, "blob", b"#!/bin/sh\n")
    folder = _tree(meta, (FILE, b"config", evil))
    config = (meta.path / ".git/config").read_bytes()
    _push(meta, (FOLDER, name, folder))
    assert "holds the name" in _refusal_of(meta)
    assert (meta.path / ".git/config").read_bytes() == config
    assert not (meta.path.parent / "config").exists()


def test_attack_19_a_duplicate_file_is_refused(meta: Meta) -> None:
    """git shows the first one, and whoever reads on sees the last."""
    _push(meta, (FILE, b"topology.json", _object(meta, "blob", b'{"root": null}')))
    assert "twice" in _refusal_of(meta)


@pytest.mark.parametrize("mode", [LINK, MODULE, FOLDER])
@pytest.mark.parametrize("file", ["topology.json", "agents/anna.json"])
def test_attack_19_hive_reads_only_plain_files(meta: Meta, mode: str, file: str) -> None:
    target = _object(meta, "blob", b"/etc/shadow")
    oid = {
        LINK: target,
        MODULE: meta.git("rev-parse", "main"),
        FOLDER: _tree(meta, (FILE, b"f", target)),
    }[mode]
    meta.git("rm", "-q", "--cached", file)
    if mode == FOLDER:
        meta.git("read-tree", f"--prefix={file}/", oid)
    else:
        meta.git("update-index", "--add", "--cacheinfo", f"{mode},{oid},{file}")
    _push(meta, tree=meta.git("write-tree"))
    assert "is not a regular file" in _refusal_of(meta)


def test_attack_19_other_links_and_modules_are_kept_and_never_followed(meta: Meta) -> None:
    link = _object(meta, "blob", b"/etc/passwd")
    _push(meta, (LINK, b"link", link), (MODULE, b"module", meta.git("rev-parse", "main")))
    recover = meta.repo.recover(meta.ledger.head)
    assert recover.kind is RecoveryKind.ADOPT
    assert not (meta.path / "link").exists()
    assert not (meta.path / "module").exists()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"agents/anna.json": _text(3), "agents/bob.json": _text(2)}, "uuid of anna cannot"),
        ({"agents/anna.json": _text(77)}, "uuid of anna cannot"),
        ({"agents/bob.json": _text(2)}, "share a short id"),
        ({"topology.json": '{"root": null, "anna": "bob", "bob": "anna"}'}, "cycle"),
        ({"topology.json": '{"root": null, "anna": "anna", "bob": null}'}, "own parent"),
        ({"topology.json": '{"root": null, "anna": "gone", "bob": null}'}, "unknown"),
        ({"topology.json": '{"root": null, "anna": null}'}, "not in both"),
        ({"topology.json": '{"root": null, "anna": null, "anna": "root"}'}, "duplicate"),
        ({"topology.json": '{"root": null, "daemon": null}'}, "reserved"),
        ({"topology.json": "[" * 5000}, "deeper"),
        ({"topology.json": ""}, "not JSON"),
        ({"agents/anna.json": '{"uuid": "x"}'}, "uuid"),
        ({"agents/anna.json": "{}"}, "anna"),
        ({"agents/anna.json": _text(2).replace("{", '{"root": true,', 1)}, "root"),
        ({"agents/-x.json": _text(9)}, "is not named AGENT.json"),
    ],
)  # fmt: skip
def test_attack_39_a_commit_that_would_widen_rights_is_kept_aside(
    meta: Meta, changes: dict[str, str], why: str
) -> None:
    for file, text in changes.items():
        meta.edit(file, text)
        meta.git("add", "--", file)
    meta.git("commit", "-q", "-m", "forged\n\nHive-Caller: operator\nHive-Operation: move")
    assert why in _refusal_of(meta)


def test_attack_39_hive_trailers_in_a_manual_commit_have_no_effect(meta: Meta) -> None:
    """The record says who made it, not what it says of itself."""
    meta.edit("agents/anna.json", _text(2, title="By hand"))
    meta.git("add", "agents/anna.json")
    meta.git("commit", "-q", "-m", "x\n\nHive-Caller: daemon\nHive-Operation: spawn")
    recover = meta.repo.recover(meta.ledger.head)
    assert recover.kind is RecoveryKind.ADOPT
    assert [commit.author for commit in recover.commits] == ["op@host"]


def test_attack_57_rewritten_history_does_not_restore_an_older_tree(
    meta: Meta,
) -> None:
    old = meta.hive.commit
    meta.change(meta.hive.without("bob"))
    meta.git("reset", "-q", "--hard", old)
    recover = meta.repo.recover(meta.ledger.head)
    assert recover.kind in (RecoveryKind.FORWARDED, RecoveryKind.REFUSED)
    assert "bob" not in meta.hive.specs
    meta.git("update-ref", "refs/heads/main", meta.git("commit-tree", f"{old}^{{tree}}", "-m", "x"))
    assert meta.repo.recover(meta.ledger.head).kind is RecoveryKind.REFUSED
    assert isinstance(meta.hive, Hive)
    assert "bob" not in meta.hive.specs


def test_attack_39_the_largest_allowed_tree_can_be_read_back() -> None:
    """Otherwise one more spawn would leave every agent without rights at the next start."""
    (most,) = [
        bound.le for bound in HostLimits.model_fields["agents"].metadata if isinstance(bound, Le)
    ]
    names = [f"a{number:0{NAME_MAX - 1}}" for number in range(int(str(most)))]
    tree = dict.fromkeys(names[1:], names[0]) | {names[0]: None}
    assert files.read_topology(files.topology_bytes(tree)) == tree
