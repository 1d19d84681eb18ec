"""Approval by plain git: a real push of a really signed tag, to the real broker and repository."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fixtures.meta_repo import git
from fixtures.proposals import Author
from fixtures.world import World, world

from hive_core.host.git.applied_repositories import AppliedRepo
from hive_core.host.git.signatures import Signatures
from hive_core.host.git.signed_approvals import SignedApprovals
from hive_core.ledger.approvals.storage import ApprovalRequest
from hive_core.model.config.approval import Approval, ApprovalKind, ApprovalState, Effect
from hive_core.model.wire.record import OPERATOR


@dataclass
class OperatorDesk:
    """An operator with a clone and a key, and what waits for a decision."""

    world: World
    repo: AppliedRepo
    author: Author
    signed: SignedApprovals
    approval: str

    def tag(self, *words: str, name: str = "", at: str = "HEAD") -> None:
        git(self.author.folder, "tag", "-f", *words, name or f"approve/{self.approval}", at)

    def push(self, name: str = "") -> None:
        ref = f"refs/tags/{name or f'approve/{self.approval}'}:refs/tags/approve/{self.approval}"
        git(self.author.folder, "push", "--quiet", str(self.repo.path), ref)

    def glance(self) -> Approval:
        asyncio.run(self.signed.check_tags())
        approval = self.world.ledger.approvals.get(self.approval)
        assert approval is not None
        return approval

    def reasons(self) -> list[str]:
        events = self.world.ledger.events.page(0, 1000)
        return [event.reason for event in events if event.rule == "signed tag"]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[OperatorDesk]:
    with world(None, "root/ann") as opened:
        uuid, author = opened.uuid("ann"), Author(tmp_path / "clone", {"agent.toml": "# new\n"})
        repo = AppliedRepo(tmp_path / f"{uuid}.git")
        repo.create("host")
        base = opened.hive.spec("ann").config or ""
        proposal = author.propose(base=base)
        with opened.ledger.transaction():
            request = ApprovalRequest(
                ApprovalKind.CONFIG, uuid, uuid, uuid, "please", proposal.binding
            )
            approval = opened.ledger.approvals.create(request, opened.clock.now(), 1e12)
            opened.ledger.approvals.record_review(
                approval.id, proposal.binding, Effect.LIVE, {}, {}
            )
            opened.ledger.approvals.move(approval.id, "check", opened.clock.now())
        repo.promote(approval.id, proposal.binding, proposal.parts)
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True
        )
        signers = tmp_path / "signers"
        signers.write_text(f"ann@example.org {(tmp_path / 'key.pub').read_text()}")
        git(author.folder, "config", "gpg.format", "ssh")
        git(author.folder, "config", "user.signingkey", str(tmp_path / "key"))
        signatures = Signatures(signers, os.geteuid())
        signed = SignedApprovals(opened.broker, lambda _: repo, signatures)
        yield OperatorDesk(opened, repo, author, signed, approval.id)


def test_a_signed_tag_that_is_pushed_approves_exactly_that_commit(desk: OperatorDesk) -> None:
    assert desk.glance().state is ApprovalState.PENDING
    desk.tag("-s", "-m", "yes")
    desk.push()
    approval = desk.glance()
    assert (approval.state, approval.decided_by) == (
        ApprovalState.APPROVED,
        "signed:ann@example.org",
    )
    assert desk.reasons() == []
    assert desk.glance().state is ApprovalState.APPROVED


@pytest.mark.parametrize(
    ("words", "reason"),
    [((), "not a signed tag"), (("-a", "-m", "yes"), "not signed")],
    ids=["a plain ref", "an unsigned tag"],
)
def test_a_tag_without_signature_is_refused_and_recorded_once(
    desk: OperatorDesk, words: tuple[str, ...], reason: str
) -> None:
    desk.tag(*words)
    desk.push()
    assert desk.glance().state is desk.glance().state is ApprovalState.PENDING
    (recorded,) = desk.reasons()
    assert reason in recorded
    assert any(name.startswith("refs/hive/refused/") for name in desk.repo.refs())
    desk.tag("-s", "-m", "yes")
    desk.push()
    assert desk.glance().state is ApprovalState.APPROVED


def test_a_signature_of_another_person_is_refused_and_recorded(
    desk: OperatorDesk, tmp_path: Path
) -> None:
    key = tmp_path / "eve"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    git(desk.author.folder, "config", "user.signingkey", str(key))
    desk.tag("-s", "-m", "yes")
    desk.push()
    assert desk.glance().state is ApprovalState.PENDING
    assert "signer is not in allowed_signers" in desk.reasons()[0]
    (event,) = (event for event in desk.world.ledger.events.page(0, 1000) if not event.allowed)
    assert (event.operation, event.fields["target_name"]) == ("approve", "ann")


def test_a_tag_for_another_commit_or_approval_approves_nothing(desk: OperatorDesk) -> None:
    """Attack 21: a good signature is used for what it says, and for nothing else."""
    desk.author.commit({"agent.toml": "# newer\n"})
    desk.tag("-s", "-m", "yes")
    desk.push()
    assert desk.glance().state is ApprovalState.PENDING
    desk.tag("-s", "-m", "yes", name="approve/000000000000", at="HEAD~1")
    desk.push("approve/000000000000")
    assert desk.glance().state is ApprovalState.PENDING
    assert [reason.partition(": ")[2] for reason in desk.reasons()] == [
        "it names another commit than the proposed one", "the name inside the tag is another one",
    ]  # fmt: skip


def test_a_signed_tag_for_what_was_denied_meanwhile_changes_nothing(desk: OperatorDesk) -> None:
    desk.tag("-s", "-m", "yes")
    desk.push()
    desk.world.call(OPERATOR, "deny", id=desk.approval, why="not now")
    assert desk.glance().state is ApprovalState.DENIED


def test_what_cannot_be_verified_now_is_told_once_and_tried_again(
    desk: OperatorDesk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine without ssh-keygen: nothing is refused, and the alarm is raised once."""
    desk.tag("-s", "-m", "yes")
    desk.push()
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "/nowhere")
        assert desk.glance().state is desk.glance().state is ApprovalState.PENDING
    assert desk.reasons() == []
    assert [record.message for record in caplog.records if "ssh-keygen" in record.message] == [
        f"Approval {desk.approval}: cannot check for a signed tag: "
        "cannot run ssh-keygen: No such file or directory"
    ]
    assert desk.glance().state is ApprovalState.APPROVED
