"""Systems of the image `nix`: evaluated and built in jobs, only after approval.

A job evaluates one agent, from a flake that contains only that agent: all containers can read the
Nix store, so names of other agents must not get there. The build takes the evaluated derivation, so
later changes of inputs or files have no effect (attack 21). Evaluations run one at a time, because
each needs memory for all of nixpkgs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hive_core.errors import Conflict
from hive_core.host.config import nix as nixconf
from hive_core.host.config.nix_profiles import NixProfiles
from hive_core.host.systemd.job_exchange import exchange
from hive_core.model.agents.hive import Hive
from hive_core.model.config.approval import Approval, ApprovalKind
from hive_core.model.config.build_result import SAID_MOST, NixJobResult
from hive_core.model.config.settings import NIX_IMAGE, Settings
from hive_core.plan import flake
from hive_core.plan.actions import JOB_BASES, JobKind, RunJob
from hive_core.plan.agent_steps import new_job_id
from hive_core.ports import Jobs
from hive_core.reconcile.deploy.context import AppliedRepoSource, BuiltSystem


class BuildFailed(Conflict):
    """A Nix job failed; `lines` is the end of its log."""

    def __init__(self, reason: str, lines: str = "") -> None:
        super().__init__(reason)
        self.lines = lines


Read = Callable[[str, int], bytes]
JobWords = Callable[[str], Sequence[str]]
ResultHandler = Callable[[NixJobResult, Read], None]


def _discard(_said: NixJobResult, _read: Read) -> None:
    """Ignore the files that the job wrote."""


@dataclass
class NixJobs:
    """Runs the jobs that use Nix, and reads their results."""

    settings: Settings
    jobs: Jobs
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(
        self,
        kind: JobKind,
        files: Mapping[str, bytes],
        words: JobWords,
        taken: ResultHandler = _discard,
    ) -> NixJobResult:
        """Run a job and return its result. On success, call `taken` before its files are removed.

        `words` is called with the folder for its output, a path that is the same for the host and
        the job.
        """
        job = new_job_id(kind)
        async with self._turn:
            with exchange(self.settings.paths.work, job) as box:
                for name, data in files.items():
                    box.put(name, data)
                job_words = tuple(words(f"{self.settings.paths.work}/{job}/out"))
                await self.jobs.run(RunJob(job, kind, JOB_BASES[0], words=job_words))
                said = NixJobResult.read(box.read("said.json", SAID_MOST))
                if said.ok:
                    taken(said, box.read)
        if not said.ok:
            raise BuildFailed(said.text, said.log)
        return said


@dataclass
class NixBuilder:
    """Builds the system of an approval."""

    nix: NixJobs
    applied: AppliedRepoSource
    profiles: NixProfiles
    fault: Callable[[], str] = nixconf.fault

    async def build(self, approval: Approval, hive: Hive, name: str) -> BuiltSystem:
        """Build the system of one agent; BuildFailed with the reason when it fails."""
        spec = hive.spec(name)
        if spec.image != NIX_IMAGE:
            return BuiltSystem()
        if approval.kind is ApprovalKind.ROLLBACK:
            return BuiltSystem()  # the earlier build was kept
        self._check(approval, hive)
        pin = _pin(name, hive, approval, str(self.nix.settings.paths.runtime))
        evaluated = await self._evaluate(hive, pin)

        def words(out: str) -> list[str]:
            return self._words(out, evaluated, spec.system or "none")

        def keep(said: NixJobResult, _read: object) -> None:
            if said.out is None or said.out != evaluated.out:
                raise BuildFailed("the build result is not the evaluated system")
            self.profiles.link_built(spec.id, approval.id, said.out)

        said = await self.nix.run(JobKind.BUILD, {}, words, keep)
        report = {"drv": evaluated.drv, "built": said.built, "closure": said.closure.model_dump()}
        return BuiltSystem(evaluated.out or "", report)

    def _check(self, approval: Approval, hive: Hive) -> None:
        settings = self.nix.settings.nix
        missing = [name for name in flake.NEEDED if name not in settings.inputs]
        if missing:
            raise BuildFailed(f"hive.toml lacks these [nix] inputs: {', '.join(missing)}")
        if not hive.lock:
            how = "request that with `hive call RequestUpdateMetaInputs '{}'`"
            raise BuildFailed(f"the inputs are not locked yet: {how}")
        if approval.kind is ApprovalKind.CONFIG and approval.binding.lock != hive.lock_hash:
            raise BuildFailed("flake.lock changed since it was approved")
        if not self.profiles.there:
            raise BuildFailed(f"{self.profiles.folder} does not exist: run `hive setup`")
        if fault := self.fault():
            raise BuildFailed(fault)

    async def _evaluate(self, hive: Hive, pin: flake.Pin) -> NixJobResult:
        tree = self.applied.nar(pin.uuid, pin.commit, pin.nar)
        files = {
            "flake.nix": flake.render(self.nix.settings.nix, [pin]),
            "flake.lock": hive.lock,
            "tree.nar": tree,
        }
        seconds = str(int(self.nix.settings.deploy.evaluation))
        said = await self.nix.run(JobKind.EVALUATE, files, lambda _: [pin.name, pin.path, seconds])
        if said.drv is None or said.out is None:
            raise BuildFailed("the evaluation returned no system")
        return said

    def _words(self, out: str, evaluated: NixJobResult, before: str) -> list[str]:
        fetches = "yes" if self.nix.settings.nix.downloads else "no"
        seconds = str(int(self.nix.settings.deploy.build))
        return [str(evaluated.drv), str(evaluated.out), f"{out}/result", before, fetches, seconds]


def _pin(name: str, hive: Hive, approval: Approval, runtime: str) -> flake.Pin:
    """The pin of an agent with the approved files."""
    spec = hive.spec(name)
    if approval.kind is ApprovalKind.CONFIG:
        files = {"config": approval.binding.commit, "nar": approval.binding.nar}
        spec = spec.model_copy(update=files)
    pin = flake.Pin.of(name, hive.topology.parents[name], spec)
    if pin is None:
        raise BuildFailed(f"{name} has no configuration")
    return replace(pin, runtime=runtime)
