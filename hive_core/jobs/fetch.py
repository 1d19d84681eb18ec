"""Copies one commit with its history from a repository that an agent owns.

git fetches exactly one object name into a fresh repository: no other ref, no tag, no submodule. So
it requests no list of refs, which could be very long. git checks the objects (all of its warnings
are errors), and this job counts them. `review` trusts none of it.
"""

from __future__ import annotations

import re
import resource
import shutil
import struct
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.jobs.git import OID, Git, severities
from hive_core.jobs.history import check_history
from hive_core.jobs.outcome import JobRefused, within
from hive_core.plan.intake_limits import IntakeLimits

_REF: Final = "refs/hive/incoming/x"
_REPO: Final = re.compile(r"\.|configs/[a-z][a-z0-9-]{0,31}", re.ASCII)
_START: Final = struct.Struct(">4sII")
_MEMORY: Final = 1 << 30
_SPARE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class FetchJob:
    """Fetches `commit` from the repository `repo` below the agent's folder."""

    commit: str
    repo: str
    caps: IntakeLimits

    def run(self, agent: Path, out: Path) -> dict[str, float]:
        """Write `out/pack`; return the figures."""
        source = self._source(agent)
        with tempfile.TemporaryDirectory() as folder:
            git = Git(Path(folder, "quarantine"))
            git.make(_settings(source, self.caps.blob))
            self._limit()
            self._copy(git, source)
            objects = check_history(git, self.commit, self.caps)
            pack = self._pack(git)
            shutil.copyfile(pack, out / "pack")
            return {"objects": len(objects), "pack": pack.stat().st_size}

    def _source(self, agent: Path) -> Path:
        if not OID.fullmatch(self.commit):
            raise JobRefused("commit", "a commit is named by its 40 hexadecimal digits")
        if not _REPO.fullmatch(self.repo):
            raise JobRefused("repository", "this is not the path of a configuration", self.repo)
        source = agent / self.repo / ".git"
        if source.is_symlink() or not source.is_dir():
            raise JobRefused("repository", "this is not a git repository", self.repo)
        return source

    def _limit(self) -> None:
        """Limit files and memory of git and its children; the unit has limits too."""
        most = self.caps.pack + _SPARE
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))

    def _copy(self, git: Git, source: Path) -> None:
        words = ("--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
                 "--no-auto-gc", "--end-of-options")  # fmt: skip
        url, refspec = f"file://{source}", f"{self.commit}:{_REF}"
        try:
            git.run("fetch", *words, url, refspec, watch=lambda: self._measure(git))
        except JobRefused as error:
            if "not our ref" in error.text:
                raise JobRefused("commit", "the repository does not have this commit") from error
            raise

    def _measure(self, git: Git) -> None:
        """Check the size of the pack that has arrived so far."""
        for pack in git.pack.glob("*pack*"):
            with suppress(FileNotFoundError), pack.open("rb") as file:
                start = file.read(_START.size)
                if pack.stat().st_size > self.caps.pack:
                    raise JobRefused("pack", f"larger than {self.caps.pack} bytes")
                if len(start) == _START.size and start.startswith(b"PACK"):
                    self._count(_START.unpack(start)[2])

    def _count(self, objects: int) -> None:
        if objects > self.caps.objects:
            raise JobRefused(
                "objects", f"{objects} objects exceed the limit of {self.caps.objects}"
            )

    def _pack(self, git: Git) -> Path:
        packs = list(git.pack.glob("pack-*.pack"))
        if len(packs) != 1:
            raise JobRefused("pack", f"git wrote {len(packs)} packs, not one")
        return packs[0]


def run(words: Sequence[str], root: Path) -> dict[str, float]:
    """The job: COMMIT REPOSITORY CAPS."""
    commit, repo, caps = words
    job = FetchJob(commit, repo, IntakeLimits.of(caps))
    with within(job.caps.seconds):
        return job.run(root / "agent", root / "out")


def _settings(source: Path, blob: int) -> list[str]:
    return [
        # Only these settings let git read repositories of other users; options do not.
        # https://git-scm.com/docs/git-config#Documentation/git-config.txt-safedirectory
        "[safe]", f"\tdirectory = {source}", f"\tdirectory = {source.parent}",
        "\tbareRepository = explicit", "[protocol]", "\tversion = 2",
        *severities("fetch"), "[fetch]", "\tunpackLimit = 1",
        "[core]", f"\tbigFileThreshold = {blob}", "[pack]", "\tthreads = 1", "[gc]", "\tauto = 0",
    ]  # fmt: skip
