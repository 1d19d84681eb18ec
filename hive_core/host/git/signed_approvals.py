"""Approval by plain git: an operator pushes a signed tag `approve/ID` on the proposed commit.

The tag means the same as `hive approval approve ID --commit ...`, and takes the same path. A tag
without a signature of an allowed signer, or on another commit, is recorded and moved to
`refs/hive/refused/OID`, so that a better one can be pushed.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from hive_core.broker.audit import REFUSED
from hive_core.broker.call import Call, Record
from hive_core.broker.core import Broker
from hive_core.broker.outcome import EVENTS
from hive_core.errors import (
    Busy,
    Conflict,
    HiveError,
    Internal,
    InvalidArgument,
    NotAllowed,
    NotFound,
    StorageFull,
    TimedOut,
)
from hive_core.host.git.applied_repositories import AppliedRepo
from hive_core.host.git.file_writer import drop_ref, guard_repository, put_ref
from hive_core.host.git.signatures import Signatures, SignedTag, read_tag
from hive_core.ledger.audit.events import AuditEntry
from hive_core.model.config.approval import Approval, ApprovalState
from hive_core.model.wire.record import OPERATOR
from hive_core.operations.approvals.operations import Decided, use_approval

log = logging.getLogger(__name__)
LOOK_EVERY: Final = 1.0
TAGS: Final = "refs/tags/approve"
ASIDE: Final = "refs/hive/refused"
RULE: Final = "signed tag"
SIGNED: Final = "signed:"  # prefix of `decided_by` for an approval by a tag
_OID: Final = re.compile(r"[0-9a-f]{40}")
_AGAIN: Final = (Busy, TimedOut, StorageFull, Internal)  # errors for which the tag is not to blame


class _Refused(NotAllowed):
    """A tag that does not approve: it was recorded and set aside."""


@dataclass(frozen=True, slots=True)
class SignedApprovals:
    """Judges the tags of agents with undecided approvals, of which there are few."""

    broker: Broker
    repo: Callable[[str], AppliedRepo]
    signatures: Signatures
    troubles: dict[str, str] = field(default_factory=dict)
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self) -> None:
        while True:
            await self.check_tags()
            await asyncio.sleep(LOOK_EVERY)

    async def check_tags(self) -> None:
        """Look at each open approval once; an error of one does not stop the others."""
        undecided = self.broker.services.ledger.approvals.open()
        for gone in self.troubles.keys() - {approval.id for approval in undecided}:
            del self.troubles[gone]
        for approval in undecided:
            if approval.state is ApprovalState.PENDING and approval.agent:
                try:
                    await self._look(approval)
                    self.troubles.pop(approval.id, None)
                except (HiveError, OSError) as error:
                    self._log_once(approval.id, f"cannot check for a signed tag: {error}")

    def _log_once(self, approval: str, text: str) -> None:
        """Log a reason once, although the check is repeated each second."""
        if self.troubles.get(approval) != text:
            log.warning("Approval %s: %s", approval, text)
        self.troubles[approval] = text

    def approval(self, uuid: str, id_: str) -> Approval:
        """The approval that a tag for this agent may decide; otherwise NotFound or Conflict."""
        approval = self.broker.services.ledger.approvals.get(id_)
        if approval is None or approval.agent != uuid:
            raise NotFound(f"no approval {id_[:64]} for this agent")
        if approval.state is not ApprovalState.PENDING:
            raise Conflict(f"cannot approve {approval.id}: it is {approval.state}")
        return approval

    async def judge(self, id_: str) -> None:
        """Approve by the tag that was just pushed; raise the reason if the tag does not approve."""
        async with self._alone:
            approval = self.broker.services.ledger.approvals.get(id_)
            if approval is not None and approval.state is ApprovalState.PENDING:
                await self._judge(approval)
            elif approval is None or not approval.decided_by.startswith(SIGNED):
                # Another caller decided it meanwhile.
                state = approval.state if approval else "gone"
                raise Conflict(f"cannot approve {id_}: it is {state}")

    async def _look(self, approval: Approval) -> None:
        """Judge a tag that was pushed to a daemon that was killed before it judged the tag."""
        async with self._alone:
            current = self.broker.services.ledger.approvals.get(approval.id)
            if current is not None and current.state is ApprovalState.PENDING:
                with suppress(_Refused):
                    await self._judge(current)

    async def _judge(self, approval: Approval) -> None:
        repo, name = self.repo(approval.agent), f"{TAGS}/{approval.id}"
        # A push writes a loose ref. Reading all refs each second would cost too much.
        if not any((repo.path / place).is_file() for place in (name, "packed-refs")):
            return
        oid = repo.ref(name)
        if not oid or repo.ref(f"{ASIDE}/{oid}"):
            return
        try:
            who = await self.signatures.signer(_read_tag(repo, oid, approval))
            self.broker.perform("approve", lambda call: _approve(call, approval.id, who))
        except _AGAIN:
            raise
        except HiveError as error:
            refusal = self.refuse(approval, oid, error.reason)
            self._put_aside(repo, approval, oid)
            raise refusal from error

    def refuse(self, approval: Approval, oid: str, reason: str) -> NotAllowed:
        """Record that a tag does not approve; return the error for the client that pushed it."""
        log.warning("A signed tag cannot approve %s: %s", approval.id, reason)
        world = self.broker.services
        entry = AuditEntry(
            kind=REFUSED, caller=OPERATOR, operation="approve", target=approval.agent,
            allowed=False, rule=RULE, reason=f"cannot approve {approval.id}: {reason}",
            commit=self.broker.hive.commit, request="", now=world.clock.now(),
            fields={
                "approval": approval.id, "tag": oid, "commit": approval.binding.commit,
                "target_name": self.broker.hive.name(approval.agent) or approval.agent,
            },
        )  # fmt: skip
        with world.ledger.transaction():
            self.broker.audit.write(entry)
        self.broker.touch({EVENTS})
        return _Refused(f"cannot approve {approval.id}: {reason}", rule=RULE)

    @staticmethod
    def _put_aside(repo: AppliedRepo, approval: Approval, oid: str) -> None:
        """Move the tag aside.

        Called after it was recorded, so that a crash in between loses no record.
        """
        with guard_repository(repo.path):
            put_ref(repo.path / ASIDE / oid, oid)
            with suppress(
                FileNotFoundError
            ):  # a ref packed by another git stays, and is not read again
                drop_ref(repo.path / TAGS / approval.id, oid)


def create_signed_approvals(broker: Broker, repo: Callable[[str], AppliedRepo]) -> SignedApprovals:
    """Create the check of signed tags with the allowed signers of the settings."""
    signers = broker.services.settings.approvals.signers
    return SignedApprovals(broker, repo, Signatures(signers))


def _approve(call: Call, approval: str, who: str) -> Record[Decided]:
    current = call.ledger.approvals.get(approval)
    if current is None:
        raise NotFound(f"no approval {approval}")
    return use_approval(call, current, f"{SIGNED}{who}")


def _read_tag(repo: AppliedRepo, oid: str, approval: Approval) -> SignedTag:
    """Read the tag; raise InvalidArgument unless it is on exactly the proposed commit."""
    if not _OID.fullmatch(oid):
        raise InvalidArgument("the ref is damaged", field="tag")
    kind, data = repo.store.read(oid, "a tag")
    if kind != "tag":
        raise InvalidArgument("it is not a signed tag", field="tag")
    tag = read_tag(data)
    if tag.name != f"approve/{approval.id}":
        raise InvalidArgument("the name inside the tag is another one", field="tag")
    if (tag.kind, tag.object) != ("commit", approval.binding.commit):
        raise InvalidArgument(f"it names another {tag.kind} than the proposed one", field="tag")
    return tag
