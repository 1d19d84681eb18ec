"""Checks a fetched commit again from scratch, and writes what it would change.

`in/pack` is indexed into a fresh repository with git's strictest checks. The history must be
complete, and no other object may be present. Then this job's own walk reads the files, and
everything else is made from them: the archive to deploy, the difference to `in/base.nar`, the
warnings.
"""

from __future__ import annotations

import json
import resource
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.jobs import objects, walk, warnings
from hive_core.jobs.diff import FileDiff
from hive_core.jobs.git import FATAL, OID, Git
from hive_core.jobs.history import check_history
from hive_core.jobs.outcome import JobRefused, line, within
from hive_core.plan import nar, toml
from hive_core.plan.intake_limits import IntakeLimits
from hive_core.plan.printable import escape_bytes

NO_BASE: Final = "none"
_MEMORY: Final = 1 << 30
_COMMIT_MOST: Final = 64 << 10
_PARENTS_MOST: Final = 16
_FRAMES: Final = 4  # ratio of the limit of the diff file to the limit of its text


@dataclass(frozen=True, slots=True)
class ReviewJob:
    """Reviews `commit` against `base`, a commit or `none`."""

    commit: str
    base: str
    caps: IntakeLimits

    def run(self, source: Path, out: Path) -> dict[str, float]:
        """Write pack, idx, tree.nar, review.json and diff.jsonl into `out`."""
        for oid in {self.commit, self.base} - {NO_BASE}:
            if not OID.fullmatch(oid):
                raise JobRefused("commit", "a commit is named by its 40 hexadecimal digits")
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        with tempfile.TemporaryDirectory() as folder:
            git = Git(Path(folder, "fresh"))
            git.make(["[core]", f"\tbigFileThreshold = {self.caps.blob}"])
            self._index(git, source / "pack")
            known = check_history(git, self.commit, self.caps)
            review = self._judge(git, known, source, out)
            for kind, name in (("*.pack", "pack"), ("*.idx", "idx")):
                shutil.copyfile(next(git.pack.glob(kind)), out / name)
        (out / "review.json").write_text(json.dumps(review, ensure_ascii=False), encoding="utf-8")
        return {"objects": len(known), "files": int(str(review["files"]))}

    def _index(self, git: Git, pack: Path) -> None:
        strict = ",".join(f"{message}=error" for message in FATAL)
        words = (
            "--stdin",
            f"--strict={strict}",
            f"--max-input-size={self.caps.pack}",
            "--threads=1",
        )
        with pack.open("rb") as source:
            git.run("index-pack", *words, source=source)

    def _judge(self, git: Git, known: set[str], source: Path, out: Path) -> dict[str, object]:
        ((_, _, data),) = git.contents([self.commit], _COMMIT_MOST)
        commit = objects.commit(data)
        if len(commit.parents) > _PARENTS_MOST:
            raise JobRefused("commit", f"the commit has {len(commit.parents)} parents")
        files = walk.files(git, commit.tree, self.caps)
        archive = nar.pack(files)
        (out / "tree.nar").write_bytes(archive)
        flags = warnings.Warnings()
        if self.base not in {*known, NO_BASE}:
            flags.add(["the commit is not based on the deployed commit"])
        described = _describe(commit, flags)
        for path, (_, content) in files.items():
            flags.add(warnings.about_file(path, content))
        return {
            "commit": self.commit, "tree": commit.tree, "nar": nar.digest(archive), **described,
            "files": len(files), "bytes": sum(len(content) for _, content in files.values()),
            "changed": self._write_diff(_base(source), files, out, flags), **_agent_toml(files),
            "warnings": flags.list(),
        }  # fmt: skip

    def _write_diff(
        self, old: walk.Files, new: walk.Files, out: Path, flags: warnings.Warnings
    ) -> list[dict[str, object]]:
        diff = FileDiff(old, new, self.caps.diff)
        with (out / "diff.jsonl").open("wb") as file:
            for row in diff.rows():
                file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
                if file.tell() > _FRAMES * self.caps.diff:  # many short lines of a long path
                    text = f"the difference with its paths is larger than {self.caps.diff} bytes"
                    raise JobRefused("diff", text, str(row["path"]))
                if row["sign"] == "+":
                    flags.add(warnings.about_text(f"{row['path']}:{row['new']}", str(row["text"])))
        return diff.changed


def _base(source: Path) -> walk.Files:
    file = source / "base.nar"
    return nar.unpack(file.read_bytes()) if file.exists() else {}


def _describe(commit: objects.CommitObject, flags: warnings.Warnings) -> dict[str, object]:
    """Author, date and message of the commit, escaped."""
    subject, _, _ = commit.message.partition(b"\n")
    texts = {"author": escape_bytes(commit.author), "subject": escape_bytes(subject)}
    message = "\n".join(map(escape_bytes, commit.message.split(b"\n")))
    for name, text in {**texts, "message": message}.items():
        flags.add(warnings.about_text(f"the {name} of the commit", text.replace("\n", " ")))
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(min(commit.when, 1 << 37)))
    return {
        "parents": commit.parents, "author": texts["author"][:500], "date": when,
        "subject": texts["subject"][:500], "message": message[:32_000],
    }  # fmt: skip


def _agent_toml(files: walk.Files) -> dict[str, object]:
    """The parsed `agent.toml`, or why it cannot be parsed; both empty if there is none."""
    if toml.FILE not in files:
        return {"agent_toml": None, "agent_toml_fault": ""}
    try:
        return {"agent_toml": toml.parse(files[toml.FILE][1]), "agent_toml_fault": ""}
    except ValueError as error:
        return {"agent_toml": None, "agent_toml_fault": line(f"{toml.FILE}: {error}")}


def run(words: Sequence[str], root: Path) -> dict[str, float]:
    """The job: COMMIT BASE CAPS."""
    commit, base, caps = words
    job = ReviewJob(commit, base, IntakeLimits.of(caps))
    with within(job.caps.seconds):
        return job.run(root / "in", root / "out")
