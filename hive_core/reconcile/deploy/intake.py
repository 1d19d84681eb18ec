"""Checks one requested commit in two jobs, and makes it a proposal.

Only the first job sees the agent's files; the second sees only a pack and the deployed files. Their
output is untrusted: it is read with limits, and checked by models and hashes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.errors import Conflict
from hive_core.host.git.applied_repositories import ReviewFiles
from hive_core.host.systemd.job_exchange import Exchange, exchange
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.model_catalog import ModelCatalog, check_spec
from hive_core.model.config.agent_config import AgentConfig, parse_agent_config
from hive_core.model.config.approval import Approval, Binding, Effect
from hive_core.model.config.review import (
    DIFF,
    REVIEW,
    REVIEW_MOST,
    VERDICT,
    VERDICT_MOST,
    CommitReview,
    Verdict,
)
from hive_core.model.config.settings import NIX_IMAGE, Settings
from hive_core.plan import nar
from hive_core.plan.actions import JOB_BASES, JobKind, RunJob
from hive_core.plan.agent_steps import new_job_id
from hive_core.plan.effect import ConfiguredAgent, effect, grant
from hive_core.plan.intake_limits import IntakeLimits
from hive_core.ports import Jobs
from hive_core.reconcile.deploy.context import AppliedRepoSource, CheckedRequest
from hive_core.reconcile.deploy.effects import config_in

NO_BASE: Final = "none"
_SLACK: Final = 2 << 20  # bytes in addition to the limited content


@dataclass
class JobIntake:
    """Handles approvals of the kind `config`."""

    settings: Settings
    jobs: Jobs
    applied: AppliedRepoSource
    models: ModelCatalog = field(default_factory=ModelCatalog)

    @property
    def _work(self) -> Path:
        return self.settings.paths.work

    @property
    def _caps(self) -> IntakeLimits:
        return IntakeLimits(**self.settings.intake.model_dump())

    async def take_in(self, approval: Approval, hive: Hive) -> CheckedRequest:
        """Check a commit; Conflict or InvalidArgument refuses it."""
        name = hive.name(approval.agent)
        if name is None:
            raise Conflict("the agent was destroyed")
        spec = hive.spec(name)
        base = b""
        if spec.config:
            read = self.applied.nar
            base = await asyncio.to_thread(read, spec.id, spec.config, spec.nar or "")
        pack = await self._fetch(approval, hive, name)
        parts = await self._review(approval, spec, pack, base)
        review = CommitReview.read(parts.review)
        return self._checked_request(approval, hive, ReviewedCommit(spec, base, parts, review))

    async def _fetch(self, approval: Approval, hive: Hive, name: str) -> bytes:
        """The history of the commit as a pack, from the agent's clone, or from an ancestor's."""
        own = approval.source in ("", approval.agent)
        source = name if own else hive.name(approval.source)
        if source is None:
            raise Conflict("the agent that has the commit was destroyed")
        kind, repo = (JobKind.FETCH, ".") if own else (JobKind.FETCH_CLONE, f"configs/{name}")
        job = new_job_id(kind)
        words = (approval.binding.commit, repo, self._caps.word)
        with exchange(self._work, job) as box:
            await self.jobs.run(RunJob(
                job, kind, JOB_BASES[0], hive.spec(source).id, lineage=hive.path(source),
                words=words,
            ))  # fmt: skip
            _check(box)
            return await asyncio.to_thread(box.read, "pack", self._caps.pack + _SLACK)

    async def _review(
        self, approval: Approval, spec: AgentSpec, pack: bytes, base: bytes
    ) -> ReviewFiles:
        job, caps = new_job_id(JobKind.REVIEW), self._caps
        words = (approval.binding.commit, spec.config or NO_BASE, caps.word)
        with exchange(self._work, job) as box:
            await asyncio.to_thread(box.put, "pack", pack)
            if base:
                await asyncio.to_thread(box.put, "base.nar", base)
            await self.jobs.run(RunJob(job, JobKind.REVIEW, JOB_BASES[0], words=words))
            _check(box)
            return await asyncio.to_thread(_parts, box, caps)

    def _checked_request(
        self, approval: Approval, hive: Hive, reviewed: ReviewedCommit
    ) -> CheckedRequest:
        review, spec = reviewed.review, reviewed.spec
        if review.commit != approval.binding.commit:
            raise Conflict("the job checked another commit")
        if review.agent_toml_fault:
            raise Conflict(review.agent_toml_fault)
        config = parse_agent_config(review.agent_toml or {})
        check_spec(self.models, grant(spec, config.request), spec)
        lock = hive.lock_hash if spec.image == NIX_IMAGE else ""
        binding = Binding(
            review.commit, review.tree, review.nar, spec.config or "", lock, hive.commit
        )  # fmt: skip
        request = config.request.model_dump(mode="json", exclude_none=True)
        figures = {**review.figures, "warnings": list(review.warnings)}
        return CheckedRequest(binding, reviewed.effect(config), request, figures, reviewed.parts)


@dataclass(frozen=True)
class ReviewedCommit:
    """The output of the jobs, beside the agent's spec and files."""

    spec: AgentSpec
    base: bytes
    parts: ReviewFiles
    review: CommitReview

    def effect(self, config: AgentConfig) -> Effect:
        """The effect of a deploy.

        InvalidArgument if the configuration requests an unknown value.
        """
        before = nar.unpack(self.base) if self.base else {}
        after = grant(self.spec, config.request)
        changed = {file.path for file in self.review.changed}
        return effect(
            ConfiguredAgent(self.spec, config_in(before)), ConfiguredAgent(after, config), changed
        )


def _parts(box: Exchange, caps: IntakeLimits) -> ReviewFiles:
    """The files that a review job wrote, each within its limit."""
    return ReviewFiles(
        box.read("pack", caps.pack + _SLACK), box.read("idx", caps.pack + _SLACK),
        box.read("tree.nar", 2 * caps.tree + _SLACK), box.read(REVIEW, REVIEW_MOST),
        box.read(DIFF, 4 * caps.diff + _SLACK),
    )  # fmt: skip


def _check(box: Exchange) -> None:
    said = Verdict.read(box.read(VERDICT, VERDICT_MOST))
    if not said.ok:
        raise Conflict(said.reason)
