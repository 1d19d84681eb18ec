"""Checks a pushed pack in a quarantine: well-formed objects of the expected kinds.

`in/pack` is indexed into a fresh repository. Older objects to which it refers are in another one,
so hived checks later that none is missing; it identifies objects by their hash.
"""

from __future__ import annotations

import resource
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.jobs.git import OID, Git
from hive_core.jobs.outcome import JobRefused, within
from hive_core.plan.intake_limits import IntakeLimits

COMMIT, TAG = "commit", "tag"
KINDS: Final = {COMMIT: ("commit", "tree", "blob"), TAG: ("tag",)}
TAG_MOST: Final = 64 << 10
_MEMORY: Final = 1 << 30
_SPARE: Final = 1 << 20
_SHAPE: Final = "--batch-check=%(objectname) %(objecttype) %(objectsize)"


@dataclass(frozen=True, slots=True)
class ReceiveJob:
    """Checks one push. `new` is the new target of the ref: a commit, or a single tag object."""

    new: str
    kind: str
    caps: IntakeLimits

    def run(self, source: Path, out: Path) -> dict[str, float]:
        """Write `out/pack` and `out/idx`, and `out/tag` with the content of a tag."""
        if not OID.fullmatch(self.new) or self.kind not in KINDS:
            raise JobRefused("object", "an object is named by its 40 hexadecimal digits")
        most = self.caps.pack + _SPARE
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        with tempfile.TemporaryDirectory() as folder:
            git = Git(Path(folder, "fresh"))
            git.make(["[core]", f"\tbigFileThreshold = {self.caps.blob}"])
            self._index(git, source / "pack")
            count = self._check(git)
            for kind, name in (("*.pack", "pack"), ("*.idx", "idx")):
                shutil.copyfile(next(git.pack.glob(kind)), out / name)
            if self.kind == TAG:
                ((_, _, data),) = git.contents([self.new], TAG_MOST)
                (out / "tag").write_bytes(data)
        return {"objects": count}

    def _index(self, git: Git, pack: Path) -> None:
        words = ("--stdin", "--fsck-objects", f"--max-input-size={self.caps.pack}", "--threads=1")
        with pack.open("rb") as source:
            git.run("index-pack", *words, source=source)

    def _check(self, git: Git) -> int:
        """Check number and sizes of the objects: a small pack can expand to much content."""
        words = ("--batch-all-objects", "--unordered", "--buffer")
        rows = [row.split() for row in git.run("cat-file", *words, _SHAPE).splitlines()]
        if len(rows) > self.caps.objects:
            text = f"{len(rows)} objects exceed the limit of {self.caps.objects}"
            raise JobRefused("objects", text)
        kinds, total = dict[str, str](), 0
        for name, kind, size in rows:
            kinds[name] = kind
            total += int(size)
            if kind not in KINDS[self.kind]:
                raise JobRefused("kind", f"{name[:12]} is a {kind}, which does not belong here")
            if int(size) > self.caps.blob:
                text = f"the {kind} {name[:12]} is larger than {self.caps.blob} bytes"
                raise JobRefused("blob", text)
            if total > self.caps.tree:
                raise JobRefused("tree", f"all objects exceed {self.caps.tree} bytes")
        if kinds.get(self.new) != self.kind:
            raise JobRefused(self.kind, f"the pack does not hold the {self.kind} {self.new[:12]}")
        if self.kind == TAG and len(rows) > 1:
            raise JobRefused("tag", "the pack holds more than the tag")
        return len(rows)


def run(words: Sequence[str], root: Path) -> dict[str, float]:
    """The job: NEW KIND CAPS."""
    new, kind, caps = words
    job = ReceiveJob(new, kind, IntakeLimits.of(caps))
    with within(job.caps.seconds):
        return job.run(root / "in", root / "out")
