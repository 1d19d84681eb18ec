"""Pushes of operators: a job checks the pack in quarantine, then the commit or tag is judged.

A commit goes to the branch of the meta repository and is adopted or refused like any commit by
hand. A signed tag goes to the repository of its agent; it approves, or is set aside.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from hive_core.errors import Busy, Conflict, HiveError, InvalidArgument, NotAllowed
from hive_core.host.git import gitfolder
from hive_core.host.git.applied_repositories import AppliedRepo
from hive_core.host.git.file_writer import guard_repository, put_ref
from hive_core.host.git.manual_commits import ManualCommits
from hive_core.host.git.pack_exports import PackExports
from hive_core.host.git.pack_format import object_name
from hive_core.host.git.pushed_packs import PushedPacks
from hive_core.host.git.signed_approvals import ASIDE, SignedApprovals
from hive_core.host.storage.uploads import PushUploads
from hive_core.host.systemd.job_exchange import exchange
from hive_core.jobs.receive import COMMIT, TAG, TAG_MOST
from hive_core.model.config.push import (
    APPROVE,
    MAIN,
    META,
    NO_OBJECT,
    PackChunk,
    Push,
    PushProgress,
)
from hive_core.model.config.review import VERDICT, VERDICT_MOST, Verdict
from hive_core.model.config.settings import Settings
from hive_core.plan.actions import JOB_BASES, JobKind, RunJob
from hive_core.plan.agent_steps import new_job_id
from hive_core.plan.intake_limits import IntakeLimits
from hive_core.ports import Jobs

log = logging.getLogger(__name__)
AT_ONCE: Final = 8
BYTES_AT_ONCE: Final = 64 << 20  # total size of packs being judged; each is in memory a few times
SOON: Final = 20.0  # seconds after which a call is answered while the push is still being judged
KEPT: Final = 120.0  # seconds for which the result of a push can be fetched
_SLACK: Final = 2 << 20


@dataclass(frozen=True, slots=True)
class ReceivedPack:
    """The checked pack that the job wrote; `tag` is empty unless a tag was pushed."""

    pack: bytes
    table: bytes
    tag: bytes


@dataclass(frozen=True, slots=True)
class PendingPush:
    """A push that is being judged, and the size of its pack."""

    push: Push
    size: int
    task: asyncio.Task[str]


@dataclass
class Pushes:
    """Receives pushes. `manual_commits` and `signed` judge.

    `repo` returns the repository of an agent.
    """

    settings: Settings
    jobs: Jobs
    manual_commits: Callable[[], ManualCommits]
    signed: Callable[[], SignedApprovals]
    repo: Callable[[str], AppliedRepo]
    uploads: PushUploads
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    _judging: dict[str, PendingPush] = field(default_factory=dict)

    async def push(self, push: Push, part: PackChunk) -> PushProgress:
        """Store a part of a pack. The last part starts the judgement, whose error is raised."""
        self._check(push)
        judging = self._judging.get(part.upload or "")
        if part.upload and judging is not None and judging.push == push:
            return await self._outcome(part.upload)
        data = part.data
        if part.more or part.upload is not None:
            async with self._alone:
                upload = await asyncio.to_thread(self.uploads.add, push, part)
                if part.more:
                    return PushProgress(upload, self.uploads.size(upload))
                # checked before it is taken, so that the client can send the last part again
                self._check_room(self.uploads.size(upload))
                data = await asyncio.to_thread(self.uploads.take, upload)
        if len(data) > self.settings.intake.pack:
            most = self.settings.intake.pack
            raise InvalidArgument(f"cannot push: larger than {most} bytes", field="pack")
        return await self._outcome(self._begin(push, data))

    def _begin(self, push: Push, data: bytes) -> str:
        """Start a task that judges a push; the call may end before the task does."""
        self._check_room(len(data))
        judge = self._commit if push.repo == META else self._tag
        id_, task = uuid4().hex, asyncio.create_task(judge(push, data))
        self._judging[id_] = PendingPush(push, len(data), task)
        task.add_done_callback(lambda done: self._forget_later(id_, done))
        return id_

    def _check_room(self, size: int) -> None:
        """Raise Busy while too many pushes are being judged, or their packs are too large together.

        A judged push does not count, even if no client has fetched its result.
        """
        judging = [pending for pending in self._judging.values() if not pending.task.done()]
        if len(judging) >= AT_ONCE:
            raise Busy(f"cannot push: {AT_ONCE} other pushes are being judged; try again")
        if judging and sum(pending.size for pending in judging) + size > BYTES_AT_ONCE:
            reason = "cannot push: the packs of other pushes fill the memory; try again"
            raise Busy(reason)

    def _forget_later(self, id_: str, task: asyncio.Task[str]) -> None:
        """Keep the result for a while without the pack.

        Reads the error, so that asyncio does not log it.
        """
        error = None if task.cancelled() else task.exception()
        while error is not None:
            traceback.clear_frames(error.__traceback__)
            error = error.__context__
        asyncio.get_running_loop().call_later(KEPT, self._judging.pop, id_, None)

    async def _outcome(self, id_: str) -> PushProgress:
        """The result of a push; while it is being judged, the upload id with which to ask again."""
        pending = self._judging[id_]
        done, _ = await asyncio.wait([pending.task], timeout=SOON)
        if not done:
            return PushProgress(id_, pending.size)
        self._judging.pop(id_, None)
        return PushProgress("", pending.size, pending.task.result())

    def _check(self, push: Push) -> None:
        """Raise InvalidArgument unless operators may push this ref."""
        if push.repo == META and push.ref != MAIN:
            reason = f"cannot push {push.ref[:80]}: commits go to the branch main of meta"
            raise InvalidArgument(reason, field="ref")
        if push.repo != META and not push.ref.startswith(APPROVE):
            reason = f"cannot push {push.ref[:80]}: only a signed tag approve/ID can be pushed here"
            raise InvalidArgument(reason, field="ref")
        if push.new == NO_OBJECT:
            raise InvalidArgument("cannot delete a ref of hived", field="new")

    # A commit by hand

    async def _commit(self, push: Push, data: bytes) -> str:
        if not data:
            raise InvalidArgument("cannot push: the pack is missing", field="pack")
        self.manual_commits().check_expected_head(push.old)
        received = await self._receive(push, COMMIT, data)
        async with self._alone:
            hand = self.manual_commits()
            hand.check_expected_head(push.old)  # it may have moved while the job ran
            packs, parts = PushedPacks(hand.repo.folder), (received.pack, received.table)
            name, is_new = await asyncio.to_thread(packs.store, *parts, push.new)
            try:
                await asyncio.to_thread(hand.repo.check_whole, push.new, push.old)
                hand.push(push.old, push.new)
                packs.keep(name)
            except InvalidArgument:
                if is_new:
                    packs.drop([name])
                raise
            finally:
                await self._remove_abandoned_packs(packs, hand)
        return "adopted"

    async def _remove_abandoned_packs(self, packs: PushedPacks, hand: ManualCommits) -> None:
        """Remove packs of deleted refused commits that no other commit needs.

        A commit that was pushed later may: its clone left out what the refused commit had brought.
        """
        repo = hand.repo
        try:
            refused = await asyncio.to_thread(repo.readable_parked_commits)
            if not (abandoned := await asyncio.to_thread(packs.abandoned_packs, refused)):
                return
            # The branch may lag behind the commit in force, or be ahead of it and not judged yet.
            heads = {repo.head(), hand.broker.hive.commit} - {""}
            wants = [*refused, *sorted(heads)]
            exports = PackExports(self.settings.paths.served)
            needed = await exports.packs_in_use(repo.folder, wants, abandoned)
            for name in needed:
                packs.keep(name)
            await asyncio.to_thread(packs.drop, [it for it in abandoned if it not in needed])
        except HiveError as error:
            log.warning("Cannot remove the packs of refused pushes: %s", error.reason)

    # A signed tag

    async def _tag(self, push: Push, data: bytes) -> str:
        approval = self.signed().approval(push.repo, push.ref.removeprefix(APPROVE))
        repo = self.repo(push.repo)
        if push.old != repo.ref(push.ref).ljust(40, "0"):
            raise Conflict(f"cannot push {push.ref}: it has moved; fetch first")
        if not data:
            raise self.signed().refuse(approval, push.new, "it is not a signed tag")
        if repo.ref(f"{ASIDE}/{push.new}"):
            raise NotAllowed(f"cannot approve {approval.id}: this tag was refused before")
        received = await self._receive(push, TAG, data)
        if object_name("tag", received.tag) != push.new:
            raise InvalidArgument("the pack holds another tag", field="new")
        async with self._alone:
            with guard_repository(repo.path):
                gitfolder.write_loose_object(repo.path, "tag", received.tag)
                put_ref(repo.path / push.ref, push.new)
            await self.signed().judge(approval.id)
        return "approved"

    async def _receive(self, push: Push, kind: str, data: bytes) -> ReceivedPack:
        """Have a job check the pack; raise InvalidArgument if the job refuses it."""
        caps = IntakeLimits(**self.settings.intake.model_dump())
        job = new_job_id(JobKind.RECEIVE)
        with exchange(self.settings.paths.work, job) as box:
            await asyncio.to_thread(box.put, "pack", data)
            words = (push.new, kind, caps.word)
            await self.jobs.run(RunJob(job, JobKind.RECEIVE, JOB_BASES[0], words=words))
            said = Verdict.read(box.read(VERDICT, VERDICT_MOST))
            if said.fault:
                raise Busy(f"cannot check the push: {said.fault}")
            if not said.ok:
                reason = f"cannot push: {said.reason}"
                raise InvalidArgument(reason, field="pack", rule=said.rule)
            most = caps.pack + _SLACK
            pack = await asyncio.to_thread(box.read, "pack", most)
            table = await asyncio.to_thread(box.read, "idx", most)
            return ReceivedPack(pack, table, box.read("tag", TAG_MOST) if kind == TAG else b"")
