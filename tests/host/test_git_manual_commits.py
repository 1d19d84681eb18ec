"""Commits by hand: adopted when valid, kept aside when not, and never in the way."""

from __future__ import annotations

import json

import pytest
from fixtures.meta_repo import Meta, family, spec

from hive_core.errors import InvalidArgument, StorageFull
from hive_core.host.git import files, recovery
from hive_core.host.git.faults import HeadMoved
from hive_core.host.git.recovery import Recovery, RecoveryKind
from hive_core.host.git.repo import MetaRepo
from hive_core.model.agents.hive import Hive


def look(meta: Meta) -> Recovery:
    """What the daemon does when the branch moved."""
    recovery = meta.repo.recover(meta.ledger.head)
    if recovery.hive is not None:
        with meta.ledger.transaction():
            meta.ledger.head = recovery.hive.commit
    return recovery


def text(number: int, **more: object) -> str:
    return files.spec_bytes(spec(number, **more)).decode()


def test_a_valid_commit_by_hand_is_adopted(meta: Meta) -> None:
    meta.change(family("anna"))
    meta.by_hand("agents/anna.json", text(2, title="By hand"))
    last = meta.by_hand("agents/root.json", text(1, title="Boss"))
    recovery = look(meta)
    assert (recovery.kind, recovery.head) == (RecoveryKind.ADOPT, last)
    assert [commit.subject for commit in recovery.commits] == [
        "edit agents/anna.json", "edit agents/root.json",
    ]  # fmt: skip
    assert recovery.commits[0].author == "op@host"
    assert meta.hive.spec("anna").title == "By hand"
    assert look(meta).kind is RecoveryKind.SAME
    meta.change(meta.hive.with_agent("bob", "root", spec(3)))
    assert meta.git("status", "--porcelain") == ""


def test_a_commit_that_reached_only_the_ref_is_shown_in_the_work_tree(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    oid = meta.repo.write(hive.with_spec("anna", spec(2, title="Pushed")), hive, "pushed", {})
    meta.git("update-ref", "refs/heads/main", oid)
    assert look(meta).kind is RecoveryKind.ADOPT
    assert meta.git("status", "--porcelain") == ""


def test_an_invalid_commit_is_kept_aside_and_the_branch_returns(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    bad = meta.by_hand("topology.json", '{"root": "anna", "anna": "root"}')
    recovery = look(meta)
    assert (recovery.kind, recovery.head, recovery.hive) == (
        RecoveryKind.REFUSED,
        hive.commit,
        None,
    )
    assert recovery.refused == bad
    assert "cycle" in recovery.reason
    assert meta.repo.refusals() == [(bad, recovery.reason)]
    assert meta.git("rev-parse", f"refs/hive/refused/{bad}") == bad
    assert meta.git("rev-parse", "main") == hive.commit
    assert meta.git("status", "--porcelain") == ""
    assert json.loads((meta.path / "topology.json").read_text())["anna"] == "root"


def test_a_full_disk_does_not_prevent_a_second_look_at_a_refused_commit(meta: Meta) -> None:
    """Whichever write fails first."""
    meta.change(family("anna"))
    bad = meta.by_hand("topology.json", "{}")
    full = meta.repo.folder / "hive-shown.new"
    full.symlink_to("/dev/full")
    with pytest.raises(StorageFull):
        look(meta)
    full.unlink()
    assert look(meta).refused == bad
    assert meta.git("status", "--porcelain") == ""


def test_the_oldest_refused_commits_are_forgotten_once_they_are_in_the_audit_log(
    meta: Meta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "KEPT_MOST", 2)
    meta.change(family("anna"))
    commits = []
    for number in range(4):
        commits.append(meta.by_hand("topology.json", f"nonsense {number}"))
        look(meta)
        if number != 1:
            meta.repo.mark_reported(commits[-1])
        meta.git("reset", "-q", "--hard")
    newest = [commits[3], commits[2], commits[1]]
    assert [oid for oid, _ in meta.repo.refusals()] == newest
    assert sorted(meta.repo.readable_parked_commits()) == sorted(newest)
    assert meta.repo.unreported_refusals() == [(commits[1], dict(meta.repo.refusals())[commits[1]])]


def test_later_changes_and_commits_are_not_blocked_by_a_refused_one(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    meta.by_hand("topology.json", "nonsense")
    with pytest.raises(HeadMoved):
        meta.change(hive.with_agent("bob", "root", spec(3)))
    look(meta)
    meta.change(hive.with_agent("bob", "root", spec(3)))
    good = meta.by_hand("agents/bob.json", text(3, title="Fine"))
    assert look(meta).head == good
    assert len(meta.repo.refusals()) == 1


def test_edits_beyond_a_refused_commit_stay_and_are_shown(meta: Meta) -> None:
    meta.change(family("anna"))
    meta.by_hand("topology.json", "nonsense")
    meta.edit("topology.json", "more nonsense")
    meta.edit("todo.txt", "think")
    look(meta)
    assert (meta.path / "topology.json").read_text() == "more nonsense"
    assert meta.repo.changed_files() == ["todo.txt", "topology.json"]


def test_rewritten_history_is_kept_aside(meta: Meta) -> None:
    meta.change(family("anna"))
    hive = meta.change(meta.hive.with_agent("bob", "root", spec(3)))
    meta.git("commit", "-q", "--amend", "-m", "never happened")
    amended = meta.git("rev-parse", "HEAD")
    recovery = look(meta)
    assert (recovery.kind, meta.repo.head()) == (RecoveryKind.REFUSED, hive.commit)
    assert "rewrites history" in recovery.reason
    assert [oid for oid, _ in meta.repo.refusals()] == [amended]


def test_a_branch_set_back_by_hand_follows_the_ledger_again(meta: Meta) -> None:
    """It cannot be told from a crash before the last step, and the ledger decides."""
    meta.change(family("anna"))
    hive = meta.change(meta.hive.with_agent("bob", "root", spec(3)))
    meta.git("reset", "-q", "--hard", "HEAD~")
    assert look(meta).kind is RecoveryKind.FORWARDED
    assert meta.repo.head() == hive.commit


def test_a_branch_deleted_by_hand_comes_back(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    meta.git("update-ref", "-d", "refs/heads/main")
    assert look(meta).kind is RecoveryKind.RESTORED
    assert meta.repo.head() == hive.commit


def test_a_branch_that_lies_in_packed_refs_is_read_and_moved(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    meta.git("pack-refs", "--all")
    assert meta.repo.head() == hive.commit
    assert look(meta).kind is RecoveryKind.SAME
    meta.change(hive.with_agent("bob", "root", spec(3)))
    assert meta.git("log", "--format=%h").count("\n") == 1


@pytest.mark.parametrize(
    ("files_", "says"),
    [
        ({"agents/anna.json": text(9)}, "the uuid of anna cannot change"),
        (
            {
                "topology.json": '{"root": null, "ann": "root"}',
                "agents/ann.json": text(2),
            },
            "anna cannot be renamed to ann",
        ),
    ],
)
def test_no_commit_by_hand_lets_identities_change_hands(
    meta: Meta, files_: dict[str, str], says: str
) -> None:
    """attack 40: rights and mail belong to the UUID."""
    meta.change(family("anna"))
    if "topology.json" in files_:
        meta.git("rm", "-q", "agents/anna.json")
    for file, data in files_.items():
        meta.edit(file, data)
    meta.git("add", "-A")
    meta.git("commit", "-q", "-m", "by hand")
    assert says in look(meta).reason


def test_the_daemon_may_refuse_what_git_cannot_know(meta: Meta) -> None:
    hive = meta.change(family("anna"))
    meta.by_hand("agents/anna.json", text(2, title="Ghost"))

    def judge(before: Hive, after: Hive) -> None:
        assert before == hive
        raise InvalidArgument(f"{after.spec('anna').title} was destroyed")

    recovery = meta.repo.recover(hive.commit, judge)
    assert (recovery.kind, recovery.reason) == (RecoveryKind.REFUSED, "Ghost was destroyed")


def test_a_repository_from_elsewhere_is_judged_as_a_whole(meta: Meta) -> None:
    hive = family("anna")
    meta.git("update-ref", "refs/heads/main", meta.repo.write(hive, Hive(), "imported", {}))
    assert look(meta).kind is RecoveryKind.ADOPT
    assert meta.hive.specs == hive.specs


def test_a_first_commit_that_is_invalid_leaves_the_branch_empty(meta: Meta) -> None:
    meta.by_hand("topology.json", "nonsense")
    assert look(meta).kind is RecoveryKind.REFUSED
    assert meta.repo.head() == ""
    meta.change(family("anna"))


def test_what_was_committed_by_hand_is_on_disk_before_it_is_adopted(meta: Meta) -> None:
    """git leaves loose objects to luck."""
    meta.change(family("anna"))
    meta.by_hand("agents/anna.json", text(2, title="By hand"))
    meta.git("gc", "-q")
    assert look(meta).kind is RecoveryKind.ADOPT


def test_a_refused_commit_that_is_not_whole_is_in_no_clone(meta: Meta) -> None:
    meta.change(family("anna"))
    bad = meta.by_hand("topology.json", "nonsense")
    tree = meta.git("rev-parse", "HEAD^{tree}")
    assert look(meta).kind is RecoveryKind.REFUSED
    assert meta.repo.readable_parked_commits() == [bad]
    meta.object(tree).unlink()
    assert MetaRepo.open(meta.path).readable_parked_commits() == []
    assert [oid for oid, _ in meta.repo.refusals()] == [bad]
